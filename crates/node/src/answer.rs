//! What an operation is answered, before any protocol prints it.

use quorate_object::Outcome;

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Outcome(Outcome),
    Admin(AdminReply),
    Failed(Failure),
}

/// Why an operation has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not executed: too few members are alive.
    NoQuorum,
    /// It may have been executed, or may still be.
    Timeout,
    /// Not executed: too much is waiting.
    Overloaded,
    /// Not executed: this node, or the one that would execute it, uses more memory than it may.
    OutOfMemory,
    /// Not executed: this node does not know the cluster yet.
    Loading,
    /// Not executed: this node's clock is off most of its peers', so nobody would take a deadline from it.
    ClockOff,
    /// Not executed: this node could not compare its clock with most of its peers' lately, so it takes no commands.
    ClockUnknown,
    /// Not executed: the namespace is gone.
    NoNamespace,
    /// Not executed: the write before it on its connection may come later, and nothing orders the two.
    BehindUnknown,
}

/// What an administrative command answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminReply {
    Ok,
    Text(String),
    /// What a client has given, such as a key.
    Bytes(Vec<u8>),
    /// One of the lines of a text that people read.
    Line(String),
    Int(i64),
    /// An error line without the leading `-`.
    Error(String),
    Failed(Failure),
    List(Vec<AdminReply>),
    /// In the order in which it is shown.
    Map(Vec<(String, AdminReply)>),
}
