//! What has to come about where it is of any use that no read is stale.

/// The rarer things that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    ReadAtFollower = 0,
    ReadAtFollowerBeyondSlot,
    ReadAtFollowerAfterOwnWrite,
    FollowerRefuses,
    Recall,
    Recalled,
    WriteWaits,
    Lapse,
    ElectionAdopts,
    WriteAfterElection,
    WriteComesAgain,
    ShareOvertaken,
    SharedAfterRecall,
    ReadAtFollowerAfterElection,
    SessionReplaced,
}

pub const PATHS: [Path; 15] = [
    Path::ReadAtFollower,
    Path::ReadAtFollowerBeyondSlot,
    Path::ReadAtFollowerAfterOwnWrite,
    Path::FollowerRefuses,
    Path::Recall,
    Path::Recalled,
    Path::WriteWaits,
    Path::Lapse,
    Path::ElectionAdopts,
    Path::WriteAfterElection,
    Path::WriteComesAgain,
    Path::ShareOvertaken,
    Path::SharedAfterRecall,
    Path::ReadAtFollowerAfterElection,
    Path::SessionReplaced,
];

#[derive(Clone, Copy, Debug, Default)]
pub struct Paths(pub u32);

impl Paths {
    pub fn contains(self, path: Path) -> bool {
        self.0 >> path as u32 & 1 == 1
    }

    pub fn note(&mut self, path: Path, is_taken: bool) {
        self.0 |= u32::from(is_taken) << path as u32;
    }
}
