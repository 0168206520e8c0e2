//! SortedSet: nothing yet.

use crate::codec::{Malformed, Reader, malformed};
use crate::collection::HashKey;
use crate::outcome::Outcome;

#[derive(Debug)]
pub(crate) struct SortedSet;

#[derive(Clone, Debug, PartialEq)]
pub enum SortedSetOp<'a> {
    Len(std::marker::PhantomData<&'a ()>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum SortedSetChange<'a> {
    Nothing(std::marker::PhantomData<&'a ()>),
}

impl SortedSet {
    pub(crate) fn new(_key: HashKey) -> SortedSet {
        SortedSet
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        0
    }

    pub(crate) fn apply(&mut self, _change: SortedSetChange<'_>) {}

    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'_>, _key: HashKey) -> Result<SortedSet, Malformed> {
        Ok(SortedSet)
    }
}

impl<'a> SortedSetOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        true
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        None
    }

    pub(crate) fn execute(&self, _elements: Option<&SortedSet>, _seed: u64) -> (Option<SortedSetChange<'a>>, Outcome) {
        (None, Outcome::Int(0))
    }

    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'a>) -> Result<SortedSetOp<'a>, Malformed> {
        malformed("unknown operation")
    }
}

impl<'a> SortedSetChange<'a> {
    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'a>) -> Result<SortedSetChange<'a>, Malformed> {
        malformed("unknown change")
    }
}
