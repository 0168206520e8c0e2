//! What each member carries of a group's operations, and the least that the busiest one could.

use alloc::vec;
use alloc::vec::Vec;

use super::grid::Grid;

/// Parts of all operations, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// By position: the part of the operations' phases in which this member is asked first.
    pub members: Vec<f64>,
    /// No choice of quorums leaves the busiest member less than this.
    pub optimum: f64,
}

impl Load {
    /// The busiest member's.
    pub fn highest(&self) -> f64 {
        self.members.iter().copied().fold(0.0, f64::max)
    }

    /// Quorums of equal size, taken in turns, load all alike, and any quorum costs as much: none does better.
    pub(super) fn of_sizes(members: usize, read: usize, write: usize, read_share: f64) -> Load {
        let each = (read_share * read as f64 + (1.0 - read_share) * write as f64) / members as f64;
        Load { members: vec![each; members], optimum: each }
    }

    pub(super) fn of_grid(grid: &Grid, members: usize, read_share: f64) -> Load {
        let write_share = 1.0 - read_share;
        let columns = grid.columns() as f64;
        let of_column = |column| read_share / grid.height(column) as f64 + write_share / columns;
        let of_member = |position| grid.column_of(position).map_or(0.0, of_column);
        Load { members: (0..members).map(of_member).collect(), optimum: grid_optimum(grid, read_share) }
    }
}

/// A read loads each column with 1 over its height at best. Writes are then poured onto the least loaded columns, until
/// all that take any are level: a column of an incomplete last row, which reads load more, takes fewer.
fn grid_optimum(grid: &Grid, read_share: f64) -> f64 {
    let mut loads: Vec<f64> = (0..grid.columns()).map(|column| read_share / grid.height(column) as f64).collect();
    loads.sort_by(f64::total_cmp);
    let mut level = 0.0;
    let mut poured_on = 0.0;
    for (count, load) in (1..).zip(&loads) {
        poured_on += load;
        let next = loads.get(count).copied().unwrap_or(f64::INFINITY);
        level = (poured_on + 1.0 - read_share) / count as f64;
        if level <= next {
            break;
        }
    }
    loads.last().copied().unwrap_or(0.0).max(level)
}
