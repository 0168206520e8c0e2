//! The host as the front sees it: what a client asks becomes the host's, what the host answers becomes the front's.

use std::mem::MaybeUninit;
use std::time::Instant as SystemInstant;

use quorate_front::{
    Backend, ConnectionId, IMMUTABLE, InfoSection, OperationId, ReplyTree, Request, ServerInfo, Target as FrontTarget,
    Verdict, config_integer,
};
use quorate_node::root::Durability;
use quorate_node::{Host, Submission, Target};
use quorate_object::Access;
use quorate_protocol::Instant;

use super::memory::Memory;
use crate::applications::Applications;
use crate::auth::Gate;
use crate::config::{Bytes, Config, MAXMEMORY_MIN};
use crate::log;
use crate::start::clients_possible;

/// The parameters that can be changed.
const MAX_CLIENTS: &str = "maxclients";
const MAX_MEMORY: &str = "maxmemory";
const LOG_LEVEL: &str = "loglevel";

/// What does not change while the node runs, for `INFO` and `CONFIG GET`.
#[derive(Debug)]
pub(crate) struct Facts {
    node_name: String,
    node_id: u32,
    run_id: String,
    port: u16,
    /// As many as there are descriptors for.
    clients_possible: usize,
    pub(super) started_at: SystemInstant,
    config: Vec<(&'static str, String)>,
}

/// Plain counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: u64,
    pub(crate) flushes: u64,
    pub(crate) frames_sent: u64,
    pub(crate) frame_bytes_sent: u64,
}

/// One turn's view of the host.
pub(crate) struct Entry<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) gate: &'a mut Gate,
    pub(crate) now: Instant,
    pub(crate) facts: &'a Facts,
    pub(crate) applications: &'a Applications,
    pub(crate) counters: Counters,
    /// The log can take writes.
    pub(crate) has_space: bool,
    pub(crate) memory: &'a mut Memory,
    pub(crate) clients: super::clients::Counters,
    /// Operations begun and not answered yet.
    pub(crate) in_flight: &'a mut u64,
    /// Operations that are answered at once; the front cannot be told while it submits.
    pub(crate) refused: &'a mut Vec<(OperationId, quorate_front::Answer)>,
    /// Clients that may be connected at once; `CONFIG SET maxclients` changes it.
    pub(crate) clients_max: usize,
}

impl Facts {
    pub(crate) fn new(config: &Config, run_id: u64) -> Facts {
        let durable = !config.node.ephemeral && config.defaults.durability != Durability::Memory;
        let word = |is_true: bool| if is_true { "yes" } else { "no" }.to_owned();
        let listen = config.listen.client;
        let values = vec![
            (
                "appendfsync",
                if config.defaults.durability == Durability::Sync { "always" } else { "everysec" }.to_owned(),
            ),
            ("appendonly", word(durable)),
            ("bind", listen.ip().to_string()),
            ("cluster-enabled", word(false)),
            ("databases", (quorate_node::root::NAMESPACE_NUMBER_MAX + 1).to_string()),
            ("maxmemory-policy", "noeviction".to_owned()),
            ("port", listen.port().to_string()),
            ("proto-max-bulk-len", quorate_front::Limits::default().object_length_max.to_string()),
            ("save", String::new()),
            ("tcp-keepalive", crate::socket::KEEP_ALIVE_S.to_string()),
            ("timeout", config.limits.idle_s.to_string()),
        ];
        Facts {
            node_name: config.node.name.clone(),
            node_id: config.node.id,
            run_id: format!("{run_id:016x}{run_id:016x}{:08x}", config.node.id),
            port: listen.port(),
            clients_possible: clients_possible(),
            started_at: SystemInstant::now(),
            config: values,
        }
    }
}

impl Entry<'_> {
    fn refuse(&mut self, operation: OperationId, failure: quorate_front::Failure) {
        self.refused.push((operation, quorate_front::Answer::Failed(failure)));
    }
}

impl Backend for Entry<'_> {
    fn has_room(&self) -> bool {
        self.host.has_room()
    }

    fn submit(&mut self, request: Request<'_>) {
        let Request { operation, predecessor, namespace, target } = request;
        *self.in_flight += 1;
        let (target, command) = match target {
            FrontTarget::Admin { words } => {
                self.host.set_out_of_memory(self.memory.is_exceeded());
                return self.host.submit_admin(operation.0, namespace, words.get(1..).unwrap_or_default());
            }
            FrontTarget::Object { slot, command, .. } => (Target::Slot { namespace, slot }, command),
            FrontTarget::Volume { index, command } => (Target::Volume { namespace, index }, command),
        };
        if !self.has_space && command.access() == Access::Write {
            return self.refuse(operation, quorate_front::Failure::NoSpace);
        }
        if let Some(bytes) = command.growth_bytes_max() {
            self.host.set_out_of_memory(self.memory.is_exceeded());
            self.memory.expect(bytes + self.host.copied_bytes(target, &command));
        }
        let predecessor = predecessor.map(|predecessor| predecessor.0);
        self.host.submit(Submission { number: operation.0, predecessor, target, command: &command });
    }

    fn verify(&mut self, connection: ConnectionId, address: &str, password: &[u8]) -> Option<Verdict> {
        self.gate.verify(connection, address, password, self.now)
    }

    fn namespace_exists(&self, namespace: u32) -> bool {
        self.host.directory().map_or(namespace == 0, |directory| directory.namespaces.contains_key(&namespace))
    }

    fn namespaces(&self) -> Vec<u32> {
        self.host.directory().map_or_else(|| vec![0], |directory| directory.namespaces.keys().copied().collect())
    }

    fn application(&self, name: &[u8]) -> Option<usize> {
        self.applications.number(name)
    }

    fn volumes(&self, namespace: u32) -> Option<u32> {
        let namespaces = &self.host.directory()?.namespaces;
        Some(namespaces.get(&namespace).map_or(0, |namespace| namespace.volumes.len() as u32))
    }

    fn server_info(&mut self) -> ServerInfo {
        let usage = Usage::read();
        ServerInfo {
            quorate_version: env!("CARGO_PKG_VERSION").to_owned(),
            node_name: self.facts.node_name.clone(),
            node_id: u64::from(self.facts.node_id),
            run_id: self.facts.run_id.clone(),
            process_id: std::process::id(),
            port: self.facts.port,
            uptime_s: self.facts.started_at.elapsed().as_secs(),
            clients_max: self.clients_max as u64,
            memory_used_bytes: self.memory.used_bytes(),
            memory_resident_bytes: usage.resident_bytes,
            memory_peak_bytes: self.memory.peak_bytes(),
            memory_max_bytes: self.memory.max_bytes(),
            clients_rejected: self.clients.refused,
            clients_evicted: self.clients.evicted,
            cpu_user_s: usage.user_s,
            cpu_system_s: usage.system_s,
            objects: self.host.object_counts().into_iter().map(object_count).collect(),
            loading: self.host.readiness().is_loading(),
            sections: vec![self.section()],
        }
    }

    fn config(&self) -> Vec<(&'static str, String)> {
        let mut config = self.facts.config.clone();
        config.push((MAX_CLIENTS, self.clients_max.to_string()));
        config.push((MAX_MEMORY, self.memory.max_bytes().to_string()));
        config.push((LOG_LEVEL, log::redis_level().to_owned()));
        config.sort_unstable_by_key(|(name, _)| *name);
        config
    }

    fn check_config(&self, name: &str, value: &[u8]) -> Result<(), String> {
        match name {
            MAX_CLIENTS => config_integer(value, 1, self.facts.clients_possible as i64).map(|_| ()),
            MAX_MEMORY => config_memory(value).map(|_| ()),
            LOG_LEVEL => log::level_of_redis(value).map(|_| ()),
            _ => Err(IMMUTABLE.to_owned()),
        }
    }

    fn set_config(&mut self, name: &str, value: &[u8]) {
        match name {
            MAX_CLIENTS => {
                let count = config_integer(value, 1, self.facts.clients_possible as i64).unwrap_or_default();
                self.clients_max = usize::try_from(count).unwrap_or(self.clients_max);
            }
            MAX_MEMORY => self.memory.set_max_bytes(config_memory(value).unwrap_or(self.memory.max_bytes())),
            LOG_LEVEL => {
                let set = log::level_of_redis(value).and_then(log::set);
                if let Err(reason) = set {
                    tracing::warn!("the log level stays as it is: {reason}");
                }
            }
            _ => {}
        }
    }
}

fn config_memory(value: &[u8]) -> Result<u64, String> {
    let text = str::from_utf8(value).unwrap_or_default();
    match text.parse::<Bytes>() {
        Ok(Bytes(0)) => Ok(0),
        Ok(Bytes(bytes)) if bytes >= MAXMEMORY_MIN => Ok(bytes),
        Ok(_) => Err(format!("argument must be 0 or at least {MAXMEMORY_MIN}, which a node needs for itself")),
        Err(_) => Err("argument must be a memory value".to_owned()),
    }
}

impl Entry<'_> {
    fn section(&mut self) -> InfoSection {
        let (host, worker) = (self.host.counters(), self.counters);
        let groups = self.host.group_count() as u64;
        let coordinated = self.host.census().coordinating();
        let own = self.host.own_counts();
        let fields = [
            ("groups", groups),
            ("groups_coordinated", coordinated),
            ("turns", worker.turns),
            ("log_flushes", worker.flushes),
            ("frames_sent", worker.frames_sent),
            ("frame_bytes_sent", worker.frame_bytes_sent),
            ("slots_applied", host.slots_applied),
            ("commands_applied", host.commands_applied),
            ("reads_leased", host.reads_leased),
            ("reads_routed", host.reads_routed),
            ("reads_routed_here", host.reads_routed_here),
            ("reads_turned_back", host.reads_turned_back),
            ("kgroups_shared", host.shared),
            ("recalls_sent", host.recalls_sent),
            ("snapshots_sent", host.snapshots_sent),
            ("snapshots_copied", host.snapshots_copied),
            ("snapshots_installed", host.snapshots_installed),
            ("checkpoints", host.checkpoints),
            ("groups_handed_over", host.handed_over),
            ("groups_handed_over_to_clients", host.followed),
            ("operations_resent", host.resent),
            ("operations_uncertain", host.uncertain),
            ("bodies_sent", host.digests.bodies_sent),
            ("bodies_unused", host.digests.bodies_unused),
            ("bodies_mistaken", host.digests.bodies_mistaken),
            ("references_sent", host.digests.references_sent),
            ("references_saved_bytes", host.digests.bytes_saved),
            ("references_resolved", host.digests.references_resolved),
            ("references_held", host.digests.held),
            ("references_asked", host.digests.asked_in_full),
            ("references_in_full", host.digests.sent_in_full),
            ("clients_cut", self.clients.cut),
            ("messages_dropped", self.host.dropped_count()),
            ("peer_nonsense", host.nonsense),
            ("passwords_wrong", self.gate.counters.wrong),
            ("passwords_refused", self.gate.counters.refused),
            ("replicas_quarantined", host.quarantined),
            ("replicas_readmitted", host.readmitted),
            ("chains_left", host.chains_left),
            ("reads_failed", host.reads_failed),
            ("own_groups_active", own.active as u64),
            ("own_groups_idle", own.idle as u64),
            ("own_groups_idle_bytes", own.resting_bytes as u64),
            ("own_groups_paused", own.paused as u64),
            ("own_group_records_swapped", own.records_swapped as u64),
            ("own_group_wakeups", host.woken_from_memory + host.woken_from_store),
            ("own_groups_stranded", host.paused_stranded),
            ("own_groups_changed", host.own_groups_changed),
            ("own_groups_renewed", host.own_groups_renewed),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_string()));
        InfoSection { title: "Quorate".to_owned(), fields: fields.into() }
    }
}

/// What the host answers, as the front words it.
pub(crate) fn answer(answer: quorate_node::Answer) -> quorate_front::Answer {
    match answer {
        quorate_node::Answer::Outcome(outcome) => quorate_front::Answer::Outcome(outcome),
        quorate_node::Answer::Admin(reply) => quorate_front::Answer::Tree(admin_reply(reply)),
        quorate_node::Answer::Failed(why) => quorate_front::Answer::Failed(failure(why)),
    }
}

fn object_count(count: quorate_node::ObjectCount) -> quorate_front::ObjectCount {
    let quorate_node::ObjectCount { namespace, objects, expiring } = count;
    quorate_front::ObjectCount { namespace, objects, expiring }
}

fn failure(failure: quorate_node::Failure) -> quorate_front::Failure {
    use quorate_front::Failure;
    match failure {
        quorate_node::Failure::NoQuorum => Failure::NoQuorum,
        quorate_node::Failure::Timeout => Failure::Timeout,
        quorate_node::Failure::Loading => Failure::Loading,
        quorate_node::Failure::ClockOff => Failure::Other(
            "TRYAGAIN not executed: this node's clock is more than 1 s off most of its peers', set it right".to_owned(),
        ),
        quorate_node::Failure::ClockUnknown => Failure::Other(
            "TRYAGAIN not executed: this node was too busy or cut off to compare its clock with its peers', try again"
                .to_owned(),
        ),
        quorate_node::Failure::Overloaded => {
            Failure::Other("TRYAGAIN not executed: too much is waiting, try again".to_owned())
        }
        quorate_node::Failure::BehindUnknown => Failure::Other(
            "TRYAGAIN not executed: a write before it in this pipeline has an unknown outcome, read before you repeat either"
                .to_owned(),
        ),
        quorate_node::Failure::OutOfMemory => Failure::OutOfMemory,
        quorate_node::Failure::NoNamespace => Failure::Other("ERR DB index is out of range".to_owned()),
    }
}

fn admin_reply(reply: quorate_node::AdminReply) -> ReplyTree {
    match reply {
        quorate_node::AdminReply::Ok => ReplyTree::ok(),
        quorate_node::AdminReply::Failed(why) => ReplyTree::Error(failure(why).text().to_owned()),
        quorate_node::AdminReply::Text(text) => ReplyTree::Text(text),
        quorate_node::AdminReply::Bytes(bytes) => ReplyTree::Bytes(bytes),
        quorate_node::AdminReply::Line(text) => ReplyTree::Simple(text),
        quorate_node::AdminReply::Int(number) => ReplyTree::Integer(number),
        quorate_node::AdminReply::Error(text) => ReplyTree::Error(text),
        quorate_node::AdminReply::List(list) => ReplyTree::Array(list.into_iter().map(admin_reply).collect()),
        quorate_node::AdminReply::Map(fields) => {
            ReplyTree::Map(fields.into_iter().map(|(name, value)| (name, admin_reply(value))).collect())
        }
    }
}

/// What the process uses of the machine.
struct Usage {
    resident_bytes: u64,
    user_s: f64,
    system_s: f64,
}

impl Usage {
    fn read() -> Usage {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call writes an rusage to the pointer it is given. All bits zero are one, should it fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Usage {
            resident_bytes: resident_bytes().unwrap_or(0),
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
        }
    }
}

/// The process's memory as the machine sees it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: a plain system call.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_what_it_uses() {
        let usage = Usage::read();
        assert!(usage.resident_bytes > 100_000, "{}", usage.resident_bytes);
    }

    #[test]
    fn administrative_replies_keep_their_shape() {
        use quorate_node::AdminReply::{Int, List, Map, Ok, Text};
        let reply = List(vec![Map(vec![("n".into(), Int(3)), ("name".into(), Text("n1".into()))]), Ok]);
        let fields = vec![
            ("n".to_owned(), quorate_front::ReplyTree::Integer(3)),
            ("name".to_owned(), quorate_front::ReplyTree::Text("n1".into())),
        ];
        let expected = quorate_front::ReplyTree::Array(vec![
            quorate_front::ReplyTree::Map(fields),
            quorate_front::ReplyTree::ok(),
        ]);
        assert_eq!(admin_reply(reply), expected);
    }
}
