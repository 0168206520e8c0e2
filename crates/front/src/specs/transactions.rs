//! Commands around transactions.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const TRANSACTIONS: &[Spec] = specs! {
    Multi "multi" 1 Connection (0 0 0 "") "noscript loading stale fast allow_busy" "@fast @transaction"
        "transactions" "1.2.0" ""
        "Queue the commands that follow until EXEC",
    Exec "exec" 1 Transaction (0 0 0 "") "noscript loading stale skip_slowlog" "@slow @transaction"
        "transactions" "1.2.0" ""
        "Execute what was queued since MULTI with nothing between",
    Discard "discard" 1 Connection (0 0 0 "") "noscript loading stale fast allow_busy" "@fast @transaction"
        "transactions" "2.0.0" ""
        "Forget what was queued since MULTI",
};
