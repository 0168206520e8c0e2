//! Quorum systems: which sets of members may decide. A set is a `u64` of positions among a configuration's members.
//!
//! Every read quorum meets every write quorum; that is all that is asked of one. Two write quorums need not meet: in Paxos
//! a ballot's phase 1 asks a read quorum what a phase 2 may have stored, and a register's write asks one for the highest
//! tag before it stores a higher one, so the second of two writes learns of the first whichever quorums stored them. Two
//! writes at once take different tags, because a tag names its writer. Hence `W = 1` with `R = n` is sound, as are the
//! columns of a grid, which are disjoint.
//!
//! [`mod@grid`] is the paper's grid (Rollup, section IV-A; Naor and Wool 1998), [`load`] tells what each member carries.

mod grid;
mod load;

use core::fmt;

use grid::Grid;
pub use load::Load;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuorumSystem {
    Majority,
    /// Any `read` members are a read quorum, any `write` members a write quorum; `read + write` exceeds the members.
    Threshold {
        read: u8,
        write: u8,
    },
    /// The members fill a grid row by row. One member of each column is a read quorum, all members of one column are a
    /// write quorum. The last row may be incomplete; members beyond a full grid are in no quorum.
    Grid {
        rows: u8,
        columns: u8,
    },
}

/// Why a quorum system does not fit a number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Sets of members are 64 bits, and a group without members is none.
    Members { members: usize },
    /// A quorum of nobody, or of more than there are.
    Size { size: u8, members: usize },
    /// A read quorum and a write quorum without a common member.
    Disjoint { read: u8, write: u8, members: usize },
    /// The grid's last row, or a column, would be empty.
    GridTooLarge { rows: u8, columns: u8, members: usize },
    /// Members would be left over.
    GridTooSmall { rows: u8, columns: u8, members: usize },
}

/// What a quorum system survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Whichever members crash, so many leave a read quorum and a write quorum.
    pub crash_count: usize,
    /// One more, chosen worst: without these members there is no read quorum or no write quorum.
    pub fatal: u64,
}

impl QuorumSystem {
    /// The grid of Rollup: the largest square, from four members on; below, a majority. Members beyond the square are in no
    /// quorum.
    pub fn square(members: usize) -> QuorumSystem {
        match members.isqrt() {
            0 | 1 => QuorumSystem::Majority,
            side => {
                let side = u8::try_from(side).expect("no more than 64 members");
                QuorumSystem::Grid { rows: side, columns: side }
            }
        }
    }

    /// Whether this is a quorum system of so many members, and every one of them in some quorum.
    pub fn fit(&self, members: usize) -> Result<(), Unfit> {
        if members == 0 || members > 64 {
            return Err(Unfit::Members { members });
        }
        match *self {
            QuorumSystem::Majority => Ok(()),
            QuorumSystem::Threshold { read, write } => {
                let unfit = [read, write].into_iter().find(|&size| size == 0 || usize::from(size) > members);
                match unfit {
                    Some(size) => Err(Unfit::Size { size, members }),
                    None if usize::from(read) + usize::from(write) <= members => {
                        Err(Unfit::Disjoint { read, write, members })
                    }
                    None => Ok(()),
                }
            }
            // The square says by itself who is left out.
            QuorumSystem::Grid { .. } if *self == QuorumSystem::square(members) => Ok(()),
            QuorumSystem::Grid { rows, columns } => {
                let full = usize::from(rows) * usize::from(columns);
                if full < members {
                    return Err(Unfit::GridTooSmall { rows, columns, members });
                }
                // The last row and every column have a member.
                match full - members < usize::from(columns) && usize::from(columns) <= members {
                    true => Ok(()),
                    false => Err(Unfit::GridTooLarge { rows, columns, members }),
                }
            }
        }
    }

    /// Phase 1 of Paxos; a register's query.
    pub fn is_read_quorum(&self, members: usize, set: u64) -> bool {
        match self.shape(members) {
            Shape::Sizes { read, .. } => set.count_ones() as usize >= read,
            Shape::Grid(grid) => grid.is_read_quorum(set),
        }
    }

    /// Phase 2 of Paxos; a register's store.
    pub fn is_write_quorum(&self, members: usize, set: u64) -> bool {
        match self.shape(members) {
            Shape::Sizes { write, .. } => set.count_ones() as usize >= write,
            Shape::Grid(grid) => grid.is_write_quorum(set),
        }
    }

    /// The read quorum to ask first in this turn. Turns that follow each other load all members alike; members to `avoid`
    /// are in it only where no read quorum is without them.
    pub fn preferred_read(&self, members: usize, turn: u64, avoid: u64) -> u64 {
        match self.shape(members) {
            Shape::Sizes { read, .. } => around(members, read, turn, avoid),
            Shape::Grid(grid) => grid.preferred_read(turn, avoid),
        }
    }

    /// As [`QuorumSystem::preferred_read`], for a write quorum.
    pub fn preferred_write(&self, members: usize, turn: u64, avoid: u64) -> u64 {
        match self.shape(members) {
            Shape::Sizes { write, .. } => around(members, write, turn, avoid),
            Shape::Grid(grid) => grid.preferred_write(turn, avoid),
        }
    }

    pub fn tolerance(&self, members: usize) -> Tolerance {
        let fatal = match self.shape(members) {
            Shape::Sizes { read, write } => all(members + 1 - read.max(write)),
            Shape::Grid(grid) => grid.fatal(),
        };
        Tolerance { crash_count: fatal.count_ones() as usize - 1, fatal }
    }

    /// What each member carries if turns of preferred quorums are taken evenly.
    pub fn load(&self, members: usize, read_share: f64) -> Load {
        match self.shape(members) {
            Shape::Sizes { read, write } => Load::of_sizes(members, read, write, read_share),
            Shape::Grid(grid) => Load::of_grid(&grid, members, read_share),
        }
    }

    /// The size of its read quorums and of its write quorums, where those are all that matters.
    pub fn sizes(&self, members: usize) -> Option<(usize, usize)> {
        match self.shape(members) {
            Shape::Sizes { read, write } => Some((read, write)),
            Shape::Grid(_) => None,
        }
    }

    fn shape(&self, members: usize) -> Shape {
        match *self {
            QuorumSystem::Majority => Shape::Sizes { read: members / 2 + 1, write: members / 2 + 1 },
            QuorumSystem::Threshold { read, write } => {
                Shape::Sizes { read: usize::from(read), write: usize::from(write) }
            }
            QuorumSystem::Grid { rows, columns } => {
                Shape::Grid(Grid::new(usize::from(rows), usize::from(columns), members))
            }
        }
    }
}

/// How the quorums of so many members come about.
enum Shape {
    Sizes { read: usize, write: usize },
    Grid(Grid),
}

/// The first `count` positions.
fn all(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// `size` members from position `turn` on, around the ring, those to avoid last.
fn around(members: usize, size: usize, turn: u64, avoid: u64) -> u64 {
    let start = (turn % members as u64) as usize;
    let ring = || (0..members).map(|step| 1 << ((start + step) % members));
    let wanted = ring().filter(|bit| bit & avoid == 0);
    wanted.chain(ring().filter(|bit| bit & avoid != 0)).take(size).fold(0, |set, bit: u64| set | bit)
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Unfit::Members { members } => write!(f, "{members} members; a group has 1 to 64"),
            Unfit::Size { size, members } => write!(f, "a quorum of {size} among {members}; take 1 to {members}"),
            Unfit::Disjoint { read, write, members } => write!(
                f,
                "a read of {read} and a write of {write} among {members} may not meet; their sum must exceed {members}"
            ),
            Unfit::GridTooLarge { rows, columns, members } => write!(
                f,
                "{members} members leave a row or a column of {rows} rows of {columns} empty; take fewer of them"
            ),
            Unfit::GridTooSmall { rows, columns, members } => write!(
                f,
                "{rows} rows of {columns} leave out {} of {members} members; take more rows or columns",
                members - usize::from(rows) * usize::from(columns)
            ),
        }
    }
}

impl core::error::Error for Unfit {}
