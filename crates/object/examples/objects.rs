//! Prints what a SET and a GET cost, and how many bytes an object takes: `cargo run --release -p quorate-object --example objects
//! [COUNT]`, by default for a million objects.
//!
//! Names and values are 16 bytes. Bytes are the process's growth in resident memory, so they hold what the allocator wastes too.

use std::error::Error;
use std::time::Instant;

use quorate_object::{Command, Condition, Expiry, Objects, SetAnswer};

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse::<u64>())?;
    let resident_before = resident_bytes()?;
    let mut objects = Objects::new(*b"a key of 16 byte");
    measure("SET, a name that is new", 0..count, |name| set(&mut objects, name));
    let resident = resident_bytes()? - resident_before;
    println!("{:<34}{:>8} B resident", "an object", resident / count);
    println!("{:<34}{:>8} B counted", "", objects.bytes() as u64 / count);
    measure("SET, a name that is there", 0..count, |name| set(&mut objects, name));
    measure("SET, new on a warm table", count..count + count / 10, |name| {
        set(&mut objects, name);
    });
    measure("GET", 0..count, |name| {
        objects.run(&Command::Get { key: &bytes(name) }, 0, 0);
    });
    measure("INCR, one name", 0..count, |_| {
        objects.run(&Command::IncrBy { key: b"counter", delta: 1 }, 0, 0);
    });
    measure("SCAN COUNT 10", 0..1_000, |from| {
        let from = from << 38;
        objects.run(&Command::Scan { from, count: 10, pattern: None, type_name: None }, 0, 0);
    });
    let started = Instant::now();
    let mut dirty_count = 0_u64;
    objects.take_dirty(|_, _| dirty_count += 1);
    let ns = started.elapsed().as_nanos() as u64;
    println!("{:<34}{:>8} ns each", "take_dirty", ns / dirty_count);
    Ok(())
}

fn set(objects: &mut Objects, name: u64) {
    let key = bytes(name);
    let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
    objects.run(&Command::Set { key: &key, value: &key, condition, expiry, answer }, 0, 0);
}

/// Visits the numbers in an order that no cache follows.
fn measure(what: &str, numbers: std::ops::Range<u64>, mut each: impl FnMut(u64)) {
    const STRIDE: u64 = 611_953;
    let count = numbers.end - numbers.start;
    let started = Instant::now();
    for n in 0..count {
        each(numbers.start + n * STRIDE % count);
    }
    println!("{what:<34}{:>8} ns each", started.elapsed().as_nanos() as u64 / count);
}

fn bytes(name: u64) -> [u8; 16] {
    let mut bytes = [b'k'; 16];
    bytes[8..].copy_from_slice(&name.to_le_bytes());
    bytes
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("statm without resident pages")?.parse()?;
    Ok(pages * 4096)
}
