//! How many wrong passwords an address may give.
//!
//! Ten at once, then one a second. Only wrong ones count, so clients that know the password are never held up, however
//! many there are; an address from which somebody guesses holds up everybody at that address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use quorate_protocol::Instant;

/// Wrong passwords that an address may give at once.
pub(super) const BURST: u32 = 10;
/// How long it takes until it may give one more.
pub(super) const REFILL_US: u64 = 1_000_000;
/// The most that an address can owe: passwords that were looked at while others turned out to be wrong.
const DEBT_MAX: u32 = 60;
/// Addresses that are remembered; with more, all new ones count as one.
const SOURCES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// When each address that gave wrong passwords will have its full allowance again.
    whole_at: HashMap<IpAddr, Instant>,
    /// Of all the addresses for which there is no room.
    others_whole_at: Option<Instant>,
}

impl Attempts {
    /// Whether a password from there may be looked at; else after how many seconds one may.
    pub(super) fn check(&self, source: Option<IpAddr>, now: Instant) -> Result<(), u64> {
        let whole_at = match source.map(network) {
            Some(network) if self.whole_at.contains_key(&network) => self.whole_at.get(&network).copied(),
            Some(_) if self.whole_at.len() < SOURCES_MAX => None,
            _ => self.others_whole_at,
        };
        let owed_us = whole_at.map_or(0, |whole_at| whole_at.0.saturating_sub(now.0));
        let allowed_us = u64::from(BURST - 1) * REFILL_US;
        if owed_us <= allowed_us { Ok(()) } else { Err((owed_us - allowed_us).div_ceil(REFILL_US)) }
    }

    pub(super) fn note_wrong(&mut self, source: Option<IpAddr>, now: Instant) {
        if self.whole_at.len() >= SOURCES_MAX {
            self.whole_at.retain(|_, whole_at| *whole_at > now);
        }
        let latest = now.after_us(u64::from(BURST + DEBT_MAX) * REFILL_US);
        let later = |whole_at: Instant| whole_at.max(now).after_us(REFILL_US).min(latest);
        match source.map(network) {
            Some(network) if self.whole_at.contains_key(&network) || self.whole_at.len() < SOURCES_MAX => {
                let whole_at = self.whole_at.entry(network).or_insert(now);
                *whole_at = later(*whole_at);
            }
            _ => self.others_whole_at = Some(later(self.others_whole_at.unwrap_or(now))),
        }
    }
}

/// Who has one address of version 6 has the whole network it is in.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: Instant = Instant(7_000_000_000);

    fn at(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn ten_at_once_and_then_one_a_second() {
        let mut attempts = Attempts::default();
        let source = at("10.0.0.1");
        for _ in 0..BURST {
            assert_eq!(attempts.check(source, NOW), Ok(()));
            attempts.note_wrong(source, NOW);
        }
        assert_eq!(attempts.check(source, NOW), Err(1));
        assert_eq!(attempts.check(at("10.0.0.2"), NOW), Ok(()));
        assert_eq!(attempts.check(source, NOW.after_us(REFILL_US - 1)), Err(1));
        let later = NOW.after_us(REFILL_US);
        assert_eq!(attempts.check(source, later), Ok(()));
        attempts.note_wrong(source, later);
        assert_eq!(attempts.check(source, later), Err(1));
    }

    #[test]
    fn what_is_owed_has_an_end() {
        let mut attempts = Attempts::default();
        let source = at("10.0.0.1");
        (0..1000).for_each(|_| attempts.note_wrong(source, NOW));
        assert_eq!(attempts.check(source, NOW), Err(u64::from(DEBT_MAX) + 1));
    }

    #[test]
    fn a_network_of_version_6_is_one_source_and_a_mapped_address_is_of_version_4() {
        let mut attempts = Attempts::default();
        (0..BURST).for_each(|number| attempts.note_wrong(at(&format!("2001:db8::{number}")), NOW));
        assert_eq!(attempts.check(at("2001:db8::ffff"), NOW), Err(1));
        assert_eq!(attempts.check(at("2001:db8:0:1::1"), NOW), Ok(()));
        (0..BURST).for_each(|_| attempts.note_wrong(at("::ffff:10.0.0.1"), NOW));
        assert_eq!(attempts.check(at("10.0.0.1"), NOW), Err(1));
    }

    #[test]
    fn a_flood_of_addresses_is_held_to_one_allowance() {
        let mut attempts = Attempts::default();
        let numbered = |number: u32| Some(IpAddr::V4(Ipv4Addr::from_bits(number)));
        for number in 0..SOURCES_MAX as u32 + BURST {
            assert_eq!(attempts.check(numbered(number), NOW), Ok(()));
            attempts.note_wrong(numbered(number), NOW);
        }
        assert_eq!(attempts.whole_at.len(), SOURCES_MAX);
        assert_eq!(attempts.check(numbered(1 << 20), NOW), Err(1));
        // Those that have their allowance back make room.
        let later = NOW.after_us(REFILL_US);
        attempts.note_wrong(numbered(1 << 20), later);
        assert_eq!(attempts.whole_at.len(), 1);
    }
}
