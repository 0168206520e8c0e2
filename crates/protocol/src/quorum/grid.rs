//! Members in rows and columns. A read quorum has one member of each column, a write quorum is a column.
//!
//! The paper reads a whole row. One of each column is more general: it meets every column too, it exists where the last
//! row is incomplete, and a member that is down costs its row nothing but itself.

use super::all;

pub(super) struct Grid {
    columns: usize,
    /// Members in the grid, which fill it row by row.
    count: usize,
}

impl Grid {
    pub(super) fn new(rows: usize, columns: usize, members: usize) -> Grid {
        Grid { columns, count: members.min(rows * columns) }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The column of the member at this position, unless it is beyond the grid.
    pub(super) fn column_of(&self, position: usize) -> Option<usize> {
        (position < self.count).then_some(position % self.columns)
    }

    pub(super) fn height(&self, column: usize) -> usize {
        (self.count + self.columns - 1 - column) / self.columns
    }

    fn column(&self, column: usize) -> u64 {
        (column..self.count).step_by(self.columns).fold(0, |set, position| set | 1 << position)
    }

    pub(super) fn is_read_quorum(&self, set: u64) -> bool {
        (0..self.columns).all(|column| set & self.column(column) != 0)
    }

    pub(super) fn is_write_quorum(&self, set: u64) -> bool {
        (0..self.columns).map(|column| self.column(column)).any(|column| column != 0 && set & column == column)
    }

    /// A row, but for members to avoid: in their columns the next one below, around the column.
    pub(super) fn preferred_read(&self, turn: u64, avoid: u64) -> u64 {
        (0..self.columns).fold(0, |set, column| {
            let height = self.height(column);
            let start = (turn % height as u64) as usize;
            let mut bits = (0..height).map(|step| 1 << (((start + step) % height) * self.columns + column));
            let first = bits.clone().next().expect("no column is empty");
            set | bits.find(|bit: &u64| bit & avoid == 0).unwrap_or(first)
        })
    }

    /// A column with as few members to avoid as there is.
    pub(super) fn preferred_write(&self, turn: u64, avoid: u64) -> u64 {
        let start = (turn % self.columns as u64) as usize;
        let columns = (0..self.columns).map(|step| self.column((start + step) % self.columns));
        columns.min_by_key(|column| (column & avoid).count_ones()).expect("a grid has columns")
    }

    /// As few members as stop reads (all of the shortest column) or writes (one of each column).
    pub(super) fn fatal(&self) -> u64 {
        let last = self.columns - 1;
        if self.height(last) < self.columns { self.column(last) } else { all(self.columns) }
    }
}
