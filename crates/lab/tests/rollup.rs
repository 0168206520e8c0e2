//! What section V-A of the Rollup paper says of messages, and what registers send.

use quorate_lab::rollup::{Distinct, GRANULARITIES, Phases, SERVERS, formula, formula_of_upgrade, upgrade};
use quorate_protocol::register::Reach;

#[test]
fn the_formula_is_the_papers() {
    let of = |before, after| formula(before, after, Distinct::AsInThePaper);
    assert_eq!(of(25, 24), Phases { prepare: 10, propose: 18 + 18 * 18, propagate: 18 * (18 + 14) });
    assert_eq!([(25, 24), (24, 24), (24, 25)].map(|(before, after)| of(before, after).total()), [928, 610, 666]);
    let totals = GRANULARITIES.map(|granularity| formula_of_upgrade(SERVERS, granularity, Distinct::AsInThePaper));
    assert_eq!(totals, [16_234, 4_034]);
}

#[test]
fn two_rows_and_two_columns_hold_fewer() {
    let of = |before, after| formula(before, after, Distinct::Corrected).total();
    assert_eq!([(25, 24), (24, 24), (24, 25)].map(|(before, after)| of(before, after)), [730, 452, 500]);
    let totals = GRANULARITIES.map(|granularity| formula_of_upgrade(SERVERS, granularity, Distinct::Corrected));
    assert_eq!(totals, [12_078, 3_038]);
}

#[test]
fn registers_send_what_the_corrected_formula_says() {
    for granularity in GRANULARITIES {
        let upgrade = upgrade(SERVERS, granularity, Reach::Twofold);
        let (count, between) = (upgrade.reconfigurations.len(), SERVERS - granularity);
        assert_eq!(count, SERVERS / granularity + 1);
        for (number, counted) in upgrade.reconfigurations.iter().enumerate() {
            let before = if number == 0 { SERVERS } else { between };
            let after = if number == count - 1 { SERVERS } else { between };
            let expected = formula(before, after, Distinct::Corrected);
            assert_eq!(counted.phases, expected, "g = {granularity}, reconfiguration {number}");
        }
        let total = upgrade.total().phases.total();
        assert_eq!(total, formula_of_upgrade(SERVERS, granularity, Distinct::Corrected));
    }
}

/// A row; a row and a column, and their votes to the candidate; then everybody.
#[test]
fn preferred_quorums_send_a_fraction() {
    let upgrade = upgrade(SERVERS, 1, Reach::Preferred);
    let first = upgrade.reconfigurations[0].phases;
    assert_eq!(first, Phases { prepare: 5, propose: 9 + 9, propagate: 25 });
    for granularity in GRANULARITIES {
        let [preferred, twofold] = [Reach::Preferred, Reach::Twofold].map(|reach| in_all(granularity, reach));
        assert!(preferred * 3 < twofold, "g = {granularity}: {preferred} messages in all, {twofold} as in the paper");
    }
}

/// Answers and retiring included.
fn in_all(granularity: usize, reach: Reach) -> u64 {
    let total = upgrade(SERVERS, granularity, reach).total();
    total.phases.total() + total.rest
}
