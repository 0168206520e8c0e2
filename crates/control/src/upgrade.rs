//! Which nodes of a cluster are restarted next in a rolling upgrade, and whether they may be (Rollup, section III).
//!
//! Promises: with a batch down and all others up, every group goes on serving; a batch is named only while nothing else is wrong
//! with the cluster. Knows nothing of how nodes are restarted, and of time only that one look follows another.

/// The cluster, as it was looked at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub nodes: Vec<Node>,
    /// The root and every volume.
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: u32,
    pub name: String,
    /// Why it does not serve, if it does not.
    pub obstacle: Option<String>,
    /// How many volumes it coordinates.
    pub coordinates: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub id: u64,
    /// As people call it.
    pub name: String,
    pub floor: Floor,
    /// How many members it should have.
    pub wanted: usize,
    pub members: Vec<Member>,
    /// The first slot that is not decided yet; of registers 0.
    pub front: u64,
}

/// What a group needs to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    Majority,
    /// Of a chain: one member, since the others are left out of it.
    One,
    /// So many for reads and so many for writes.
    Threshold {
        read: usize,
        write: usize,
    },
    /// The members fill a grid row by row: one of each column for reads, all of one column for writes.
    Grid {
        rows: usize,
        columns: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: u32,
    /// The first slot that it has not executed; unknown of one that has not told.
    pub position: Option<u64>,
    /// Why it neither votes nor serves, if it does not.
    pub silent: Option<String>,
}

impl Floor {
    /// Whether these members are enough, each up or not, in their order.
    fn holds(self, up: &[bool]) -> bool {
        let count = up.iter().filter(|is_up| **is_up).count();
        match self {
            Floor::Majority => count * 2 > up.len(),
            Floor::One => count > 0,
            Floor::Threshold { read, write } => count >= read.max(write),
            Floor::Grid { rows, columns } => {
                let filled = &up[..up.len().min(rows * columns)];
                let mut of_column = (0..columns).map(|column| filled.iter().skip(column).step_by(columns));
                let reads = of_column.clone().all(|mut column| column.any(|is_up| *is_up));
                reads && of_column.any(|mut column| column.all(|is_up| *is_up))
            }
        }
    }
}

impl View {
    fn name_of(&self, node: u32) -> String {
        let known = self.nodes.iter().find(|known| known.id == node);
        known.map_or_else(|| format!("node {node}"), |known| known.name.clone())
    }

    fn names_of(&self, nodes: &[u32]) -> String {
        nodes.iter().map(|node| self.name_of(*node)).collect::<Vec<String>>().join(" and ")
    }

    /// What would not serve any more with these nodes down and all others up, in words.
    pub fn broken_without(&self, down: &[u32]) -> Option<String> {
        self.groups.iter().find_map(|group| {
            let up: Vec<bool> = group.members.iter().map(|member| !down.contains(&member.node)).collect();
            if group.floor.holds(&up) {
                return None;
            }
            let (left, all) = (up.iter().filter(|is_up| **is_up).count(), up.len());
            let down = self.names_of(down);
            Some(format!("without {down}, {} would have {left} of its {all} members, and could not serve", group.name))
        })
    }

    /// What is wrong with the cluster, a sentence each. A member has caught up if it has executed what was decided when the cluster
    /// was looked at `before`: under load, nobody is ever where the coordinator is.
    pub fn wrong(&self, before: &View) -> Vec<String> {
        let nodes = self.nodes.iter().filter_map(|node| Some(format!("{}: {}", node.name, node.obstacle.as_ref()?)));
        let mut wrong: Vec<String> = nodes.collect();
        for group in &self.groups {
            let name = &group.name;
            if group.members.len() < group.wanted {
                wrong.push(format!("{name} has {} of its {} members", group.members.len(), group.wanted));
            }
            let Some(front) = before.groups.iter().find(|earlier| earlier.id == group.id).map(|earlier| earlier.front)
            else {
                wrong.push(format!("{name} was not seen before"));
                continue;
            };
            for member in &group.members {
                let node = self.name_of(member.node);
                match (&member.silent, member.position) {
                    (Some(reason), _) => wrong.push(format!("{node} is silent in {name}: {reason}")),
                    (None, None) => wrong.push(format!("{node} has not told how far it is in {name}")),
                    (None, Some(position)) if position < front => {
                        wrong.push(format!("{node} is {} slots behind in {name}", front - position));
                    }
                    (None, Some(_)) => {}
                }
            }
        }
        wrong
    }

    /// At most so many nodes that may be down at once, of those that are left, or why not even one may. Those that coordinate least
    /// come first: if the new release is bad, that shows where it costs least.
    pub fn next_batch(&self, left: &[u32], granularity: usize) -> Result<Vec<u32>, String> {
        let mut order: Vec<&Node> = self.nodes.iter().filter(|node| left.contains(&node.id)).collect();
        order.sort_by_key(|node| (node.coordinates, node.id));
        let mut batch = Vec::new();
        let mut obstacle = None;
        for node in order {
            if batch.len() == granularity {
                break;
            }
            batch.push(node.id);
            if let Some(broken) = self.broken_without(&batch) {
                batch.pop();
                obstacle.get_or_insert(broken);
            }
        }
        match obstacle {
            // A node that may not be down alone may never be.
            Some(broken) if batch.is_empty() => Err(broken),
            _ => Ok(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: u64, floor: Floor, members: &[u32]) -> Group {
        let member = |&node: &u32| Member { node, position: Some(10), silent: None };
        Group {
            id,
            name: format!("volume {id}"),
            floor,
            wanted: members.len(),
            members: members.iter().map(member).collect(),
            front: 10,
        }
    }

    fn view(nodes: u32, groups: Vec<Group>) -> View {
        let node = |id| Node { id, name: format!("n{id}"), obstacle: None, coordinates: 10 - id as usize };
        View { nodes: (1..=nodes).map(node).collect(), groups }
    }

    #[test]
    fn a_group_serves_while_its_floor_holds() {
        let serves = |floor: Floor, up: &str| floor.holds(&up.chars().map(|c| c == '1').collect::<Vec<_>>());
        assert!(serves(Floor::Majority, "110") && !serves(Floor::Majority, "100") && !serves(Floor::Majority, "10"));
        assert!(serves(Floor::One, "001") && !serves(Floor::One, "000"));
        let few_reads = Floor::Threshold { read: 1, write: 3 };
        assert!(serves(few_reads, "1011") && !serves(few_reads, "1010"), "writes count as well");
        let grid = Floor::Grid { rows: 2, columns: 2 };
        assert!(serves(grid, "1110"), "row 1, column 1");
        assert!(!serves(grid, "1100"), "no column");
        assert!(!serves(grid, "1010"), "a column has nobody");
        assert!(serves(grid, "11100"), "a fifth is in no quorum");
        assert!(serves(Floor::Grid { rows: 2, columns: 3 }, "11101"), "the last row is not full");
    }

    #[test]
    fn one_node_after_the_other_beginning_with_those_that_coordinate_least() {
        let view = view(3, vec![group(1, Floor::Majority, &[1, 2, 3])]);
        assert_eq!(view.next_batch(&[1, 2, 3], 1), Ok(vec![3]));
        assert_eq!(view.next_batch(&[1, 2], 1), Ok(vec![2]));
        assert_eq!(view.next_batch(&[], 1), Ok(vec![]));
    }

    #[test]
    fn a_batch_is_no_larger_than_every_group_can_bear() {
        let five = view(5, vec![group(1, Floor::Majority, &[1, 2, 3, 4, 5])]);
        assert_eq!(five.next_batch(&[1, 2, 3, 4, 5], 4), Ok(vec![5, 4]));
        let spread = vec![group(1, Floor::Majority, &[1, 2, 3]), group(2, Floor::Majority, &[4, 5, 6])];
        assert_eq!(view(6, spread).next_batch(&[1, 2, 3, 4, 5, 6], 6), Ok(vec![6, 3]), "one of each");
    }

    #[test]
    fn a_node_that_a_group_cannot_do_without_is_not_restarted() {
        let mut view = view(3, vec![group(1, Floor::Majority, &[1, 2, 3]), group(2, Floor::One, &[3])]);
        assert_eq!(view.next_batch(&[1, 2, 3], 1), Ok(vec![2]), "others first");
        let refusal = view.next_batch(&[3], 1).expect_err("refused");
        assert_eq!(refusal, "without n3, volume 2 would have 0 of its 1 members, and could not serve");
        view.groups[1].members = Vec::new();
        assert!(view.next_batch(&[1], 1).is_err(), "nobody serves it as it is");
    }

    #[test]
    fn nothing_is_wrong_while_all_nodes_serve_and_have_caught_up_with_the_last_look() {
        let before = view(3, vec![group(1, Floor::Majority, &[1, 2, 3]), group(2, Floor::One, &[1, 2])]);
        assert_eq!(before.wrong(&before), Vec::<String>::new());
        let mut now = before.clone();
        now.groups[0].front = 500;
        now.groups[0].members[0].position = Some(500);
        now.groups[0].members[1].position = Some(11);
        assert_eq!(now.wrong(&before), Vec::<String>::new(), "under load nobody is at the front");
        now.groups[0].members[2].position = Some(8);
        now.groups[1].members.pop();
        now.nodes[1].obstacle = Some("it is suspected".into());
        now.groups[1].members[0].silent = Some("testing".into());
        assert_eq!(
            now.wrong(&before),
            [
                "n2: it is suspected",
                "n3 is 2 slots behind in volume 1",
                "volume 2 has 1 of its 2 members",
                "n1 is silent in volume 2: testing"
            ]
        );
        now.groups[1].members[0] = Member { node: 1, position: None, silent: None };
        assert_eq!(now.wrong(&before)[3], "n1 has not told how far it is in volume 2");
        assert!(now.wrong(&View::default())[1].contains("not seen before"));
    }
}
