//! Primary/backup as section 4 of the paper describes it: the primary orders, distributes, waits for all backups, answers.

use std::collections::BTreeMap;

use super::{CHANGE_US, Job, Outgoing, QUERY_US, Service, UPDATE_US};

const PRIMARY: usize = 0;

pub(super) struct Servers {
    count: usize,
    /// Any server answers queries, from whatever it has.
    weak: bool,
    next_update: u64,
    /// Updates that some backup has not acknowledged: whose each is, and how many have not.
    unacknowledged: BTreeMap<u64, (usize, usize)>,
    /// Queries that wait for the updates before the number.
    queries: Vec<(u64, usize)>,
}

#[derive(Clone, Copy)]
pub(super) enum Letter {
    Change { update: u64 },
    Acknowledged { update: u64 },
}

impl Servers {
    pub(super) fn new(count: usize, weak: bool) -> Servers {
        Servers { count, weak, next_update: 0, unacknowledged: BTreeMap::new(), queries: Vec::new() }
    }

    fn update(&mut self, client: usize, out: &mut Vec<Outgoing<Letter>>) {
        let update = self.next_update;
        self.next_update += 1;
        self.unacknowledged.insert(update, (client, self.count - 1));
        for to in PRIMARY + 1..self.count {
            out.push(Outgoing::ToServer { from: PRIMARY, to, letter: Letter::Change { update } });
        }
        self.answer(out);
    }

    fn acknowledged(&mut self, update: u64, out: &mut Vec<Outgoing<Letter>>) {
        if let Some((_, missing)) = self.unacknowledged.get_mut(&update) {
            *missing -= 1;
        }
        self.answer(out);
    }

    fn answer(&mut self, out: &mut Vec<Outgoing<Letter>>) {
        // Links and servers are first in, first out: updates are acknowledged in their order.
        while let Some(entry) = self.unacknowledged.first_entry().filter(|entry| entry.get().1 == 0) {
            out.push(Outgoing::ToClient { client: entry.remove().0 });
        }
        let open_from = self.unacknowledged.keys().next().copied().unwrap_or(self.next_update);
        self.queries.retain(|&(before, client)| {
            let waits = before > open_from;
            if !waits {
                out.push(Outgoing::ToClient { client });
            }
            waits
        });
    }
}

impl Service for Servers {
    type Letter = Letter;

    fn server_for(&self, update: bool, dice: u64) -> usize {
        if update || !self.weak { PRIMARY } else { dice as usize % self.count }
    }

    fn work_us(&self, job: &Job<Letter>) -> u64 {
        match job {
            Job::Request { update: true, .. } => UPDATE_US,
            Job::Request { update: false, .. } => QUERY_US,
            Job::Letter { letter: Letter::Change { .. }, .. } => CHANGE_US,
            Job::Letter { letter: Letter::Acknowledged { .. }, .. } => 0,
        }
    }

    fn finish(&mut self, _: u64, server: usize, job: Job<Letter>, out: &mut Vec<Outgoing<Letter>>) {
        match job {
            Job::Request { client, update: true } => self.update(client, out),
            Job::Request { client, update: false } if self.weak => out.push(Outgoing::ToClient { client }),
            Job::Request { client, update: false } => {
                self.queries.push((self.next_update, client));
                self.answer(out);
            }
            Job::Letter { from, letter: Letter::Change { update } } => {
                let letter = Letter::Acknowledged { update };
                out.push(Outgoing::ToServer { from: server, to: from, letter });
            }
            Job::Letter { letter: Letter::Acknowledged { update }, .. } => self.acknowledged(update, out),
        }
    }
}
