//! The processor time that processes have spent, from `/proc`.

use crate::failure::{Context, Failure};

#[derive(Debug, Default)]
pub(super) struct Processes {
    pids: Vec<u32>,
}

impl Processes {
    /// Processes that somebody named: each must be there.
    pub(super) fn named(pids: &[u32]) -> Result<Processes, Failure> {
        for &pid in pids {
            cpu_us(pid).context(format_args!("cannot read the CPU time of process {pid}"))?;
        }
        Ok(Processes { pids: pids.to_vec() })
    }

    pub(super) fn of(pids: Vec<u32>) -> Processes {
        Processes { pids }
    }

    /// Processes that nodes say they are; none if one of them is not on this machine.
    pub(super) fn of_nodes(pids: impl Iterator<Item = u32>) -> Processes {
        let pids: Vec<u32> = pids.collect();
        // This very program may have been given another name.
        let own = name(std::process::id());
        let is_node = |name: String| name.trim() == "quorate" || own.as_ref() == Some(&name);
        let all_here = pids.iter().all(|&pid| name(pid).is_some_and(is_node));
        if all_here { Processes { pids } } else { Processes::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// User and system time of all of them together; none if they are not known or one has ended.
    pub(super) fn cpu_us(&self) -> Option<u64> {
        if self.pids.is_empty() {
            return None;
        }
        self.pids.iter().map(|&pid| cpu_us(pid).ok()).sum()
    }
}

fn name(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()
}

fn cpu_us(pid: u32) -> Result<u64, String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())?;
    let ticks = ticks(&stat).ok_or("its stat file is not understood")?;
    // SAFETY: a plain library call without arguments that could be invalid.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_s = u64::try_from(per_s).ok().filter(|&per_s| per_s > 0).ok_or("the clock tick is unknown")?;
    Ok(ticks * (1_000_000 / per_s))
}

/// utime and stime, the 14th and 15th words: the 12th and 13th after the name, which may itself hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn own_time_passes_and_strangers_are_not_taken_for_nodes() {
        let own = std::process::id();
        let processes = Processes::named(&[own]).expect("running");
        let before = processes.cpu_us().expect("readable");
        let mut sum = 0_u64;
        while processes.cpu_us().expect("readable") == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(Processes::named(&[u32::MAX]).is_err());
        assert!(Processes::of_nodes([1].into_iter()).is_empty());
        assert!(!Processes::of_nodes([own].into_iter()).is_empty(), "whatever this test's program is called");
        assert!(Processes::default().cpu_us().is_none());
    }
}
