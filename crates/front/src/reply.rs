//! Answers to bytes.

use quorate_object::{Outcome, double_text};
use quorate_resp::ReplyWriter;

use crate::backend::{Answer, ReplyTree};

pub(crate) fn write_answer(writer: &mut ReplyWriter<'_>, answer: &Answer) {
    match answer {
        Answer::Outcome(outcome) => write_outcome(writer, outcome),
        Answer::Tree(reply) => write_tree(writer, reply),
        Answer::Failed(failure) => writer.error(failure.text().as_bytes()),
    }
}

pub(crate) fn write_outcome(writer: &mut ReplyWriter<'_>, outcome: &Outcome) {
    match outcome {
        Outcome::Ok => writer.simple("OK"),
        Outcome::Nil => writer.null(),
        Outcome::Int(value) => writer.integer(*value),
        Outcome::Bulk(bytes) => writer.bulk(bytes),
        Outcome::Word(word) => writer.simple(word),
        Outcome::Error(text) => writer.error(text.as_bytes()),
        Outcome::Float(number) => writer.double_text(&double_text(*number)),
        Outcome::NilList => writer.null_array(),
        Outcome::List(items) => {
            writer.array(items.len());
            write_outcomes(writer, items);
        }
        Outcome::Set(items) => {
            writer.set(items.len());
            write_outcomes(writer, items);
        }
        Outcome::Map(items) => {
            writer.map(items.len() / 2);
            write_outcomes(writer, items);
        }
        Outcome::Pairs(items) => {
            writer.pairs(items.len() / 2);
            for pair in items.chunks(2) {
                writer.pair();
                write_outcomes(writer, pair);
            }
        }
        Outcome::Keys(keys) | Outcome::Scan { keys, .. } => {
            write_keys(writer, keys.iter().map(Vec::as_slice));
        }
    }
}

fn write_outcomes(writer: &mut ReplyWriter<'_>, items: &[Outcome]) {
    items.iter().for_each(|item| write_outcome(writer, item));
}

/// Roughly the bytes that an answer keeps in memory until it can be written.
pub(crate) fn answer_length(answer: &Answer) -> usize {
    match answer {
        Answer::Outcome(outcome) => outcome.heap_bytes(),
        Answer::Tree(_) | Answer::Failed(_) => 0,
    }
}

pub(crate) fn write_keys<'k>(writer: &mut ReplyWriter<'_>, keys: impl ExactSizeIterator<Item = &'k [u8]>) {
    writer.array(keys.len());
    keys.for_each(|key| writer.bulk(key));
}

/// Nesting is bounded by whoever built the tree, which is this server, not a client.
fn write_tree(writer: &mut ReplyWriter<'_>, reply: &ReplyTree) {
    match reply {
        ReplyTree::Simple(text) => writer.simple(text),
        ReplyTree::Error(text) => writer.error(text.as_bytes()),
        ReplyTree::Integer(value) => writer.integer(*value),
        ReplyTree::Double(value) => writer.double(*value),
        ReplyTree::Boolean(value) => writer.boolean(*value),
        ReplyTree::Text(text) => writer.bulk(text.as_bytes()),
        ReplyTree::Bytes(bytes) => writer.bulk(bytes),
        ReplyTree::Null => writer.null(),
        ReplyTree::Array(elements) => {
            writer.array(elements.len());
            elements.iter().for_each(|element| write_tree(writer, element));
        }
        ReplyTree::Map(pairs) => {
            writer.map(pairs.len());
            for (name, value) in pairs {
                writer.bulk(name.as_bytes());
                write_tree(writer, value);
            }
        }
    }
}
