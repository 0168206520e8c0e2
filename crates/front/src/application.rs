//! FCALL: an object is given to an application, which says what it becomes and what the client is answered.
//!
//! An application gets all calls that wait for one object together: the object is read, each call is given what the one
//! before has made of it, and what comes of that is stored if the object is still what was read. If it is not, all of it begins anew.
//! Nobody is answered before. So each call takes place in one step, when the object is stored or, where it stays as it is,
//! read; and an application need know nothing of replicas, may answer the same call differently, and may fail at any time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_object::{Command, Condition, Expiry, NAME_BYTES_MAX, Outcome, SetAnswer, slot_of_key};
use quorate_resp::{Request as Words, parse_integer};
use slab::Slab;

use crate::backend::{Answer, Backend, Failure, OperationId, ReplyTree, Request, Target};
use crate::front::Front;
use crate::object_command::Call;
use crate::operations::{Asker, Waiter};
use crate::refusal::Refusal;
use crate::specs::Id;

/// Calls that an application gets together.
const TOGETHER_MAX: usize = 100;
/// How long it is tried to store an object that others change meanwhile.
const PATIENCE_US: u64 = 5_000_000;
/// What an object was and what it becomes are sent together, in one command.
const TOGETHER_BYTES_MAX: usize = 19 << 20;
const TOO_LARGE: &str =
    "APPLICATION not executed: what the object was and what it would become are larger than 19 MiB together";
/// Objects that one application is given or that are read for it at once; more of them would only wait in memory.
const OBJECTS_AT_ONCE: usize = 64;
const CONTENDED: &str = "TRYAGAIN not executed: others kept changing the object, try again";

/// Numbers what an application is given; it is used again once [`Front::worked`] has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobId(usize);

/// An object for its application.
#[derive(Debug)]
pub struct Job {
    pub id: JobId,
    /// As [`Backend::application`] numbers it.
    pub application: usize,
    pub key: Vec<u8>,
    /// None where there is no object.
    pub object: Option<Arc<Vec<u8>>>,
    pub calls: Vec<JobCall>,
}

/// What one client wants of the object.
#[derive(Clone, Debug)]
pub struct JobCall {
    pub words: Arc<Words>,
    /// The object is to stay as it is.
    pub only_reads: bool,
}

/// What has become of a [`Job`].
#[derive(Debug)]
pub struct Worked {
    pub id: JobId,
    pub object: Option<Arc<Vec<u8>>>,
    /// One for each call, or for the first of them: the others wait until these are stored. Where a call has failed the object is what it
    /// was before it.
    pub replies: Vec<ReplyTree>,
}

/// The objects that applications work on.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    works: Slab<Work>,
    /// By namespace, application and key.
    by_object: BTreeMap<(u32, usize, Vec<u8>), usize>,
    jobs: Vec<Job>,
    /// Works whose objects are to be read once there is a backend.
    unread: Vec<usize>,
    /// By application.
    busy: BTreeMap<usize, Busy>,
}

/// How many objects an application has.
#[derive(Debug, Default)]
struct Busy {
    objects: usize,
    /// Works that are not begun, for it has so many.
    held: VecDeque<usize>,
}

impl Busy {
    /// Whether the work is begun at once.
    fn begins(&mut self, index: usize) -> bool {
        if self.objects < OBJECTS_AT_ONCE {
            self.objects += 1;
            return true;
        }
        self.held.push_back(index);
        false
    }

    /// Which work is begun in the place of one that has ended.
    fn end_one(&mut self) -> Option<usize> {
        let next = self.held.pop_front();
        self.objects -= usize::from(next.is_none());
        next
    }
}

/// One object, from the first call to when none waits for it.
#[derive(Debug)]
struct Work {
    namespace: u32,
    application: usize,
    key: Vec<u8>,
    /// Calls that came later than those that are given.
    waiting: Vec<Waiting>,
    given: Vec<Waiting>,
    /// The object that the calls are given.
    object: Option<Arc<Vec<u8>>>,
    /// It was read after these calls had come; otherwise it is what was stored for the calls before.
    is_read: bool,
    /// What the application said, while it is stored or found to hold.
    worked: Option<Worked>,
    is_storing: bool,
}

#[derive(Debug)]
struct Waiting {
    waiter: Waiter,
    begun_us: u64,
    call: JobCall,
}

impl Applications {
    pub(crate) fn take_jobs(&mut self) -> Vec<Job> {
        core::mem::take(&mut self.jobs)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.works.is_empty()
    }

    fn give(&mut self, index: usize) {
        let work = &self.works[index];
        self.jobs.push(Job {
            id: JobId(index),
            application: work.application,
            key: work.key.clone(),
            object: work.object.clone(),
            calls: work.given.iter().map(|waiting| waiting.call.clone()).collect(),
        });
    }

    /// Reads the object once more for the calls that are given, if there are any.
    fn go_on(&mut self, index: usize) {
        match self.works[index].given.is_empty() {
            true => self.next(index, None),
            false => self.unread.push(index),
        }
    }

    /// Goes on with calls that have come meanwhile, for which the object is what was just stored if that is known.
    fn next(&mut self, index: usize, stored: Option<Option<Arc<Vec<u8>>>>) {
        let work = &mut self.works[index];
        if work.waiting.is_empty() {
            let work = self.works.remove(index);
            let held = self.busy.get_mut(&work.application).and_then(Busy::end_one);
            self.unread.extend(held);
            self.by_object.remove(&(work.namespace, work.application, work.key));
            return;
        }
        let Some(object) = stored else { return self.unread.push(index) };
        work.take_waiting();
        work.is_read = false;
        work.object = object;
        self.give(index);
    }
}

impl Work {
    fn take_waiting(&mut self) {
        let count = self.waiting.len().min(TOGETHER_MAX);
        self.given = self.waiting.drain(..count).collect();
    }

    /// Whether there was more than one call, of which the later half waits again.
    fn is_given_fewer(&mut self) -> bool {
        if self.given.len() < 2 {
            return false;
        }
        self.worked = None;
        let later = self.given.split_off(self.given.len().div_ceil(2));
        self.waiting.splice(..0, later);
        true
    }
}

/// FCALL application 1 key [word ...]
pub(crate) fn submit<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    backend: &mut B,
) -> Result<(), Refusal> {
    let name = call.word(1);
    let application = backend.application(name).ok_or_else(|| {
        Refusal::quoting("ERR Function not found: this node has no application '", name, "' in its configuration")
    })?;
    let key_count = parse_integer(call.word(2)).ok_or(Refusal::fixed("ERR Bad number of keys provided"))?;
    if key_count < 0 {
        return Err(Refusal::fixed("ERR Number of keys can't be negative"));
    }
    if key_count as usize > call.words.len() - 3 {
        return Err(Refusal::fixed("ERR Number of keys can't be greater than number of args"));
    }
    if key_count != 1 {
        return Err(Refusal::fixed("ERR an application is given one object at a time: give it 1 key"));
    }
    let key = call.word(3);
    if key.len() > NAME_BYTES_MAX {
        return Err(Refusal::KEY_TOO_LONG);
    }
    let connection = &mut front.connections[index];
    let namespace = connection.client.namespace;
    let sequence = connection.await_answer(front.operations.next());
    connection.note_operation();
    connection.bar();
    let waiter = Waiter { connection: index as u32, generation: connection.generation, sequence };
    let words = Arc::new(call.words.from(4).to_request());
    let call = JobCall { words, only_reads: call.spec.id == Id::FcallRo };
    let waiting = Waiting { waiter, begun_us: front.journal.now_us(), call };
    let applications = &mut front.applications;
    let object = (namespace, application, key.to_vec());
    if let Some(&work) = applications.by_object.get(&object) {
        applications.works[work].waiting.push(waiting);
        return Ok(());
    }
    let work = applications.works.insert(Work {
        namespace,
        application,
        key: key.to_vec(),
        waiting: vec![waiting],
        given: Vec::new(),
        object: None,
        is_read: false,
        worked: None,
        is_storing: false,
    });
    applications.by_object.insert(object, work);
    if applications.busy.entry(application).or_default().begins(work) {
        read(front, work, backend);
    }
    Ok(())
}

/// Reads the objects of works for which that is due.
pub(crate) fn read_due<B: Backend>(front: &mut Front, backend: &mut B) {
    for index in core::mem::take(&mut front.applications.unread) {
        read(front, index, backend);
    }
}

fn read<B: Backend>(front: &mut Front, index: usize, backend: &mut B) {
    let work = &mut front.applications.works[index];
    if work.given.is_empty() {
        work.take_waiting();
    }
    let key = &work.key;
    let target = Target::Object { slot: slot_of_key(key), key, command: Command::Get { key } };
    let operation = front.operations.add(Asker::Work(index), 0, 0);
    backend.submit(Request { operation, predecessor: None, namespace: work.namespace, target });
}

/// An application has done its work: what it has made of the object is stored.
pub(crate) fn worked<B: Backend>(front: &mut Front, worked: Worked, backend: &mut B) {
    let JobId(index) = worked.id;
    let work = &mut front.applications.works[index];
    let later = work.given.split_off(worked.replies.len().min(work.given.len()));
    work.waiting.splice(..0, later);
    let is_changed = worked.object != work.object;
    let after = worked.object.clone();
    work.worked = Some(worked);
    if !is_changed {
        // What it was when something was stored for others it need not be any more.
        return if work.is_read { answer_all(front, index, None) } else { read(front, index, backend) };
    }
    let before = work.object.as_ref().map(|object| object.as_slice());
    let (value, expiry) = match &after {
        Some(after) => (after.as_slice(), Expiry::Keep),
        // It ends with its time.
        None => (&[][..], Expiry::AtMs(1)),
    };
    if before.map_or(0, <[u8]>::len) + value.len() > TOGETHER_BYTES_MAX {
        return too_large(front, index);
    }
    let key = &work.key;
    work.is_storing = true;
    let condition = before.map_or(Condition::IfAbsent, Condition::IfEqual);
    let command = Command::Set { key, value, condition, expiry, answer: SetAnswer::Ok };
    let target = Target::Object { slot: slot_of_key(key), key, command };
    let operation = front.operations.add(Asker::Work(index), 0, 0);
    backend.submit(Request { operation, predecessor: None, namespace: work.namespace, target });
}

/// A work's object was read or stored.
pub(crate) fn completed(front: &mut Front, index: usize, answer: Answer) {
    let work = &mut front.applications.works[index];
    match (core::mem::take(&mut work.is_storing), answer) {
        (true, Answer::Outcome(Outcome::Ok)) => {
            let stored = work.worked.as_ref().map(|worked| worked.object.clone());
            answer_all(front, index, stored);
        }
        (true, Answer::Outcome(Outcome::Nil)) => begin_anew(front, index),
        (false, Answer::Outcome(Outcome::Bulk(object))) => found(front, index, Some(Arc::new(object))),
        (false, Answer::Outcome(Outcome::Nil)) => found(front, index, None),
        (was_storing, answer) => {
            work.worked = None;
            // Whoever only reads has no part in what was to be stored.
            let fails = |waiting: &mut Waiting| !was_storing || !waiting.call.only_reads;
            let failed: Vec<_> = work.given.extract_if(.., fails).collect();
            front.applications.go_on(index);
            failed.iter().for_each(|waiting| front.tell(waiting.waiter, answer.clone()));
        }
    }
}

fn found(front: &mut Front, index: usize, object: Option<Arc<Vec<u8>>>) {
    let work = &mut front.applications.works[index];
    if work.worked.is_some() && work.object == object {
        return answer_all(front, index, None);
    }
    work.worked = None;
    work.object = object;
    work.is_read = true;
    front.applications.give(index);
}

/// Somebody else has changed the object.
fn begin_anew(front: &mut Front, index: usize) {
    let now_us = front.journal.now_us();
    let work = &mut front.applications.works[index];
    work.worked = None;
    let is_late = |waiting: &mut Waiting| now_us.saturating_sub(waiting.begun_us) > PATIENCE_US;
    let late: Vec<_> = work.given.extract_if(.., is_late).collect();
    front.applications.go_on(index);
    for waiting in late {
        front.tell(waiting.waiter, Answer::Failed(Failure::Other(CONTENDED.to_owned())));
    }
}

/// What the object has become cannot be stored; a single call is told so.
fn too_large(front: &mut Front, index: usize) {
    let work = &mut front.applications.works[index];
    if work.is_given_fewer() {
        return front.applications.go_on(index);
    }
    work.worked = None;
    let given = core::mem::take(&mut work.given);
    front.applications.go_on(index);
    for waiting in given {
        front.tell(waiting.waiter, Answer::Failed(Failure::Other(TOO_LARGE.to_owned())));
    }
}

/// Everybody is told what the application said.
fn answer_all(front: &mut Front, index: usize, stored: Option<Option<Arc<Vec<u8>>>>) {
    let work = &mut front.applications.works[index];
    let given = core::mem::take(&mut work.given);
    let replies = work.worked.take().map_or_else(Vec::new, |worked| worked.replies);
    for (waiting, reply) in given.iter().zip(replies) {
        front.tell(waiting.waiter, Answer::Tree(reply));
    }
    front.applications.next(index, stored);
}

impl Front {
    /// Answers a call; whose connection it is learns of it from [`Front::take_touched`].
    fn tell(&mut self, waiter: Waiter, answer: Answer) {
        if let Some(connection) = self.answer(waiter, OperationId(0), answer) {
            self.touched.push(connection);
        }
    }
}
