//! What an administrative command answers, before any protocol prints it.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminReply {
    Ok,
    Text(String),
    Int(i64),
    /// An error line without the leading `-`.
    Error(String),
    Failed(crate::host::Failure),
    List(Vec<AdminReply>),
    /// In the order in which it is shown.
    Map(Vec<(String, AdminReply)>),
}
