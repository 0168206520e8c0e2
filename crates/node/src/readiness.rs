//! Whether a node takes commands.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does not know the cluster yet, or may not speak in it yet.
    ClusterUnknown,
    /// Too few nodes are heard of.
    CutOff,
    /// Its clock is off most of its peers'.
    ClockOff,
    /// Its clock could not be compared with most of its peers' lately.
    ClockUnknown,
    /// The cluster is at a feature level that its release does not know.
    ReleaseTooOld,
    /// It is no node of the cluster any more.
    Removed,
    Ready,
}

impl Readiness {
    pub const ALL: [Readiness; 7] = [
        Readiness::ClusterUnknown,
        Readiness::CutOff,
        Readiness::ClockOff,
        Readiness::ClockUnknown,
        Readiness::ReleaseTooOld,
        Readiness::Removed,
        Readiness::Ready,
    ];

    /// Whether clients are to be told that the node is loading.
    pub fn is_loading(self) -> bool {
        matches!(self, Readiness::ClusterUnknown | Readiness::ReleaseTooOld | Readiness::Removed)
    }

    pub fn is_ready(self) -> bool {
        self == Readiness::Ready
    }

    /// What keeps it from taking commands.
    pub fn obstacle(self) -> Option<&'static str> {
        match self {
            Readiness::ClusterUnknown => {
                Some("it does not know the cluster yet; its log and GET /status say what it waits for")
            }
            Readiness::CutOff => {
                Some("it hears too few of the nodes to be in a majority: commands here are answered with NOQUORUM")
            }
            Readiness::ClockOff => Some(
                "its clock is more than 1 s off most of its peers': commands here are refused until it is set right",
            ),
            Readiness::ClockUnknown => Some(
                "it could not compare its clock with its peers' in the last 5 s: commands are refused until it has",
            ),
            Readiness::ReleaseTooOld => Some(
                "the cluster is at a feature level that this release does not know: start it with the release of the others",
            ),
            Readiness::Removed => Some("it was removed from the cluster: stop it"),
            Readiness::Ready => None,
        }
    }
}
