//! What objects are, asked of whoever holds them before their own groups are to become registers: a volume cannot tell, and a
//! register holds a string.
//!
//! That spares whoever asks a change that would come to nothing. An object that becomes something else behind the answer still does
//! not get into a register: see [`crate::volume::Record::becoming`].

use std::collections::VecDeque;

use quorate_object::{Command, Outcome, slot_of_key};

use crate::answer::{AdminReply, Answer};
use crate::entry::{Purpose, Target};
use crate::frame::Access;
use crate::host::Host;
use crate::own_groups::NO_STRING;

/// Objects asked about at once.
const AT_ONCE_MAX: usize = 64;

/// Of the names of a batch, by their places in it.
#[derive(Default)]
pub(super) struct TypesAsked {
    left: VecDeque<usize>,
    under_way: usize,
    /// An answer that comes meanwhile has no other asked about: that is done already.
    is_asking: bool,
}

impl TypesAsked {
    pub(super) fn of(places: impl Iterator<Item = usize>) -> TypesAsked {
        TypesAsked { left: places.collect(), ..TypesAsked::default() }
    }
}

impl Host {
    /// Goes on with a batch: asks about the next names, or the volumes once all are answered.
    pub(super) fn ask_types(&mut self, number: u64) {
        while let Some(batch) = self.batches_open.open.get_mut(&number)
            && batch.types.under_way < AT_ONCE_MAX
            && let Some(at) = batch.types.left.pop_front()
        {
            batch.types.under_way += 1;
            batch.types.is_asking = true;
            let key = batch.request.names[at].clone();
            let target = Target::Slot { namespace: batch.namespace, slot: slot_of_key(&key) };
            let own = self.find_own(target, Some(&key));
            let operation = self.internals.number_next();
            let (ask, purpose) = (Command::Type { key: &key }, Purpose::Type { batch: number, at });
            self.open_operation(operation, target, own, Access::ReadLease, 0, purpose, |out| ask.encode(out));
        }
        let Some(batch) = self.batches_open.open.get_mut(&number) else { return };
        batch.types.is_asking = false;
        if batch.types.left.is_empty() && batch.types.under_way == 0 {
            self.submit_parts(number);
        }
    }

    /// Of what does not answer in time it is not known that it is no string.
    pub(in crate::host) fn take_type(&mut self, number: u64, at: usize, answer: &Answer) {
        let Some(batch) = self.batches_open.open.get_mut(&number) else { return };
        batch.types.under_way -= 1;
        if let Answer::Outcome(Outcome::Word(word)) = answer
            && !matches!(*word, "string" | "none")
        {
            batch.replies[at] = AdminReply::Error(NO_STRING.into());
        }
        if !batch.types.is_asking {
            self.ask_types(number);
        }
    }
}
