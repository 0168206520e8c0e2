//! Who may use a node: the password of clients and the token of administrators.
//!
//! A password is chosen by people, so it is kept as an argon2 hash, which takes tens of milliseconds and 19 MiB to
//! check. The worker must not stand still for that: [`Gate`] has it done on a thread of its own, once for all who
//! give the same password meanwhile, and remembers a right one under a key that no other process has, so that clients
//! that come back in thousands cost next to nothing. Wrong ones are counted by where they come from.

mod attempts;
pub mod secrets;
mod verifier;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use mio::Waker;
use quorate_front::{ConnectionId, Verdict};
use quorate_protocol::Instant;
use tracing::warn;
use zeroize::Zeroizing;

use attempts::Attempts;
use secrets::{PASSWORD_BYTES_MAX, PasswordHash};
use verifier::{Job, Key, Verdicts};

/// Different passwords that wait for their verdict, the one that is being looked at included.
const PENDING_MAX: usize = 64;

const BUSY: &str = "ERR too many passwords are being checked, try again";

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Passwords that were wrong.
    pub(crate) wrong: u64,
    /// Passwords that nobody looked at, for want of time or because too many before them were wrong.
    pub(crate) refused: u64,
}

/// The worker's end of it.
pub(crate) struct Gate {
    waker: Arc<Waker>,
    /// There is no password.
    is_open: bool,
    /// None as long as there has never been a password.
    checked: Option<Checked>,
    attempts: Attempts,
    pub(crate) counters: Counters,
}

struct Checked {
    jobs: SyncSender<Job>,
    verdicts: Verdicts,
    key: Key,
    hash: Arc<PasswordHash>,
    /// Of the password that was found right.
    right: Option<verifier::Tag>,
    pending: Vec<Pending>,
}

/// A password on its way, and all who gave it.
struct Pending {
    tag: verifier::Tag,
    /// What it is checked against.
    hash: Arc<PasswordHash>,
    waiting: Vec<(ConnectionId, Option<IpAddr>)>,
}

impl Gate {
    /// With a hash, starts the thread that checks passwords against it; it wakes the worker for each verdict.
    pub(crate) fn new(hash: Option<PasswordHash>, waker: &Arc<Waker>) -> std::io::Result<Gate> {
        let (attempts, counters) = (Attempts::default(), Counters::default());
        let mut gate = Gate { waker: waker.clone(), is_open: true, checked: None, attempts, counters };
        gate.set_password(hash)?;
        Ok(gate)
    }

    /// Another password from now on, or none. Those who are let in already stay.
    pub(crate) fn set_password(&mut self, hash: Option<PasswordHash>) -> std::io::Result<()> {
        self.is_open = hash.is_none();
        match (hash.map(Arc::new), &mut self.checked) {
            // Who waits for a verdict still gets it.
            (None, _) => {}
            (Some(hash), Some(checked)) => {
                checked.hash = hash;
                checked.right = None;
            }
            (Some(hash), checked) => {
                let (jobs, receiver) = sync_channel(PENDING_MAX);
                let verdicts = verifier::start(receiver, self.waker.clone())?;
                *checked =
                    Some(Checked { jobs, verdicts, key: Key::random()?, hash, right: None, pending: Vec::new() });
            }
        }
        Ok(())
    }

    /// The verdict on a password, or `None`: then it comes by [`Gate::take_verdicts`].
    pub(crate) fn verify(
        &mut self,
        connection: ConnectionId,
        address: &str,
        password: &[u8],
        now: Instant,
    ) -> Option<Verdict> {
        let Some(checked) = self.checked.as_mut().filter(|_| !self.is_open) else { return Some(Verdict::Right) };
        let source = address.parse().ok().map(|address: SocketAddr| address.ip());
        // Before anything else: whoever may not guess must not learn even of a right guess.
        if let Err(wait_s) = self.attempts.check(source, now) {
            self.counters.refused += 1;
            let text = format!("ERR too many wrong passwords from this address, try again in {wait_s} s");
            return Some(Verdict::Refused(text));
        }
        if password.len() > PASSWORD_BYTES_MAX {
            self.note_wrong(source, now);
            return Some(Verdict::Wrong);
        }
        let verdict = checked.begin(connection, source, password);
        self.counters.refused += u64::from(verdict.as_ref().is_some_and(|verdict| *verdict != Verdict::Right));
        verdict
    }

    /// The verdicts that have come since the last call.
    pub(crate) fn take_verdicts(&mut self, now: Instant, mut each: impl FnMut(ConnectionId, Verdict)) {
        let Some(checked) = &mut self.checked else { return };
        for (pending, is_right) in checked.take() {
            for (connection, source) in pending.waiting {
                if !is_right {
                    self.note_wrong(source, now);
                }
                each(connection, if is_right { Verdict::Right } else { Verdict::Wrong });
            }
        }
    }

    fn note_wrong(&mut self, source: Option<IpAddr>, now: Instant) {
        self.counters.wrong += 1;
        self.attempts.note_wrong(source, now);
        match source {
            Some(source) => warn!("a client at {source} gave a wrong password"),
            None => warn!("a client gave a wrong password"),
        }
    }
}

impl Checked {
    fn begin(&mut self, connection: ConnectionId, source: Option<IpAddr>, password: &[u8]) -> Option<Verdict> {
        let tag = self.key.tag(password);
        if self.right.as_ref() == Some(&tag) {
            return Some(Verdict::Right);
        }
        let is_same = |pending: &&mut Pending| Arc::ptr_eq(&pending.hash, &self.hash) && pending.tag == tag;
        if let Some(pending) = self.pending.iter_mut().find(is_same) {
            pending.waiting.push((connection, source));
            return None;
        }
        if self.pending.len() >= PENDING_MAX {
            return Some(Verdict::Refused(BUSY.to_owned()));
        }
        let job = Job { password: Zeroizing::new(password.to_vec()), hash: self.hash.clone() };
        match self.jobs.try_send(job) {
            Ok(()) => {
                self.pending.push(Pending { tag, hash: self.hash.clone(), waiting: vec![(connection, source)] });
                None
            }
            // It takes them one by one, or has ended, which it only does by a bug.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Some(Verdict::Refused(BUSY.to_owned())),
        }
    }

    /// Those of whom it is known now, in the order in which they came.
    fn take(&mut self) -> Vec<(Pending, bool)> {
        let mut taken = Vec::new();
        while let Ok(is_right) = self.verdicts.try_recv() {
            // One at a time, from a queue: the verdict is on the oldest.
            let pending = self.pending.remove(0);
            // It may have been right until a moment ago.
            if is_right && Arc::ptr_eq(&pending.hash, &self.hash) {
                self.right = Some(pending.tag.clone());
            }
            taken.push((pending, is_right));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll, Token};
    use quorate_front::{Access, Front, Limits};

    use super::*;

    struct Scene {
        poll: Poll,
        gate: Gate,
        front: Front,
    }

    impl Scene {
        fn new(password: &str) -> Scene {
            let poll = Poll::new().expect("a poll");
            let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
            let hash = secrets::cheap_hash(password.as_bytes());
            let gate = Gate::new(Some(hash), &waker).expect("a thread");
            Scene { poll, gate, front: Front::new(Limits::default(), Access::Password) }
        }

        fn connection(&mut self) -> ConnectionId {
            self.front.connected(String::new(), String::new(), 0)
        }

        /// Waits until there are so many verdicts.
        fn verdicts(&mut self, count: usize, now: Instant) -> Vec<(ConnectionId, Verdict)> {
            let mut verdicts = Vec::new();
            let mut events = Events::with_capacity(8);
            while verdicts.len() < count {
                self.gate.take_verdicts(now, |connection, verdict| verdicts.push((connection, verdict)));
                if verdicts.len() < count {
                    self.poll.poll(&mut events, Some(Duration::from_secs(20))).expect("a poll");
                    assert!(!events.is_empty(), "a verdict in time");
                }
            }
            verdicts
        }
    }

    const NOW: Instant = Instant(5_000_000);

    #[test]
    fn all_who_give_the_same_password_get_one_verdict_and_the_right_one_is_remembered() {
        let mut scene = Scene::new("secret");
        let all: Vec<ConnectionId> = (0..3 * PENDING_MAX).map(|_| scene.connection()).collect();
        for (number, &connection) in all.iter().enumerate() {
            let address = format!("10.0.0.{}:1", number % 250);
            assert_eq!(scene.gate.verify(connection, &address, b"secret", NOW), None);
        }
        let found = scene.verdicts(all.len(), NOW);
        assert_eq!(found, all.iter().map(|&connection| (connection, Verdict::Right)).collect::<Vec<_>>());
        let again = scene.connection();
        assert_eq!(scene.gate.verify(again, "10.0.0.1:1", b"secret", NOW), Some(Verdict::Right));
        assert_eq!(scene.gate.verify(again, "10.0.0.1:1", b"Secret", NOW), None);
        assert_eq!(scene.verdicts(1, NOW), [(again, Verdict::Wrong)]);
        assert_eq!(scene.gate.counters, Counters { wrong: 1, refused: 0 });
    }

    #[test]
    fn a_new_password_is_asked_for_at_once_and_the_old_one_is_forgotten() {
        let mut scene = Scene::new("old");
        let connection = scene.connection();
        let verify = |scene: &mut Scene, password: &[u8]| scene.gate.verify(connection, "10.0.0.1:1", password, NOW);
        assert_eq!(verify(&mut scene, b"old"), None);
        // While the old one is being checked, which must not make it the right one again.
        scene.gate.set_password(Some(secrets::cheap_hash(b"new"))).expect("its thread runs");
        assert_eq!(verify(&mut scene, b"old"), None, "against the other hash");
        assert_eq!(scene.verdicts(2, NOW), [(connection, Verdict::Right), (connection, Verdict::Wrong)]);
        assert_eq!(verify(&mut scene, b"old"), None);
        assert_eq!(verify(&mut scene, b"new"), None);
        assert_eq!(scene.verdicts(2, NOW), [(connection, Verdict::Wrong), (connection, Verdict::Right)]);
        assert_eq!(verify(&mut scene, b"new"), Some(Verdict::Right));
        scene.gate.set_password(None).expect("nothing to start");
        assert_eq!(verify(&mut scene, b"any"), Some(Verdict::Right));
        scene.gate.set_password(Some(secrets::cheap_hash(b"new"))).expect("its thread runs");
        assert_eq!(verify(&mut scene, b"any"), None);
        assert_eq!(scene.verdicts(1, NOW), [(connection, Verdict::Wrong)]);
    }

    #[test]
    fn only_so_many_different_passwords_wait() {
        let mut scene = Scene::new("secret");
        let connection = scene.connection();
        // Somebody has taken the thread's jobs, so that none is done: the queue alone is looked at.
        let (jobs, _receiver) = sync_channel(PENDING_MAX);
        scene.gate.checked.as_mut().expect("a password").jobs = jobs;
        for number in 0..PENDING_MAX {
            assert_eq!(scene.gate.verify(connection, "10.0.0.1:1", format!("{number}").as_bytes(), NOW), None);
        }
        let verdict = scene.gate.verify(connection, "10.0.0.1:1", b"one more", NOW);
        assert_eq!(verdict, Some(Verdict::Refused(BUSY.to_owned())));
        assert_eq!(scene.gate.verify(connection, "10.0.0.1:1", b"0", NOW), None, "it waits with the first");
        assert_eq!(scene.gate.counters, Counters { wrong: 0, refused: 1 });
    }

    #[test]
    fn a_password_is_only_so_long() {
        let mut scene = Scene::new(&"x".repeat(PASSWORD_BYTES_MAX));
        let connection = scene.connection();
        let longest = vec![b'x'; PASSWORD_BYTES_MAX];
        assert_eq!(scene.gate.verify(connection, "10.0.0.1:1", &longest, NOW), None);
        assert_eq!(scene.verdicts(1, NOW), [(connection, Verdict::Right)]);
        let longer = vec![b'x'; PASSWORD_BYTES_MAX + 1];
        assert_eq!(scene.gate.verify(connection, "10.0.0.1:1", &longer, NOW), Some(Verdict::Wrong));
    }

    #[test]
    fn whoever_guesses_too_often_is_not_even_told_of_a_right_guess() {
        let mut scene = Scene::new("secret");
        let connection = scene.connection();
        for number in 0..attempts::BURST {
            let guess = format!("{number}");
            assert_eq!(scene.gate.verify(connection, "10.0.0.1:1", guess.as_bytes(), NOW), None);
            assert_eq!(scene.verdicts(1, NOW), [(connection, Verdict::Wrong)]);
        }
        for guess in ["secret", "other"] {
            let verdict = scene.gate.verify(connection, "10.0.0.1:2", guess.as_bytes(), NOW);
            let text = "ERR too many wrong passwords from this address, try again in 1 s";
            assert_eq!(verdict, Some(Verdict::Refused(text.to_owned())));
        }
        assert_eq!(scene.gate.verify(connection, "10.0.0.2:1", b"secret", NOW), None, "another address");
        assert_eq!(scene.verdicts(1, NOW), [(connection, Verdict::Right)]);
        let later = NOW.after_us(attempts::REFILL_US);
        assert_eq!(scene.gate.verify(connection, "10.0.0.1:1", b"secret", later), Some(Verdict::Right));
    }
}
