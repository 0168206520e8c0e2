//! INFO: what monitoring tools and client libraries read about a server.

use std::fmt::Write;

use quorate_resp::Arguments;

use crate::backend::{ObjectCount, ServerInfo};
use crate::front::Front;
use crate::refusal::REDIS_VERSION;

/// The text of INFO for these sections, or for all if none is named. Unknown names are ignored.
pub(crate) fn text(front: &Front, names: Arguments<'_>, server: &ServerInfo) -> String {
    let mut text = String::new();
    for (title, fields) in sections(front, server) {
        if is_wanted(&title, names) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "# {title}\r\n");
            for (name, value) in fields {
                let _ = write!(text, "{name}:{value}\r\n");
            }
        }
    }
    text
}

fn is_wanted(title: &str, names: Arguments<'_>) -> bool {
    const WHOLE: [&[u8]; 3] = [b"all", b"default", b"everything"];
    names.is_empty()
        || names.iter().any(|name| {
            name.eq_ignore_ascii_case(title.as_bytes()) || WHOLE.iter().any(|whole| name.eq_ignore_ascii_case(whole))
        })
}

type Fields = Vec<(String, String)>;

/// Redis's sections in its order, as far as there is something to say, then our own.
fn sections(front: &Front, server: &ServerInfo) -> Vec<(String, Fields)> {
    let mut sections = vec![
        ("Server".to_string(), server_fields(server)),
        ("Clients".to_string(), clients_fields(front, server)),
        ("Memory".to_string(), memory_fields(server)),
        ("Persistence".to_string(), persistence_fields(server)),
        ("Stats".to_string(), stats_fields(front, server)),
        ("Replication".to_string(), replication_fields()),
        ("CPU".to_string(), cpu_fields(server)),
        ("Modules".to_string(), Vec::new()),
        ("Cluster".to_string(), vec![field("cluster_enabled", 0)]),
        ("Keyspace".to_string(), keyspace_fields(server)),
    ];
    sections.extend(server.sections.iter().map(|section| (section.title.clone(), section.fields.clone())));
    sections
}

fn field(name: &str, value: impl ToString) -> (String, String) {
    (name.to_string(), value.to_string())
}

fn server_fields(server: &ServerInfo) -> Fields {
    const SECONDS_A_DAY: u64 = 24 * 60 * 60;
    vec![
        field("redis_version", REDIS_VERSION),
        field("quorate_version", &server.quorate_version),
        field("redis_mode", "standalone"),
        field("os", std::env::consts::OS),
        field("arch_bits", usize::BITS),
        field("process_id", server.process_id),
        field("run_id", &server.run_id),
        field("tcp_port", server.port),
        field("uptime_in_seconds", server.uptime_s),
        field("uptime_in_days", server.uptime_s / SECONDS_A_DAY),
        field("node_name", &server.node_name),
        field("node_id", server.node_id),
    ]
}

fn clients_fields(front: &Front, server: &ServerInfo) -> Fields {
    vec![
        field("connected_clients", front.connection_count()),
        field("maxclients", server.clients_max),
        field("blocked_clients", 0),
    ]
}

fn memory_fields(server: &ServerInfo) -> Fields {
    vec![
        field("used_memory", server.memory_used_bytes),
        field("used_memory_human", human_bytes(server.memory_used_bytes)),
        field("used_memory_rss", server.memory_resident_bytes),
        field("used_memory_rss_human", human_bytes(server.memory_resident_bytes)),
        field("used_memory_peak", server.memory_peak_bytes),
        field("used_memory_peak_human", human_bytes(server.memory_peak_bytes)),
        field("maxmemory", server.memory_max_bytes),
        field("maxmemory_human", human_bytes(server.memory_max_bytes)),
        field("maxmemory_policy", "noeviction"),
    ]
}

fn persistence_fields(server: &ServerInfo) -> Fields {
    vec![field("loading", u8::from(server.loading)), field("rdb_bgsave_in_progress", 0)]
}

fn stats_fields(front: &Front, server: &ServerInfo) -> Fields {
    let journal = &front.journal;
    let (connections_before, requests_before) = journal.counts_before;
    vec![
        field("total_connections_received", journal.counts.connections - connections_before),
        field("total_commands_processed", journal.request_count() - requests_before),
        field("rejected_connections", server.clients_rejected),
        field("evicted_clients", server.clients_evicted),
    ]
}

/// To a client every node is a master: any of them takes any command.
fn replication_fields() -> Fields {
    vec![field("role", "master"), field("connected_slaves", 0)]
}

fn cpu_fields(server: &ServerInfo) -> Fields {
    vec![
        field("used_cpu_sys", format!("{:.6}", server.cpu_system_s)),
        field("used_cpu_user", format!("{:.6}", server.cpu_user_s)),
    ]
}

fn keyspace_fields(server: &ServerInfo) -> Fields {
    server
        .objects
        .iter()
        .filter(|count| count.objects > 0)
        .map(|count| {
            let ObjectCount { namespace, objects, expiring } = count;
            field(&format!("db{namespace}"), format!("keys={objects},expires={expiring},avg_ttl=0"))
        })
        .collect()
}

/// As Redis abbreviates bytes: `1.50M`.
fn human_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        assert_eq!(human_bytes(0), "0B");
        assert_eq!(human_bytes(1023), "1023B");
        assert_eq!(human_bytes(1024), "1.00K");
        assert_eq!(human_bytes(1_608_608), "1.53M");
        assert_eq!(human_bytes(25_276_510_208), "23.54G");
    }
}
