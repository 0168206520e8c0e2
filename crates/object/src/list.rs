//! List: nothing yet.

use crate::codec::{Malformed, Reader, malformed};
use crate::outcome::Outcome;

#[derive(Debug)]
pub(crate) struct List;

#[derive(Clone, Debug, PartialEq)]
pub enum ListOp<'a> {
    Len(std::marker::PhantomData<&'a ()>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ListChange<'a> {
    Nothing(std::marker::PhantomData<&'a ()>),
}

impl List {
    pub(crate) fn new() -> List {
        List
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        0
    }

    pub(crate) fn apply(&mut self, _change: ListChange<'_>) {}

    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'_>) -> Result<List, Malformed> {
        Ok(List)
    }
}

impl<'a> ListOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        true
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        None
    }

    pub(crate) fn execute(&self, _elements: Option<&List>, _seed: u64) -> (Option<ListChange<'a>>, Outcome) {
        (None, Outcome::Int(0))
    }

    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'a>) -> Result<ListOp<'a>, Malformed> {
        malformed("unknown operation")
    }
}

impl<'a> ListChange<'a> {
    pub(crate) fn encode(&self, _out: &mut Vec<u8>) {}

    pub(crate) fn decode(_r: &mut Reader<'a>) -> Result<ListChange<'a>, Malformed> {
        malformed("unknown change")
    }
}
