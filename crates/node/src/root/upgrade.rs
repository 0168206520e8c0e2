//! How far a rolling upgrade is: one at a time, and whoever goes on with it knows what is done. See docs/decisions/0031.

use quorate_object::Outcome;
use serde::{Deserialize, Serialize};

use super::{RootState, error};
use crate::level::FeatureLevel;

/// Bytes of what an upgrade says that nodes are upgraded to.
pub const VERSION_BYTES_MAX: usize = 64;

/// One that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// The version that its nodes are to run, in its driver's words.
    pub version: String,
    /// Who restarts the nodes: a number that it has drawn, or 0 if it has left.
    pub driver: u64,
    /// Rises with each word of the driver's: one whose beat stands still is gone.
    pub beat: u64,
    /// In the order in which they were restarted.
    pub done: Vec<u32>,
    /// Those that are being restarted now.
    pub batch: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeCommand {
    /// Begins an upgrade, or goes on with the one to this version that nobody drives.
    Begin {
        version: String,
        driver: u64,
        /// With all nodes again.
        anew: bool,
        /// The beat at which whoever takes over from another driver has seen it stand still.
        silent_at: Option<u64>,
    },
    /// A word of the driver's: these are being restarted now, and those are done.
    Note { driver: u64, batch: Vec<u32>, done: Vec<u32> },
    /// The driver ends; somebody may go on later.
    Leave { driver: u64 },
    /// All nodes are done.
    End { driver: u64 },
    /// All nodes have said that they know this feature level.
    Raise { level: FeatureLevel },
}

/// A state, also one that was written before the root had a record of itself, before nodes were absent, before anything was placed
/// anew, before there were upgrades and levels, or before there were offices.
pub(super) fn decode(bytes: &[u8]) -> Option<RootState> {
    const NONE: [u8; 16] = [0, 0, 0, FeatureLevel::FIRST.0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xD8, 0x04, 0];
    let with = |end: &[u8]| postcard::from_bytes(&[bytes, end].concat()).ok();
    with(&[])
        .or_else(|| with(&NONE[15..]))
        .or_else(|| with(&NONE[11..]))
        .or_else(|| with(&NONE[4..]))
        .or_else(|| with(&NONE[2..]))
        .or_else(|| with(&NONE))
}

impl RootState {
    pub(super) fn execute_upgrade(&mut self, command: &UpgradeCommand) -> Outcome {
        let refusal = match command {
            UpgradeCommand::Begin { version, driver, anew, silent_at } => {
                self.begin_upgrade(version, *driver, *anew, *silent_at)
            }
            UpgradeCommand::Note { driver, batch, done } => self.note_upgrade(*driver, batch, done),
            UpgradeCommand::Leave { driver } => {
                // What was under way may be half done: it is done again.
                self.driven_by(*driver).map(|upgrade| (upgrade.driver, upgrade.batch) = (0, Vec::new()))
            }
            UpgradeCommand::End { driver } => self.end_upgrade(*driver),
            UpgradeCommand::Raise { level } if *level <= self.level => Err(Outcome::Ok),
            UpgradeCommand::Raise { level } => {
                self.level = *level;
                Ok(())
            }
        };
        match refusal {
            Ok(()) => {
                self.version += 1;
                Outcome::Ok
            }
            Err(outcome) => outcome,
        }
    }

    /// The nodes that are still to be restarted, in the order of their numbers.
    pub fn upgrade_left(&self) -> impl Iterator<Item = u32> + '_ {
        let is_done = |node: u32| self.upgrade.as_ref().is_none_or(|upgrade| upgrade.done.contains(&node));
        self.nodes.iter().map(|node| node.id).filter(move |node| !is_done(*node))
    }

    fn begin_upgrade(&mut self, version: &str, driver: u64, anew: bool, silent_at: Option<u64>) -> Result<(), Outcome> {
        if version.is_empty() || version.len() > VERSION_BYTES_MAX || driver == 0 {
            return Err(error(&format!(
                "an upgrade is to a version of 1 to {VERSION_BYTES_MAX} bytes, and its driver is a number above 0"
            )));
        }
        let beat = match &self.upgrade {
            None => 0,
            // It had no answer, and asks again.
            Some(upgrade) if upgrade.driver == driver => return Err(Outcome::Ok),
            Some(upgrade) if upgrade.driver != 0 && silent_at != Some(upgrade.beat) => {
                return Err(error(&format!(
                    "an upgrade to {} is under way, and there is one at a time: wait for it, or stop whoever drives it; \
                     QUORATE UPGRADE SHOW tells how far it is",
                    upgrade.version
                )));
            }
            Some(upgrade) => upgrade.beat + 1,
        };
        let before = self.upgrade.take().filter(|upgrade| !anew && upgrade.version == version);
        let done = before.map(|upgrade| upgrade.done).unwrap_or_default();
        self.upgrade = Some(Upgrade { version: version.to_owned(), driver, beat, done, batch: Vec::new() });
        Ok(())
    }

    fn note_upgrade(&mut self, driver: u64, batch: &[u32], done: &[u32]) -> Result<(), Outcome> {
        let known: Vec<u32> = self.nodes.iter().map(|node| node.id).collect();
        if batch.iter().chain(done).any(|node| !known.contains(node)) {
            return Err(error("BATCH and DONE name nodes of the cluster"));
        }
        let upgrade = self.driven_by(driver)?;
        let news = done.iter().filter(|node| !upgrade.done.contains(node)).copied().collect::<Vec<u32>>();
        upgrade.done.extend(news);
        upgrade.batch = batch.to_vec();
        upgrade.beat += 1;
        Ok(())
    }

    fn end_upgrade(&mut self, driver: u64) -> Result<(), Outcome> {
        if self.upgrade.is_none() {
            // It had no answer, and asks again.
            return Err(Outcome::Ok);
        }
        self.driven_by(driver)?;
        let left = self.upgrade_left().count();
        if left > 0 {
            return Err(error(&format!("{left} nodes are not done: QUORATE UPGRADE SHOW tells which")));
        }
        self.upgrade = None;
        Ok(())
    }

    fn driven_by(&mut self, driver: u64) -> Result<&mut Upgrade, Outcome> {
        match &mut self.upgrade {
            Some(upgrade) if upgrade.driver == driver && driver != 0 => Ok(upgrade),
            Some(_) => Err(error("somebody else drives the upgrade by now: leave it to them")),
            None => Err(error("no upgrade is under way: QUORATE UPGRADE BEGIN begins one")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{RootCommand, Settings};

    fn root() -> RootState {
        RootState::of_nodes(3, Settings::default())
    }

    fn execute(root: &mut RootState, command: UpgradeCommand) -> Outcome {
        root.execute(&RootCommand::Upgrade(command), 1)
    }

    fn begin(driver: u64, version: &str, silent_at: Option<u64>) -> UpgradeCommand {
        UpgradeCommand::Begin { version: version.into(), driver, anew: false, silent_at }
    }

    fn note(driver: u64, batch: &[u32], done: &[u32]) -> UpgradeCommand {
        UpgradeCommand::Note { driver, batch: batch.to_vec(), done: done.to_vec() }
    }

    fn refusal(root: &mut RootState, command: UpgradeCommand) -> String {
        let before = root.clone();
        let Outcome::Error(line) = execute(root, command) else { panic!("not refused") };
        assert_eq!(*root, before);
        line
    }

    #[test]
    fn an_upgrade_is_driven_by_one_at_a_time_and_ends_when_all_nodes_are_done() {
        let mut root = root();
        assert!(refusal(&mut root, note(7, &[1], &[])).contains("no upgrade"));
        assert_eq!(execute(&mut root, begin(7, "2", None)), Outcome::Ok);
        let version = root.version;
        assert_eq!(execute(&mut root, begin(7, "2", None)), Outcome::Ok, "asked again");
        assert_eq!(root.version, version);
        assert!(refusal(&mut root, begin(8, "2", None)).contains("one at a time"));
        assert!(refusal(&mut root, note(8, &[1], &[])).contains("somebody else"));
        assert_eq!(execute(&mut root, note(7, &[2], &[])), Outcome::Ok);
        assert_eq!(execute(&mut root, note(7, &[3], &[2])), Outcome::Ok);
        assert_eq!(execute(&mut root, note(7, &[3], &[2])), Outcome::Ok, "asked again");
        assert_eq!(root.upgrade_left().collect::<Vec<_>>(), [1, 3]);
        assert!(refusal(&mut root, UpgradeCommand::End { driver: 7 }).contains("2 nodes are not done"));
        assert!(refusal(&mut root, note(7, &[4], &[])).contains("nodes of the cluster"));
        assert_eq!(execute(&mut root, note(7, &[], &[3, 1])), Outcome::Ok);
        assert!(refusal(&mut root, UpgradeCommand::End { driver: 8 }).contains("somebody else"));
        assert_eq!(execute(&mut root, UpgradeCommand::End { driver: 7 }), Outcome::Ok);
        assert_eq!(root.upgrade, None);
        assert_eq!(execute(&mut root, UpgradeCommand::End { driver: 7 }), Outcome::Ok, "asked again");
    }

    #[test]
    fn what_was_left_is_gone_on_with_unless_it_was_to_another_version() {
        let mut root = root();
        execute(&mut root, begin(7, "2", None));
        execute(&mut root, note(7, &[3], &[2]));
        assert_eq!(execute(&mut root, UpgradeCommand::Leave { driver: 7 }), Outcome::Ok);
        assert!(refusal(&mut root, UpgradeCommand::Leave { driver: 0 }).contains("somebody else"), "0 is nobody");
        assert_eq!(execute(&mut root, begin(8, "2", None)), Outcome::Ok);
        assert_eq!(root.upgrade_left().collect::<Vec<_>>(), [1, 3]);
        assert!(refusal(&mut root, note(7, &[1], &[])).contains("somebody else"), "whoever had left");
        execute(&mut root, UpgradeCommand::Leave { driver: 8 });
        execute(&mut root, begin(9, "1", None));
        assert_eq!(root.upgrade_left().count(), 3, "back to the release before");
        execute(&mut root, note(9, &[], &[1]));
        execute(&mut root, UpgradeCommand::Leave { driver: 9 });
        execute(&mut root, UpgradeCommand::Begin { version: "1".into(), driver: 4, anew: true, silent_at: None });
        assert_eq!(root.upgrade_left().count(), 3, "anew");
    }

    #[test]
    fn who_stands_still_is_taken_over_from_unless_it_has_moved_since() {
        let mut root = root();
        execute(&mut root, begin(7, "2", None));
        execute(&mut root, note(7, &[2], &[1]));
        let beat = root.upgrade.as_ref().expect("it has begun").beat;
        execute(&mut root, note(7, &[2], &[1]));
        assert!(refusal(&mut root, begin(8, "2", Some(beat))).contains("one at a time"), "it is alive");
        assert_eq!(execute(&mut root, begin(8, "2", Some(beat + 1))), Outcome::Ok);
        assert!(refusal(&mut root, note(7, &[2], &[])).contains("somebody else"));
        assert_eq!(root.upgrade_left().collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn a_version_is_short_and_a_driver_has_a_number() {
        let mut root = root();
        for (driver, version) in [(0, "2"), (1, ""), (1, &"2".repeat(VERSION_BYTES_MAX + 1)[..])] {
            assert!(refusal(&mut root, begin(driver, version, None)).contains("1 to 64 bytes"));
        }
    }

    #[test]
    fn a_state_from_before_there_were_upgrades_is_read_and_one_with_an_upgrade_comes_back() {
        let mut root = root();
        let bytes = root.encode();
        let (before_record, record) = bytes.split_at(bytes.len() - 1);
        assert_eq!(record, [0], "the root stands as it was born");
        assert_eq!(RootState::decode(before_record), Some(root.clone()));
        let (before_absence, absence) = before_record.split_at(before_record.len() - 4);
        assert_eq!(absence, [0, 1, 0xD8, 0x04], "nobody is absent, and 600 s");
        assert_eq!(RootState::decode(before_absence), Some(root.clone()));
        let (before_moves, placement) = before_absence.split_at(before_absence.len() - 7);
        assert_eq!(placement, [0; 7], "nothing was placed anew");
        assert_eq!(RootState::decode(before_moves), Some(root.clone()));
        let (before, none) = before_moves.split_at(before_moves.len() - 2);
        assert_eq!(none, [0, 1], "no upgrade, and the first level");
        assert_eq!(RootState::decode(before), Some(root.clone()));
        let (before_offices, office) = before.split_at(before.len() - 2);
        assert_eq!(office, [0, 0], "nobody has taken office");
        assert_eq!(RootState::decode(before_offices), Some(root.clone()));
        execute(&mut root, begin(7, "2", None));
        execute(&mut root, note(7, &[2], &[1]));
        execute(&mut root, UpgradeCommand::Raise { level: FeatureLevel(3) });
        assert_eq!(RootState::decode(&root.encode()), Some(root));
    }

    #[test]
    fn a_feature_level_never_goes_back() {
        let mut root = root();
        assert_eq!(root.level, FeatureLevel::FIRST);
        let raise = |level| UpgradeCommand::Raise { level: FeatureLevel(level) };
        assert_eq!(execute(&mut root, raise(3)), Outcome::Ok);
        let version = root.version;
        assert_eq!((execute(&mut root, raise(2)), execute(&mut root, raise(3))), (Outcome::Ok, Outcome::Ok));
        assert_eq!((root.level, root.version), (FeatureLevel(3), version));
    }
}
