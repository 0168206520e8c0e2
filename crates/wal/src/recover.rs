//! Opening a log: which of the blocks on the medium are its history.
//!
//! A crash leaves the last writes torn or missing; that is no loss, because nobody was told that they were durable. The
//! same sight further back means that the medium lost what it had promised to keep. The two are told apart by the
//! blocks themselves: each names the block before it and the newest one that was known to be durable.
//!
//! 1. *Walk* all pages and note the whole blocks, as runs in which each names the one before it.
//! 2. *Judge* the runs, which needs no storage: accept, cut off as torn, or report damage and go on.
//! 3. *Replay* the accepted blocks, in a second walk.
//!
//! What cannot be told apart: damage to the very last blocks, after which nothing was written that would vouch for
//! them, looks like a torn tail, unless it is known from outside how long the log was ([`crate::Settings::known_end`]).

use std::collections::BTreeSet;

use crate::block::{self, HEADER_BYTES, Header, Life};
use crate::releases::{self, Releases};
use crate::storage::{Bounds, Storage, StorageError};
use crate::{Damage, Lsn, OpenError, PAGE_BYTES, pages};

/// Blocks of which each names the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    first: Lsn,
    last: Lsn,
    /// The block that `first` names.
    previous: Lsn,
    /// Where the pages of `last` end.
    end: Lsn,
}

/// What a walk over the whole log found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    runs: Vec<Run>,
    lives: Vec<Life>,
    /// The newest block that any block knew to be durable.
    durable: Lsn,
    /// Headers without the body that they promise: where, and how many bytes were promised.
    broken: Vec<(Lsn, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// First and last block of every stretch to be applied.
    accepted: Vec<(Lsn, Lsn)>,
    /// The last block accepted.
    pub(crate) last: Lsn,
    /// The end of the last whole block of all, accepted or not: nothing may be written before it.
    pub(crate) end: Option<Lsn>,
    pub(crate) torn_bytes: u64,
    pub(crate) damage: Vec<Damage>,
}

impl Verdict {
    pub(crate) fn accepts(&self, lsn: Lsn) -> bool {
        let at = self.accepted.partition_point(|(first, _)| *first <= lsn);
        at > 0 && lsn <= self.accepted[at - 1].1
    }
}

/// Walks over the pages of `segments` and calls back every whole block of this log, in the order of addresses.
/// `broken` gets headers that promise more than is there.
pub(crate) fn walk(
    storage: &impl Storage,
    segments: &[u64],
    log_id: u64,
    mut whole: impl FnMut(&Header, &[u8]),
    mut broken: impl FnMut(&Header),
) -> Result<(), OpenError> {
    for &segment in segments {
        let mut window = Window::new(storage, segment)?;
        let mut offset = 0;
        while offset + HEADER_BYTES as u64 <= window.length {
            let page = window.bytes(offset, HEADER_BYTES)?;
            let Some(header) = block::claimed(page, Lsn::at(segment, offset)) else {
                offset += PAGE_BYTES as u64;
                continue;
            };
            let length = header.length as usize;
            let fits = offset + length as u64 <= window.length;
            let block = if fits { window.bytes(offset, length)? } else { &[] };
            if !block::is_whole(block) {
                broken(&header);
                offset += PAGE_BYTES as u64;
                continue;
            }
            refuse_strangers(&header, log_id)?;
            if !header.is_coherent() {
                broken(&header);
                offset += PAGE_BYTES as u64;
                continue;
            }
            whole(&header, block);
            offset += pages(length) as u64;
        }
    }
    Ok(())
}

/// Groups of which whole records lie where a damaged block may have begun: each record has a checksum of its own. They
/// are named, not applied.
pub(crate) fn make_out(storage: &impl Storage, segments: &[u64], damage: &[Damage]) -> Result<Vec<u64>, OpenError> {
    let mut groups = BTreeSet::new();
    for damage in damage {
        let Damage::Unreadable { from, to } = damage else { continue };
        for &segment in segments.iter().filter(|segment| (from.segment()..=to.segment()).contains(segment)) {
            let length = storage.length(segment)?;
            let start = if segment == from.segment() { from.offset() } else { 0 };
            let end = if segment == to.segment() { to.offset().min(length) } else { length };
            if end <= start {
                continue;
            }
            let mut bytes = vec![0; (end - start) as usize];
            storage.read(segment, start, &mut bytes)?;
            for page in (0..bytes.len()).step_by(PAGE_BYTES) {
                block::for_each_readable(&bytes[page..], |group| {
                    groups.insert(group);
                });
            }
        }
    }
    Ok(groups.into_iter().collect())
}

/// A whole block in its own place that this release, or this log, did not write: better not to open than to cut off.
fn refuse_strangers(header: &Header, log_id: u64) -> Result<(), OpenError> {
    let segment = header.lsn.segment();
    if header.version > block::FORMAT_VERSION {
        return Err(OpenError::NewerVersion { segment, found: header.version, known: block::FORMAT_VERSION });
    }
    if header.log_id != log_id {
        return Err(OpenError::ForeignLog { segment, found: header.log_id, expected: log_id });
    }
    Ok(())
}

impl Scan {
    /// What `releases` gets are notes in whole blocks, whether or not these turn out to be part of the log.
    pub(crate) fn of(
        storage: &impl Storage,
        segments: &[u64],
        log_id: u64,
        releases: &mut Releases,
    ) -> Result<Scan, OpenError> {
        let mut scan = Scan::default();
        let mut broken = Vec::new();
        walk(
            storage,
            segments,
            log_id,
            |header, block| {
                scan.note(header);
                block::for_each_record(block, header.count, |at, group, _, bytes| {
                    if group == releases::GROUP {
                        releases.note(header.lsn, Lsn(header.lsn.0 + at as u64), bytes);
                    }
                });
            },
            |header| broken.push((header.lsn, u64::from(header.length))),
        )?;
        scan.broken = broken;
        Ok(scan)
    }

    fn note(&mut self, header: &Header) {
        self.durable = self.durable.max(header.durable);
        if self.lives.last() != Some(&header.life) {
            self.lives.push(header.life);
        }
        let end = Lsn(header.lsn.0 + pages(header.length as usize) as u64);
        match self.runs.last_mut() {
            Some(run) if run.last == header.previous => (run.last, run.end) = (header.lsn, end),
            _ => {
                let Header { lsn, previous, .. } = *header;
                self.runs.push(Run { first: lsn, last: lsn, previous, end });
            }
        }
    }

    /// The run without blocks that an earlier opening cut off; none if that leaves nothing.
    fn without_void(&self, mut run: Run) -> Option<Run> {
        for life in &self.lives {
            if life.voids(run.first) {
                return None;
            }
            if life.voids(run.last) {
                run.last = life.cut;
            }
        }
        Some(run)
    }

    /// Decides over every run. `segments` are those present, `bounds` those that should be.
    pub(crate) fn judge(&self, segments: &[u64], bounds: Bounds, known_end: Lsn) -> Verdict {
        let present: BTreeSet<u64> = segments.iter().copied().collect();
        let missing: Vec<u64> = (bounds.first..=bounds.last).filter(|segment| !present.contains(segment)).collect();
        // Whatever lay before the first segment was not needed any more.
        let before_all = Lsn(Lsn::at(bounds.first, 0).0 - 1);
        // A segment is removed only when a durable block lies in a later one.
        let was_used = bounds.first > 1;
        let durable = self.durable.max(known_end);
        let mut verdict = Verdict {
            accepted: Vec::new(),
            last: Lsn(0),
            end: self.runs.last().map(|run| run.end),
            torn_bytes: 0,
            damage: missing.iter().map(|&segment| Damage::MissingSegment { segment }).collect(),
        };
        let mut from = Lsn::at(bounds.first, 0);
        for run in self.runs.iter().filter_map(|run| self.without_void(*run)) {
            let nothing_yet = verdict.accepted.is_empty();
            let joined = run.previous == verdict.last || (nothing_yet && run.previous <= before_all);
            let explained = missing.iter().any(|segment| (from.segment()..=run.first.segment()).contains(segment));
            if !joined && !explained {
                let vouched = durable > verdict.last.max(before_all) || (nothing_yet && was_used);
                if !vouched {
                    break;
                }
                verdict.damage.push(Damage::Unreadable { from, to: run.first });
            }
            verdict.accepted.push((run.first, run.last));
            verdict.last = run.last;
            from = run.end;
        }
        if verdict.accepted.is_empty() && was_used && verdict.damage.is_empty() {
            verdict.damage.push(Damage::Unreadable { from, to: Lsn::at(bounds.last + 1, 0) });
        }
        // The block's own length is not known.
        let behind_end = Lsn(known_end.0 + PAGE_BYTES as u64);
        if verdict.damage.iter().all(|damage| damage.end() < behind_end) {
            if verdict.last < known_end {
                verdict.damage.push(Damage::Unreadable { from, to: behind_end });
                verdict.end = verdict.end.max(Some(behind_end));
            } else if let Some(life) = self.lives.iter().find(|life| life.voids(known_end)) {
                // An earlier opening missed it and went on behind it. Whoever was told may have died before he noted that.
                verdict.damage.push(Damage::Unreadable { from: Lsn(life.cut.0 + PAGE_BYTES as u64), to: behind_end });
            }
        }
        verdict.torn_bytes = self.torn_bytes(verdict.last);
        verdict
    }

    /// What lies after the last accepted block and was once meant to be part of the log.
    fn torn_bytes(&self, last: Lsn) -> u64 {
        let void = |lsn: Lsn| self.lives.iter().any(|life| life.voids(lsn));
        let dropped = self.runs.iter().filter(|run| run.first > last && !void(run.first));
        let broken = self.broken.iter().filter(|(lsn, _)| *lsn > last && !void(*lsn));
        dropped.map(|run| run.end.0 - run.first.0).sum::<u64>() + broken.map(|(_, bytes)| bytes).sum::<u64>()
    }
}

/// Reads a segment from front to back in large pieces.
struct Window<'a, S> {
    storage: &'a S,
    segment: u64,
    length: u64,
    start: u64,
    bytes: Vec<u8>,
}

const WINDOW_BYTES: usize = 1024 * 1024;

impl<'a, S: Storage> Window<'a, S> {
    fn new(storage: &'a S, segment: u64) -> Result<Window<'a, S>, StorageError> {
        Ok(Window { storage, segment, length: storage.length(segment)?, start: 0, bytes: Vec::new() })
    }

    /// `length` bytes from `offset` on, which lie inside the segment. Of what was read already, nothing is read again.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], StorageError> {
        let end = offset + length as u64;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            match offset.checked_sub(self.start) {
                Some(passed) if passed < self.bytes.len() as u64 => {
                    self.bytes.drain(..passed as usize);
                }
                _ => self.bytes.clear(),
            }
            self.start = offset;
            let (kept, rest) = (self.bytes.len(), usize::try_from(self.length - offset).unwrap_or(usize::MAX));
            self.bytes.resize(length.max(WINDOW_BYTES).min(rest), 0);
            self.storage.read(self.segment, offset + kept as u64, &mut self.bytes[kept..])?;
        }
        let at = (offset - self.start) as usize;
        Ok(&self.bytes[at..at + length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;

    /// The block on page `page` of segment `segment`.
    fn lsn(segment: u64, page: u64) -> Lsn {
        Lsn::at(segment, page * PAGE)
    }

    /// A log of one-page blocks: (lsn, previous, durable), with the life each belongs to.
    fn scan(blocks: &[(Lsn, Lsn, Lsn, Life)]) -> Scan {
        let mut scan = Scan::default();
        for &(lsn, previous, durable, life) in blocks {
            scan.note(&Header { version: 1, log_id: 1, lsn, previous, durable, life, length: 100, count: 0 });
        }
        scan
    }

    const FIRST: Life = Life { cut: Lsn(0), resumed: Lsn(1 << 32) };
    const ONE: Bounds = Bounds { first: 1, last: 1 };

    #[test]
    fn a_missing_block_that_nobody_vouches_for_is_torn() {
        let (a, b, d) = (lsn(1, 0), lsn(1, 1), lsn(1, 3));
        let verdict =
            scan(&[(a, Lsn(0), Lsn(0), FIRST), (b, a, a, FIRST), (d, lsn(1, 2), b, FIRST)]).judge(&[1], ONE, Lsn(0));
        assert_eq!((verdict.last, verdict.torn_bytes, verdict.end), (b, PAGE, Some(lsn(1, 4))));
        assert_eq!(verdict.damage, []);
        assert!(verdict.accepts(a) && verdict.accepts(b) && !verdict.accepts(d));
    }

    #[test]
    fn a_missing_block_that_was_durable_is_damage() {
        let (a, b, d) = (lsn(1, 0), lsn(1, 1), lsn(1, 3));
        let c = lsn(1, 2);
        let verdict = scan(&[(a, Lsn(0), Lsn(0), FIRST), (b, a, a, FIRST), (d, c, c, FIRST)]).judge(&[1], ONE, Lsn(0));
        assert_eq!((verdict.last, verdict.torn_bytes), (d, 0));
        assert_eq!(verdict.damage, [Damage::Unreadable { from: c, to: d }]);
    }

    #[test]
    fn what_was_cut_off_once_stays_cut_off() {
        let (a, b, c) = (lsn(1, 0), lsn(1, 1), lsn(1, 2));
        let second = Life { cut: a, resumed: lsn(1, 3) };
        let (d, e) = (lsn(1, 3), lsn(1, 4));
        // `b` was lost and `c` not, then the log was opened and went on at `d`, which was damaged later.
        let leftover = (c, b, a, FIRST);
        let verdict = scan(&[(a, Lsn(0), Lsn(0), FIRST), leftover, (d, a, a, second), (e, d, d, second)]).judge(
            &[1],
            ONE,
            Lsn(0),
        );
        assert_eq!((verdict.last, &verdict.damage[..], verdict.torn_bytes), (e, &[][..], 0));
        assert!(!verdict.accepts(c));
        let verdict = scan(&[(a, Lsn(0), Lsn(0), FIRST), leftover, (e, d, d, second)]).judge(&[1], ONE, Lsn(0));
        assert_eq!(verdict.damage, [Damage::Unreadable { from: b, to: e }]);
        assert!(!verdict.accepts(c) && verdict.accepts(e));
    }

    #[test]
    fn a_lost_segment_is_damage_wherever_it_was() {
        let blocks: Vec<_> = [(3, 2), (4, 3), (5, 4)]
            .map(|(segment, before)| (lsn(segment, 0), lsn(before, 0), lsn(before, 0), FIRST))
            .into();
        let bounds = Bounds { first: 3, last: 5 };
        let missing = |segment| vec![Damage::MissingSegment { segment }];
        assert_eq!(scan(&blocks).judge(&[3, 4, 5], bounds, Lsn(0)).damage, []);
        assert_eq!(scan(&blocks[1..]).judge(&[4, 5], bounds, Lsn(0)).damage, missing(3));
        assert_eq!(scan(&[blocks[0], blocks[2]]).judge(&[3, 5], bounds, Lsn(0)).damage, missing(4));
        assert_eq!(scan(&blocks[..2]).judge(&[3, 4], bounds, Lsn(0)).damage, missing(5));
        let verdict = scan(&[]).judge(&[3, 4, 5], bounds, Lsn(0));
        assert_eq!(verdict.damage, [Damage::Unreadable { from: lsn(3, 0), to: lsn(6, 0) }]);
    }

    #[test]
    fn a_log_that_ends_before_what_was_known_to_be_durable_is_damaged() {
        let (a, b, c) = (lsn(1, 0), lsn(1, 1), lsn(1, 2));
        let blocks = [(a, Lsn(0), Lsn(0), FIRST), (b, a, a, FIRST)];
        assert_eq!(scan(&blocks).judge(&[1], ONE, b).damage, []);
        let verdict = scan(&blocks).judge(&[1], ONE, c);
        assert_eq!(verdict.damage, [Damage::Unreadable { from: c, to: lsn(1, 3) }]);
        assert_eq!((verdict.last, verdict.end), (b, Some(lsn(1, 3))), "nothing is written where it was");
        let verdict = scan(&[]).judge(&[1], ONE, c);
        assert_eq!(verdict.damage, [Damage::Unreadable { from: a, to: lsn(1, 3) }]);
        let missing = scan(&blocks).judge(&[1], Bounds { first: 1, last: 2 }, lsn(2, 5)).damage;
        assert_eq!(missing, [Damage::MissingSegment { segment: 2 }]);
    }
}
