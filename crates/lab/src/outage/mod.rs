//! Section 4 of the chain replication paper: for how long clients go without answers once a failure is detected, counted in
//! message delays. Chains are run by the real core; primary/backup is a model of what the paper writes.

mod chain;
mod primary_backup;

/// What one kind of request suffers from one failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub protocol: &'static str,
    pub failed: &'static str,
    pub requests: &'static str,
    /// Message delays from detection, as measured.
    pub delays: u64,
    /// What section 4 says.
    pub paper: u64,
    /// What is over after that time.
    pub what: &'static str,
}

/// A failure with its outages, and the messages that repaired it: when each arrived, and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub title: &'static str,
    pub outages: Vec<Outage>,
    pub messages: Vec<(u64, String)>,
}

/// Every case of section 4.
pub fn section_4() -> Vec<Case> {
    vec![
        chain::head_fails(),
        chain::middle_fails(),
        chain::middle_fails_by_the_master(),
        chain::tail_fails(),
        primary_backup::primary_fails(),
        primary_backup::backup_fails(),
    ]
}
