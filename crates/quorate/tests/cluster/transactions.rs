//! Money goes from account to account in transactions, while nodes are killed: none is lost, and nobody sees it on its way.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, pipe};

use crate::nodes::{Cluster, until};
use crate::random::Random;

const ACCOUNTS: u64 = 5;
const EACH: i64 = 100;
const PAYERS: u64 = 6;
const RUN: Duration = Duration::from_secs(8);

/// What the clients know.
#[derive(Default)]
struct Known {
    is_over: AtomicBool,
    /// Transfers that were answered.
    paid: AtomicI64,
    /// Of the others, those of which nobody knows.
    unknown: AtomicI64,
    audits: AtomicI64,
    /// A sum that should not be.
    wrong: Mutex<Option<Vec<i64>>>,
}

fn account(number: u64) -> String {
    format!("{{bank}}{number}")
}

fn balances(client: &mut Connection) -> RedisResult<Vec<i64>> {
    let mut audit = pipe();
    audit.atomic();
    for number in 0..ACCOUNTS {
        audit.get(account(number));
    }
    audit.query(client)
}

/// Whether its outcome is unknown: refusals say that nothing was executed.
fn is_unknown(error: &redis::RedisError) -> bool {
    !matches!(error.code(), Some("NOQUORUM" | "TRYAGAIN" | "LOADING"))
}

/// Does it again and again until all is over, on a new connection after each error, which `failed` is told.
fn repeat(
    known: &Known,
    connect: impl Fn() -> Option<Connection>,
    mut act: impl FnMut(&mut Connection) -> RedisResult<()>,
    failed: impl Fn(redis::RedisError),
) {
    let mut client = None;
    while !known.is_over.load(Ordering::Relaxed) {
        client = client.or_else(&connect);
        let Some(connected) = &mut client else {
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        if let Err(error) = act(connected) {
            failed(error);
            client = None;
        }
    }
}

fn pay(known: &Known, mut random: Random, connect: impl Fn() -> Option<Connection>) {
    let transfer = |client: &mut Connection| {
        let (from, to, sum) = (random.below(ACCOUNTS), random.below(ACCOUNTS), 1 + random.below(9));
        let mut transfer = pipe();
        // Payments are counted where they are made, so that one which is executed twice is seen.
        transfer.atomic().decr(account(from), sum).incr(account(to), sum).cmd("HINCRBY").arg("{bank}paid").arg("count");
        transfer.arg(1);
        transfer.query::<Vec<i64>>(client)?;
        known.paid.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    repeat(known, connect, transfer, |error| {
        known.unknown.fetch_add(i64::from(is_unknown(&error)), Ordering::Relaxed);
    });
}

fn audit(known: &Known, connect: impl Fn() -> Option<Connection>) {
    let look = |client: &mut Connection| {
        let balances = balances(client)?;
        known.audits.fetch_add(1, Ordering::Relaxed);
        if balances.iter().sum::<i64>() != EACH * ACCOUNTS as i64 {
            *known.wrong.lock().expect("nobody has panicked") = Some(balances);
        }
        Ok(())
    };
    repeat(known, connect, look, drop);
}

#[test]
fn money_in_transactions_is_neither_lost_nor_seen_on_its_way() {
    let mut cluster = Cluster::started("transactions", 3);
    let mut client = cluster.client(0);
    let mut open = pipe();
    open.atomic();
    for number in 0..ACCOUNTS {
        open.set(account(number), EACH);
    }
    open.exec(&mut client).expect("opened");
    let mut random = Random::announced();
    let known = Arc::new(Known::default());
    let mut threads = Vec::new();
    for number in 0..PAYERS + 2 {
        let address = cluster.address(number as usize % 3);
        let connect = move || crate::nodes::connect(address).ok();
        let (known, random) = (known.clone(), Random::new(random.below(u64::MAX)));
        threads.push(thread::spawn(move || match number < PAYERS {
            true => pay(&known, random, connect),
            false => audit(&known, connect),
        }));
    }
    let started = Instant::now();
    while started.elapsed() < RUN {
        let victim = random.below(3) as usize;
        thread::sleep(Duration::from_millis(500 + random.below(500)));
        cluster.kill(victim);
        thread::sleep(Duration::from_millis(random.below(700)));
        cluster.start_by_hand(victim);
        let paid = known.paid.load(Ordering::Relaxed);
        until("payments go on", || known.paid.load(Ordering::Relaxed) > paid);
    }
    known.is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no client has panicked"));
    let mut last = None;
    until("a last audit", || {
        last = cluster.try_client(1).and_then(|mut client| balances(&mut client)).ok();
        last.is_some()
    });
    let (paid, unknown) = (known.paid.load(Ordering::Relaxed), known.unknown.load(Ordering::Relaxed));
    let mut client = cluster.client(2);
    let count: i64 = redis::cmd("HGET").arg("{bank}paid").arg("count").query(&mut client).expect("counted");
    println!("{paid} payments, {unknown} of unknown outcome, {count} executed; {:?} audits", known.audits);
    assert_eq!(*known.wrong.lock().expect("nobody has panicked"), None, "money was seen on its way");
    assert_eq!(last.map(|balances| balances.iter().sum()), Some(EACH * ACCOUNTS as i64));
    assert!((paid..=paid + unknown).contains(&count), "{paid} payments were answered, {unknown} not, {count} executed");
    assert!(paid > 100 && known.audits.load(Ordering::Relaxed) > 50, "too little happened");
}
