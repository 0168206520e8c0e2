//! What section 4 of the chain replication paper says of outages, in message delays after detection.

use quorate_lab::outage::{Case, section_4};

fn delays(protocol: &str, failed: &str, requests: &str) -> (u64, u64) {
    let outages = section_4().into_iter().flat_map(|case| case.outages);
    let mut found =
        outages.filter(|outage| (outage.protocol, outage.failed, outage.requests) == (protocol, failed, requests));
    let outage = found.next().expect("every case is there");
    (outage.delays, outage.paper)
}

#[test]
fn a_failed_head_costs_updates_2_delays_and_queries_none() {
    assert_eq!(delays("chain", "head", "updates"), (2, 2));
    assert_eq!(delays("chain", "head", "queries"), (0, 0));
}

/// The paper's 4 if the master passes on what the successor says; 3 if the successor says it to its predecessor itself.
#[test]
fn a_failed_middle_delays_updates_and_costs_queries_nothing() {
    assert_eq!(delays("chain", "middle, figure 3", "updates"), (4, 4));
    assert_eq!(delays("chain", "middle", "updates"), (3, 4));
    assert_eq!(delays("chain", "middle", "queries"), (0, 0));
    assert_eq!(delays("chain", "middle, figure 3", "queries"), (0, 0));
}

#[test]
fn a_failed_tail_costs_both_2_delays() {
    assert_eq!(delays("chain", "tail", "queries"), (2, 2));
    assert_eq!(delays("chain", "tail", "updates"), (2, 2));
}

#[test]
fn a_failed_primary_costs_5_delays_and_a_failed_backup_1() {
    for requests in ["queries", "updates"] {
        assert_eq!(delays("p/b", "primary", requests), (5, 5));
        assert_eq!(delays("p/b", "backup", requests), (1, 1));
    }
}

/// Figure 3, message by message.
#[test]
fn the_messages_of_figure_3() {
    let case: Case = section_4().into_iter().find(|case| case.title.contains("figure 3")).expect("it is there");
    let messages: Vec<_> = case.messages.iter().map(|(at, words)| format!("{at} {words}")).collect();
    let expected = [
        "1 master -> n3: e2[n1, n3]",
        "2 n3 -> master: e2 Connect { membership: e2[n1, n3], next_slot: s0 }",
        "3 master -> n1: e2[n1, n3]",
        "3 n3 -> n1: e2 Connect { membership: e2[n1, n3], next_slot: s0 }",
    ];
    assert_eq!(messages[..4], expected);
    assert!(messages[4].starts_with("4 n1 -> n3: e2 Suffix of "), "{messages:?}");
}

/// "The worst case outage for chain replication is never as long as the worst case outage for primary/backup."
#[test]
fn the_worst_case_of_a_chain_is_better_than_that_of_primary_backup() {
    let worst = |protocol: &str| {
        let outages = section_4().into_iter().flat_map(|case| case.outages);
        outages.filter(|outage| outage.protocol == protocol).map(|outage| outage.delays).max()
    };
    assert!(worst("chain") < worst("p/b"), "{:?} {:?}", worst("chain"), worst("p/b"));
}
