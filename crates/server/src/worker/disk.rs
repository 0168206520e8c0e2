//! Performing what the log asks for: when and where it is written, when it is made durable, and what happens when there is
//! no space. Any other failure is the caller's to end the process with; nothing is ever tried again after it.
//!
//! A quick disk is written to where the records are gathered, which costs least. Where writes take long they are a thread's,
//! and what comes meanwhile gathers for the next one.

use std::collections::VecDeque;

use quorate_protocol::Instant;
use quorate_wal::{Lsn, Storage, StorageError, Submission, Wal};
use tracing::{error, info};

use super::flusher::{Done, Flusher};

/// How often a submission is tried again for which there was no space.
const SPACE_RETRY_US: u64 = 200_000;
/// After so long without a write, an empty block says that the last one was durable.
const VOUCH_AFTER_US: u64 = 1_000_000;
/// Bytes of records that may gather meanwhile.
const BACKLOG_BYTES_MAX: u64 = 64 << 20;
/// A write that takes longer than this is waited for: a node that cannot write falls silent, and others take over.
const PATIENCE_US: u64 = 200_000;
/// What a write takes is the mean of so many, later ones counting more.
const SMOOTHED_WRITES: u64 = 16;

/// When what was written is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At once, whenever something was written.
    EachTurn,
    /// At most this often: nobody waits for it.
    Every { interval_us: u64 },
    /// Never: the node promises to keep nothing.
    Never,
}

pub(crate) struct Disk<S> {
    storage: S,
    pace: Pace,
    /// What waits for space.
    waiting: Option<Submission>,
    retry_at: Instant,
    /// Bytes of records that had been appended when there was no space any more.
    backlog_from: u64,
    /// Written and not yet durable, up to here.
    unsynced: Option<Lsn>,
    synced_at: Instant,
    submitted: Lsn,
    flusher: Option<Flusher>,
    /// Writes that take longer than this are the thread's.
    flusher_from_us: u64,
    /// Whether anybody waits for what was merely written: then it is written where it is gathered.
    writes_before_speaking: bool,
    /// What the thread writes.
    writing: Option<Writing>,
    /// What a write takes, smoothed.
    write_us: u64,
    /// When to vouch for what was written last, if nothing is written until then.
    vouch_at: Instant,
    /// Segments that nobody needs any more, oldest first.
    removable: VecDeque<u64>,
}

#[derive(Clone, Copy)]
struct Writing {
    lsn: Lsn,
    since: Instant,
}

impl<S: Storage> Disk<S> {
    /// `log` was opened from `storage`.
    pub(crate) fn new(storage: S, log: &Wal, pace: Pace) -> Disk<S> {
        Disk {
            storage,
            pace,
            waiting: None,
            retry_at: Instant(0),
            backlog_from: 0,
            unsynced: None,
            synced_at: Instant(0),
            submitted: log.appended(),
            flusher: None,
            flusher_from_us: 0,
            writes_before_speaking: false,
            writing: None,
            write_us: 0,
            vouch_at: Instant(0),
            removable: VecDeque::new(),
        }
    }

    /// Writes are this thread's once they take longer than `from_us`.
    pub(crate) fn with_flusher(self, flusher: Flusher, from_us: u64) -> Disk<S> {
        Disk { flusher: Some(flusher), flusher_from_us: from_us, ..self }
    }

    pub(crate) fn storage(&self) -> &S {
        &self.storage
    }

    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(crate) fn set_writes_before_speaking(&mut self, writes_before_speaking: bool) {
        self.writes_before_speaking = writes_before_speaking;
    }

    /// Whether what was appended since is not to be written yet, because of what was written before.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// What one write takes now.
    pub(crate) fn write_us(&self) -> u64 {
        self.write_us
    }

    pub(crate) fn has_space(&self) -> bool {
        self.waiting.is_none()
    }

    /// Whether so much waits for space that nothing more may be appended.
    pub(crate) fn is_backed_up(&self, log: &Wal) -> bool {
        let is_waiting = self.is_writing() || !self.has_space();
        is_waiting && log.record_bytes() - self.backlog_from > BACKLOG_BYTES_MAX
    }

    /// Writes what was appended since, or has it written. How far the log is durable now, if that is news.
    pub(crate) fn flush(&mut self, log: &mut Wal, now: Instant) -> Result<Option<Lsn>, StorageError> {
        if self.is_writing() && self.may_hand_out() {
            return Ok(None);
        }
        let finished = self.finish_writing(now)?;
        if self.waiting.is_some() && now < self.retry_at {
            return Ok(finished);
        }
        if now >= self.vouch_at {
            self.vouch_at = Instant::MAX;
            log.vouch();
        }
        let had_space = self.waiting.is_none();
        if let Some(submission) = self.waiting.take().or_else(|| log.submit()) {
            match self.write(&submission, now) {
                Ok(()) => {
                    self.vouch_at = now.after_us(VOUCH_AFTER_US);
                    self.submitted = submission.lsn;
                    if !had_space {
                        info!("there is space for the log again: writes are served");
                    }
                }
                Err(StorageError::NoSpace { .. }) => {
                    if had_space {
                        error!("no space left for the log: writes are refused until there is, reads go on");
                        self.backlog_from = log.record_bytes();
                    }
                    self.waiting = Some(submission);
                    self.retry_at = now.after_us(SPACE_RETRY_US);
                }
                Err(failed) => return Err(failed),
            }
            if self.is_writing() {
                self.backlog_from = log.record_bytes();
            }
        }
        Ok(self.sync_if_due(now)?.or(finished))
    }

    /// Whether a write may be the thread's at all: what is to be durable at once, and is not spoken of before.
    fn may_hand_out(&self) -> bool {
        self.pace == Pace::EachTurn && !self.writes_before_speaking && self.flusher.is_some()
    }

    fn write(&mut self, submission: &Submission, now: Instant) -> Result<(), StorageError> {
        if self.may_hand_out()
            && self.write_us >= self.flusher_from_us
            && let Some(errand) = self.storage.hand_out(submission)?
            && let Some(flusher) = &self.flusher
        {
            flusher.begin(errand);
            self.writing = Some(Writing { lsn: submission.lsn, since: now });
            return Ok(());
        }
        submission.write(&mut self.storage)?;
        self.unsynced = Some(submission.lsn);
        Ok(())
    }

    /// What the thread has finished. How far the log is durable now, if that is news, and what the write took.
    pub(crate) fn take_written(&mut self, now: Instant) -> Result<Option<(Lsn, u64)>, StorageError> {
        let (Some(writing), Some(flusher)) = (self.writing, &self.flusher) else { return Ok(None) };
        let is_late = now >= writing.since.after_us(PATIENCE_US);
        let done = if is_late { Some(flusher.wait()) } else { flusher.try_take() };
        let Some(Done { result, took }) = done else { return Ok(None) };
        self.writing = None;
        result?;
        let took_us = took.as_micros() as u64;
        self.note_write(took_us);
        self.synced_at = now;
        Ok(Some((writing.lsn, took_us)))
    }

    fn finish_writing(&mut self, now: Instant) -> Result<Option<Lsn>, StorageError> {
        let late = self.writing.map_or(now, |writing| now.max(writing.since.after_us(PATIENCE_US)));
        Ok(self.take_written(late)?.map(|(lsn, _)| lsn))
    }

    /// A write with its sync, on whichever thread, took so long.
    pub(crate) fn note_write(&mut self, took_us: u64) {
        self.write_us = (self.write_us * (SMOOTHED_WRITES - 1) + took_us) / SMOOTHED_WRITES;
    }

    /// Writes and syncs everything, whatever the pace; called again once that has come to rest, it vouches for it.
    pub(crate) fn flush_all(&mut self, log: &mut Wal) -> Result<Option<Lsn>, StorageError> {
        self.pace = Pace::EachTurn;
        self.writes_before_speaking = true;
        self.retry_at = Instant(0);
        self.flush(log, Instant::MAX)
    }

    /// Whether records wait to be written.
    pub(crate) fn has_unwritten(&self, log: &Wal) -> bool {
        log.appended() > self.submitted
    }

    /// When [`Disk::flush`] has something to do even if nobody did anything else.
    pub(crate) fn next_due(&self, log: &Wal) -> Instant {
        if let Some(writing) = self.writing {
            // Whoever writes wakes the worker.
            return writing.since.after_us(PATIENCE_US).min(self.to_remove());
        }
        let to_write = match self.waiting {
            Some(_) => self.retry_at,
            None if self.has_unwritten(log) => Instant(0),
            None => Instant::MAX,
        };
        let to_sync = self.unsynced.map_or(Instant::MAX, |_| self.sync_due_at());
        to_write.min(to_sync).min(self.vouch_at).min(self.to_remove())
    }

    fn to_remove(&self) -> Instant {
        if self.removable.is_empty() { Instant::MAX } else { Instant(0) }
    }

    /// Removes one of the segments that nobody needs any more. Each costs syncs, and one checkpoint may set dozens free: in a
    /// single turn that would take as long as a node is waited for. Those that a stop leaves the next start finds.
    pub(crate) fn trim(&mut self, log: &mut Wal) -> Result<(), StorageError> {
        self.removable.extend(log.removable());
        self.removable.pop_front().map_or(Ok(()), |segment| self.storage.remove(segment))
    }

    fn sync_due_at(&self) -> Instant {
        match self.pace {
            Pace::EachTurn | Pace::Never => Instant(0),
            Pace::Every { interval_us } => self.synced_at.after_us(interval_us),
        }
    }

    fn sync_if_due(&mut self, now: Instant) -> Result<Option<Lsn>, StorageError> {
        if now < self.sync_due_at() {
            return Ok(None);
        }
        let Some(lsn) = self.unsynced.take() else { return Ok(None) };
        if self.pace != Pace::Never {
            self.storage.sync()?;
        }
        self.synced_at = now;
        Ok(Some(lsn))
    }
}

#[cfg(test)]
mod tests {
    use quorate_wal::file::FileStorage;
    use quorate_wal::memory::MemoryStorage;
    use quorate_wal::{Kind, SEGMENT_BYTES_MIN, Settings};

    use super::*;

    fn log(storage: &MemoryStorage) -> Wal {
        let settings = Settings { segment_bytes: SEGMENT_BYTES_MIN, ..Settings::new(7) };
        Wal::open(storage, settings, |_| {}).unwrap()
    }

    fn disk(pace: Pace) -> (Disk<MemoryStorage>, Wal) {
        let storage = MemoryStorage::default();
        let log = log(&storage);
        (Disk::new(storage, &log, pace), log)
    }

    #[test]
    fn without_space_a_submission_waits_and_nothing_is_lost_or_reordered() {
        let (mut disk, mut log) = disk(Pace::EachTurn);
        disk.storage.set_capacity(0);
        log.append(1, Kind::Slot(0), b"first");
        assert_eq!(disk.flush(&mut log, Instant(0)).unwrap(), None);
        assert!(!disk.has_space());
        log.append(1, Kind::Slot(1), b"second");
        // Not before it is time, and then still not.
        disk.storage.set_capacity(u64::MAX);
        assert_eq!(disk.flush(&mut log, Instant(SPACE_RETRY_US - 1)).unwrap(), None);
        assert_eq!(disk.next_due(&log), Instant(SPACE_RETRY_US));
        let first = disk.flush(&mut log, Instant(SPACE_RETRY_US)).unwrap().expect("there is space");
        assert!(disk.has_space());
        log.completed(first);
        assert_eq!(disk.next_due(&log), Instant(0), "the second record is still to be written");
        let second = disk.flush(&mut log, Instant(SPACE_RETRY_US)).unwrap().expect("there is space");
        assert!(second > first);
        let mut recovered = Vec::new();
        let settings = Settings { segment_bytes: SEGMENT_BYTES_MIN, ..Settings::new(7) };
        Wal::open(&disk.storage, settings, |record| recovered.push(record.bytes.to_vec())).unwrap();
        assert_eq!(recovered, [&b"first"[..], b"second"]);
    }

    #[test]
    fn what_waits_for_space_is_bounded() {
        let (mut disk, mut log) = disk(Pace::EachTurn);
        disk.storage.set_capacity(0);
        let record = vec![7; BACKLOG_BYTES_MAX as usize / 8];
        for slot in 0..16 {
            log.append(1, Kind::Slot(slot), &record);
            assert_eq!(disk.flush(&mut log, Instant(0)).unwrap(), None);
            assert_eq!(disk.is_backed_up(&log), slot >= 8, "after slot {slot}");
        }
        disk.storage.set_capacity(u64::MAX);
        disk.flush(&mut log, Instant(SPACE_RETRY_US)).unwrap().expect("there is space");
        assert!(!disk.is_backed_up(&log));
    }

    #[test]
    fn a_failed_sync_is_told_and_not_tried_again() {
        let (mut disk, mut log) = disk(Pace::EachTurn);
        disk.storage.fail_next_sync();
        log.append(1, Kind::State, b"state");
        assert!(disk.flush(&mut log, Instant(0)).is_err());
        log.append(1, Kind::State, b"state");
        assert!(disk.flush(&mut log, Instant(1)).is_err());
    }

    #[test]
    fn what_was_written_last_is_vouched_for_once_nothing_follows() {
        let (mut disk, mut log) = disk(Pace::EachTurn);
        let mut now = Instant(0);
        let mut blocks = Vec::new();
        for record in [Some(b"first"), Some(b"other"), None] {
            record.iter().for_each(|record| log.append(1, Kind::State, *record));
            while disk.next_due(&log) < Instant::MAX {
                now = now.max(disk.next_due(&log));
                if let Some(durable) = disk.flush(&mut log, now).unwrap() {
                    log.completed(durable);
                }
            }
            blocks.push((log.statistics().block_count, now.0));
        }
        assert_eq!(blocks, [(2, 2_000_000), (4, 4_000_000), (4, 4_000_000)], "one after each record, a second later");
        // A restart vouches for what it found, and a clean stop for what it wrote.
        let storage = disk.storage.clone();
        let mut log = self::log(&storage);
        let mut disk = Disk::new(storage, &log, Pace::EachTurn);
        log.append(1, Kind::State, b"third");
        for _ in 0..2 {
            let durable = disk.flush_all(&mut log).unwrap().expect("written");
            log.completed(durable);
        }
        assert_eq!((disk.flush_all(&mut log).unwrap(), log.statistics().block_count), (None, 2));
    }

    /// A log in a directory that goes with the test, written by a thread.
    struct Threaded {
        directory: std::path::PathBuf,
        disk: Disk<FileStorage>,
        log: Wal,
    }

    impl Threaded {
        fn new(name: &str) -> Threaded {
            let directory = std::env::temp_dir().join(format!("quorate-disk-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&directory);
            let storage = FileStorage::open(&directory).unwrap();
            let settings = Settings { segment_bytes: SEGMENT_BYTES_MIN, ..Settings::new(7) };
            let log = Wal::open(&storage, settings, |_| {}).unwrap();
            let poll = mio::Poll::new().unwrap();
            let waker = std::sync::Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
            let flusher = Flusher::start(waker).unwrap();
            let disk = Disk::new(storage, &log, Pace::EachTurn).with_flusher(flusher, 0);
            Threaded { directory, disk, log }
        }

        /// Waits until the thread has written what it was given.
        fn written(&mut self) -> Lsn {
            let (durable, _) = self.disk.take_written(Instant(PATIENCE_US)).unwrap().expect("something is written");
            self.log.completed(durable);
            durable
        }
    }

    impl Drop for Threaded {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn what_comes_while_a_thread_writes_is_written_next() {
        let mut threaded = Threaded::new("next");
        for slot in 0..40 {
            let Threaded { disk, log, .. } = &mut threaded;
            log.append(1, Kind::Slot(2 * slot), &[7; 1500]);
            let first = log.appended();
            assert_eq!(disk.flush(log, Instant(0)).unwrap(), None);
            assert!(disk.is_writing() && !disk.has_unwritten(log));
            log.append(1, Kind::Slot(2 * slot + 1), &[7; 1500]);
            assert_eq!(disk.flush(log, Instant(0)).unwrap(), None);
            assert!(disk.has_unwritten(log));
            assert_eq!(disk.next_due(log), Instant(PATIENCE_US), "the thread wakes the worker");
            assert_eq!(threaded.written(), first);
            let Threaded { disk, log, .. } = &mut threaded;
            assert_eq!(disk.next_due(log), Instant(0));
            disk.flush(log, Instant(0)).unwrap();
            assert!(threaded.written() > first);
        }
        let mut slots = 0;
        let settings = Settings { segment_bytes: SEGMENT_BYTES_MIN, ..Settings::new(7) };
        Wal::open(&FileStorage::open(&threaded.directory).unwrap(), settings, |record| {
            assert_eq!(record.bytes, [7; 1500]);
            slots += 1;
        })
        .unwrap();
        assert_eq!(slots, 80);
    }

    #[test]
    fn nothing_is_left_to_the_thread_that_is_spoken_of_before_it_is_durable() {
        let mut threaded = Threaded::new("spoken");
        let Threaded { disk, log, .. } = &mut threaded;
        log.append(1, Kind::Slot(0), b"first");
        assert_eq!(disk.flush(log, Instant(0)).unwrap(), None);
        log.append(1, Kind::Slot(1), b"second");
        disk.set_writes_before_speaking(true);
        assert_eq!(disk.flush(log, Instant(0)).unwrap(), Some(log.appended()), "both, in their order");
        log.append(1, Kind::Slot(2), b"third");
        disk.set_writes_before_speaking(false);
        assert_eq!(disk.flush(log, Instant(0)).unwrap(), None);
        assert_eq!(disk.flush_all(log).unwrap(), Some(log.appended()), "a stop waits");
    }

    #[test]
    fn a_quick_disk_needs_no_thread() {
        let mut threaded = Threaded::new("quick");
        let Threaded { disk, log, .. } = &mut threaded;
        disk.flusher_from_us = 100;
        for (took_us, is_thread) in [(99, false), (5_000, true)] {
            (0..100).for_each(|_| disk.note_write(took_us));
            log.append(1, Kind::State, b"state");
            assert_eq!(disk.flush(log, Instant(0)).unwrap().is_none(), is_thread);
        }
        threaded.written();
    }

    #[test]
    fn segments_go_one_a_turn() {
        let (mut disk, mut log) = disk(Pace::EachTurn);
        for slot in 0..40 {
            log.append(1, Kind::Slot(slot), &[7; 4000]);
            let durable = disk.flush(&mut log, Instant(slot)).unwrap().expect("written");
            log.completed(durable);
        }
        let count = |disk: &Disk<MemoryStorage>| disk.storage.segments().unwrap().len();
        let many = count(&disk);
        assert!(many > 9);
        log.release(1, 40, log.durable());
        while disk.next_due(&log) == Instant(0) || count(&disk) == many {
            let before = count(&disk);
            disk.trim(&mut log).unwrap();
            assert_eq!(count(&disk), before - 1);
        }
        assert_eq!(count(&disk), 1, "the newest stays");
    }

    #[test]
    fn at_an_interval_much_is_written_and_little_is_synced() {
        let (mut disk, mut log) = disk(Pace::Every { interval_us: 100 });
        let mut durable = Vec::new();
        for now in 1000..1300 {
            log.append(1, Kind::State, b"state");
            durable.extend(disk.flush(&mut log, Instant(now)).unwrap().map(|lsn| {
                log.completed(lsn);
                now
            }));
        }
        assert_eq!(durable, [1000, 1100, 1200]);
        assert_eq!(disk.next_due(&log), Instant(1300));
        assert!(disk.flush_all(&mut log).unwrap().is_some());
        assert_eq!(disk.next_due(&log), Instant::MAX);
    }
}
