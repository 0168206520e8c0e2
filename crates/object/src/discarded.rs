//! Objects that are gone all at once: to free the memory of very many takes long, and nobody need wait for it.

use crate::expiries::Expiries;
use crate::objects::Objects;
use crate::table::Table;

/// With no more objects than this it is over at once. A million take some tens of milliseconds.
const FEW: usize = 4096;

/// What deleted objects have left. Dropping it frees their memory, in whatever thread that is done.
#[derive(Debug, Default)]
pub struct Discarded {
    tables: Vec<Table>,
    expiries: Vec<Expiries>,
}

impl Objects {
    /// What very many objects have left that were deleted at once, if there is anything. It is kept until somebody asks.
    pub fn take_discarded(&mut self) -> Option<Box<Discarded>> {
        self.discarded.take()
    }

    pub(crate) fn discard_table(&mut self, table: Table) {
        if table.count() > FEW {
            self.discarded.get_or_insert_default().tables.push(table);
        }
    }

    pub(crate) fn discard_expiries(&mut self, expiries: Expiries) {
        if expiries.total() > FEW {
            self.discarded.get_or_insert_default().expiries.push(expiries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Condition, Expiry, Outcome, SetAnswer};

    fn filled(count: usize) -> Objects {
        let mut objects = Objects::new([7; 16]);
        for number in 0..count {
            let name = number.to_le_bytes();
            let (condition, expiry, answer) = (Condition::Always, Expiry::AtMs(i64::MAX / 2), SetAnswer::Ok);
            let set = Command::Set { key: &name, value: b"v", condition, expiry, answer };
            assert_eq!(objects.run(&set, 1, 0), Outcome::Ok);
        }
        objects
    }

    fn taken(objects: &mut Objects) -> Option<(usize, usize)> {
        let Discarded { tables, expiries } = *objects.take_discarded()?;
        Some((tables.iter().map(Table::count).sum(), expiries.iter().map(Expiries::total).sum()))
    }

    #[test]
    fn what_very_many_objects_leave_is_handed_out() {
        for (count, left) in [(FEW, None), (FEW + 1, Some((FEW + 1, FEW + 1)))] {
            let mut objects = filled(count);
            assert_eq!(taken(&mut objects), None);
            objects.run(&Command::Flush, 2, 0);
            assert_eq!(objects.count(), 0);
            assert_eq!(taken(&mut objects), left);
            assert_eq!(taken(&mut objects), None);
        }
    }

    #[test]
    fn a_table_that_is_still_being_saved_is_handed_out_once_it_is() {
        let mut objects = filled(FEW + 1);
        objects.begin_saving();
        objects.run(&Command::Flush, 2, 0);
        assert_eq!(taken(&mut objects), Some((0, FEW + 1)));
        let mut shown = 0;
        assert!(objects.save_some(&mut { usize::MAX }, |_, _| shown += 1));
        assert_eq!((shown, taken(&mut objects)), (FEW + 1, Some((FEW + 1, 0))));
    }
}
