//! Set: nothing yet.

use crate::codec::{Malformed, Reader, malformed};
use crate::collection::HashKey;
use crate::outcome::Outcome;

#[derive(Debug)]
pub(crate) struct Set;

#[derive(Clone, Debug, PartialEq)]
pub enum SetOp<'a> {
    Len(std::marker::PhantomData<&'a ()>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum SetChange<'a> {
    Nothing(std::marker::PhantomData<&'a ()>),
}

impl Set {
    pub(crate) fn new(_key: HashKey) -> Set {
        Set
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        0
    }

    pub(crate) fn apply(&mut self, _change: SetChange<'_>) {}

    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'_>, _key: HashKey) -> Result<Set, Malformed> {
        Ok(Set)
    }
}

impl<'a> SetOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        true
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        None
    }

    pub(crate) fn execute(&self, _elements: Option<&Set>, _seed: u64) -> (Option<SetChange<'a>>, Outcome) {
        (None, Outcome::Int(0))
    }

    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'a>) -> Result<SetOp<'a>, Malformed> {
        malformed("unknown operation")
    }
}

impl<'a> SetChange<'a> {
    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'a>) -> Result<SetChange<'a>, Malformed> {
        malformed("unknown change")
    }
}
