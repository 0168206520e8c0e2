//! What the process uses of the machine, under the names that every exporter gives it.

use std::fs;

use super::text::Text;

/// As `/proc` counts processor time on Linux, whatever the machine.
const TICKS_A_SECOND: f64 = 100.0;

pub(super) fn render(text: &mut Text) {
    // "pid (name) state ..."; the name may hold anything, so fields are counted behind it.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    let cpu_s = (number(11) + number(12)) / TICKS_A_SECOND;
    let started_s = boot_s().map_or(0.0, |boot_s| boot_s + number(19) / TICKS_A_SECOND);
    text.counter("process_cpu_seconds_total", "Processor time of the process, user and system.", cpu_s);
    text.gauge("process_start_time_seconds", "Start of the process, in seconds since the Unix epoch.", started_s);
    text.gauge("process_virtual_memory_bytes", "Virtual memory of the process.", number(20));
    // SAFETY: a plain system call.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64;
    text.gauge("process_resident_memory_bytes", "Resident memory of the process.", number(21) * page_bytes);
    let open = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count());
    text.gauge("process_open_fds", "Open files of the process.", open);
    text.gauge("process_max_fds", "Files that the process may open.", descriptors_max());
}

/// When the machine was started.
fn boot_s() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn descriptors_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the rlimit that it is given.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}
