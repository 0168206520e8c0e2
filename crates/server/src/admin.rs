//! Administration over HTTP, on a thread of its own: it cannot stall the data path, whatever is asked of it.
//!
//! What concerns the cluster becomes the words that a Redis client would send behind `QUORATE`, goes to the worker over
//! a bounded channel, and comes back as JSON. Whether the node lives and serves is read without asking the worker.

mod groups;
mod guard;
mod hello;
mod listener;
mod nodes;
mod placement;
mod token;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mio::Waker;
use quorate_node::quorum::{QUORUM_USAGE, Quorum};
use quorate_node::replica::Protocol;
use quorate_node::root::{Authority, Durability, Groups, Reads};
use quorate_node::{AdminReply, Answer, Failure, Readiness};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, oneshot};

use crate::auth::secrets::PasswordHash;
use crate::log;
use crate::metrics::{self, Figures};
use crate::tls::Store;
use listener::Listener;

use guard::Guarded;

pub(crate) use token::Expected;

/// Requests on their way to the worker; with more, callers are asked to try again.
const REQUESTS_MAX: usize = 64;
/// How long the worker may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Figures that are not older are not asked for again, however many ask.
const FIGURES_FRESH: Duration = Duration::from_millis(100);
/// A worker that has not turned for this long is not well.
const TURN_WITHIN: Duration = Duration::from_secs(2);

/// What there is, for programs. A test compares it with what is answered.
const OPENAPI: &str = include_str!("openapi.json");

/// What the worker tells without being asked.
#[derive(Debug)]
pub(crate) struct Pulse {
    origin: Instant,
    /// Of the latest turn, since the origin.
    turned_ms: AtomicU64,
    /// By its place among all that there are.
    readiness: AtomicU8,
}

/// One request to the worker, and where the answer goes.
pub(crate) enum Request {
    /// The words behind `QUORATE`.
    Words {
        namespace: u32,
        words: Vec<Vec<u8>>,
        answer: oneshot::Sender<Answer>,
    },
    Figures {
        answer: oneshot::Sender<Box<Figures>>,
    },
    /// Clients must give this one from now on, or none.
    Password(Option<Box<PasswordHash>>),
}

#[derive(Clone)]
struct Admin {
    requests: SyncSender<Request>,
    waker: Arc<Waker>,
    pulse: Arc<Pulse>,
    /// What was last told to a scraper, and when.
    latest: Arc<Mutex<Option<(Instant, Bytes)>>>,
    /// Held while a request with a body is read and answered.
    bodies: Arc<Semaphore>,
    /// What a browser is shown first.
    page: Bytes,
}

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse { origin: Instant::now(), turned_ms: AtomicU64::new(0), readiness: AtomicU8::new(0) }
    }

    pub(crate) fn beat(&self, readiness: Readiness) {
        self.turned_ms.store(self.origin.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.readiness.store(readiness as u8, Ordering::Relaxed);
    }

    fn readiness(&self) -> Readiness {
        let place = usize::from(self.readiness.load(Ordering::Relaxed));
        Readiness::ALL.get(place).copied().unwrap_or(Readiness::ClusterUnknown)
    }

    fn is_well(&self) -> bool {
        let turned = Duration::from_millis(self.turned_ms.load(Ordering::Relaxed));
        self.origin.elapsed().saturating_sub(turned) < TURN_WITHIN
    }
}

/// The worker's end of the admin port. Dropping it closes the port.
pub(crate) struct Port {
    requests: Receiver<Request>,
    sender: SyncSender<Request>,
    /// Dropped to end the thread.
    open: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Serves on a thread of its own, for the node of this name. The worker is woken for each request.
    pub(crate) fn open(
        listener: TcpListener,
        waker: Arc<Waker>,
        pulse: Arc<Pulse>,
        token: Expected,
        tls: Option<Arc<Store>>,
        node: &str,
    ) -> io::Result<Port> {
        let (sender, requests) = sync_channel(REQUESTS_MAX);
        let admin = Admin {
            requests: sender.clone(),
            waker,
            pulse,
            latest: Arc::default(),
            bodies: Arc::new(Semaphore::new(groups::BODIES_MAX)),
            page: hello::page(node),
        };
        let router = token::require(router(admin), token);
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (open, closed) = oneshot::channel::<()>();
        let serve = async move {
            let listener = Listener { listener: tokio::net::TcpListener::from_std(listener)?, tls };
            let listener = Guarded::new(listener, guard::CONNECTIONS_MAX, guard::PATIENCE);
            tokio::select! {
                served = axum::serve(listener, router) => served,
                _ = closed => Ok(()),
            }
        };
        let work = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!("the admin port is closed: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(work)?;
        Ok(Port { requests, sender, open: Some(open), thread: Some(thread) })
    }

    /// For whoever else has something to ask of the worker.
    pub(crate) fn sender(&self) -> SyncSender<Request> {
        self.sender.clone()
    }

    pub(crate) fn next_request(&mut self) -> Option<Request> {
        self.requests.try_recv().ok()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.open.take();
        if let Some(thread) = self.thread.take() {
            // It has said so already, if it panicked.
            let _ = thread.join();
        }
    }
}

fn router(admin: Admin) -> Router {
    Router::new()
        .route("/", get(hello::hello))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/demand", get(demand))
        .route("/upgrade", get(upgrade))
        .route("/nodes", get(nodes::list_nodes).post(nodes::add_node))
        .route("/nodes/{name}", get(placement::show_node).delete(nodes::remove_node))
        .route("/nodes/{name}/drain", post(placement::drain_node))
        .route("/nodes/{name}/undrain", post(placement::undrain_node))
        .route("/root", get(placement::show_root).post(placement::move_root))
        .route("/replace-after", get(placement::show_replace_after).post(placement::set_replace_after))
        .route("/level", post(placement::level).delete(placement::stop_levelling))
        .route("/namespaces/{number}/volumes", get(placement::list_volumes))
        .route("/namespaces/{number}/volumes/{index}/move", post(placement::move_volume))
        .route("/namespaces", get(namespaces))
        .route("/namespaces/{number}", post(create_namespace).patch(set_namespace).delete(drop_namespace))
        .route("/groups/{number}/{key}", get(groups::show_group))
        .route("/groups/{number}", post(groups::change_groups).layer(DefaultBodyLimit::max(groups::BODY_BYTES_MAX)))
        .route("/log-level", get(log_level).put(set_log_level))
        .route("/openapi.json", get(openapi))
        .fallback(nothing_there)
        .method_not_allowed_fallback(other_method)
        .with_state(admin)
}

async fn nothing_there(uri: Uri) -> Response {
    refuse(StatusCode::NOT_FOUND, format!("there is no {}; GET / lists what there is", uri.path()))
}

async fn other_method(uri: Uri) -> Response {
    let text = format!("{} does not take this method; GET / lists what there is", uri.path());
    refuse(StatusCode::METHOD_NOT_ALLOWED, text)
}

fn refuse(status: StatusCode, error: impl Into<Value>) -> Response {
    (status, Json(json!({ "error": error.into() }))).into_response()
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn healthz(State(admin): State<Admin>) -> Response {
    verdict("well", stands_still(&admin.pulse))
}

async fn readyz(State(admin): State<Admin>) -> Response {
    verdict("ready", stands_still(&admin.pulse).or_else(|| admin.pulse.readiness().obstacle()))
}

fn stands_still(pulse: &Pulse) -> Option<&'static str> {
    (!pulse.is_well()).then_some("the worker has not turned for 2 s")
}

fn verdict(word: &str, obstacle: Option<&str>) -> Response {
    match obstacle {
        None => format!("{word}\n").into_response(),
        Some(obstacle) => (StatusCode::SERVICE_UNAVAILABLE, format!("not {word}: {obstacle}\n")).into_response(),
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    // Held while the worker is asked: who asks meanwhile is answered the same.
    let mut latest = admin.latest.lock().await;
    let text = match &*latest {
        Some((at, text)) if at.elapsed() < FIGURES_FRESH => text.clone(),
        _ => match admin.request(ANSWER_WITHIN, |answer| Request::Figures { answer }).await {
            Ok(figures) => latest.insert((Instant::now(), figures.render().into())).1.clone(),
            Err(why) => return respond(Err(why)),
        },
    };
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn status(State(admin): State<Admin>) -> Response {
    match admin.ask(&["STATUS", "JSON"]).await {
        // It is JSON already.
        Ok(AdminReply::Text(text)) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        other => respond(other),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DemandOf {
    count: Option<usize>,
}

async fn demand(State(admin): State<Admin>, of: Result<Query<DemandOf>, QueryRejection>) -> Response {
    match of {
        Ok(Query(DemandOf { count: None })) => respond(admin.ask(&["DEMAND"]).await),
        Ok(Query(DemandOf { count: Some(count) })) => {
            respond(admin.ask(&["DEMAND", "COUNT", &count.to_string()]).await)
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, why.body_text()),
    }
}

async fn upgrade(State(admin): State<Admin>) -> Response {
    respond(admin.ask(&["UPGRADE", "SHOW"]).await)
}

async fn namespaces(State(admin): State<Admin>) -> Response {
    respond(admin.ask(&["NAMESPACE", "LIST"]).await)
}

/// What can be said of a namespace; what is not said is the node's default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    protocol: Option<String>,
    replicas: Option<String>,
    volumes: Option<String>,
    durability: Option<String>,
    reads: Option<String>,
    groups: Option<String>,
    quorum: Option<String>,
    tolerance: Option<String>,
    authority: Option<String>,
    members: Option<String>,
}

impl Settings {
    fn words(&self) -> Vec<&str> {
        let all = [
            ("MEMBERS", &self.members),
            ("PROTOCOL", &self.protocol),
            ("REPLICAS", &self.replicas),
            ("VOLUMES", &self.volumes),
            ("DURABILITY", &self.durability),
            ("READS", &self.reads),
            ("GROUPS", &self.groups),
            ("QUORUM", &self.quorum),
            ("TOLERANCE", &self.tolerance),
            ("AUTHORITY", &self.authority),
        ];
        all.into_iter().filter_map(|(name, value)| Some([name, value.as_deref()?])).flatten().collect()
    }

    /// The words of the change that this asks for; none unless it is one, of what can be changed.
    fn change_of<'a>(&'a self, number: &'a str) -> Option<Vec<&'a str>> {
        let words = self.words();
        let said = words.len() / 2;
        match (&self.reads, &self.quorum, &self.members) {
            (Some(_), None, None) if said == 1 => Some([vec!["NAMESPACE", "SET", number], words].concat()),
            (None, Some(sizes), None) if said == 1 => {
                Some(["QUORUM", "SET", "NAMESPACE", number].into_iter().chain(sizes.split_whitespace()).collect())
            }
            (None, quorum, Some(_)) if said == 1 + usize::from(quorum.is_some()) => {
                Some([vec!["NAMESPACE", "MOVE", number], words].concat())
            }
            _ => None,
        }
    }
}

/// A parameter with what was said, whether that can be, and what can be.
type Rule<'a> = (&'a str, &'a Option<String>, fn(&str) -> bool, &'a str);

impl Settings {
    /// The first value that its parameter cannot have, with what it can.
    fn check(&self) -> Result<(), String> {
        const NUMBER: &str = "a number";
        let all: [Rule<'_>; 9] = [
            ("protocol", &self.protocol, |word| Protocol::parse(word).is_some(), "paxos, chain or register"),
            ("replicas", &self.replicas, |word| word.parse::<u8>().is_ok(), NUMBER),
            ("volumes", &self.volumes, |word| word.parse::<u32>().is_ok(), NUMBER),
            ("durability", &self.durability, |word| Durability::parse(word).is_some(), "sync, interval or memory"),
            ("reads", &self.reads, |word| Reads::parse(word).is_some(), "lease, quorum, local, apportioned or routed"),
            ("groups", &self.groups, |word| Groups::parse(word).is_some(), "volumes or own"),
            ("quorum", &self.quorum, |words| Quorum::parse(words).is_some(), QUORUM_USAGE),
            ("tolerance", &self.tolerance, |word| word.parse::<u8>().is_ok(), NUMBER),
            ("authority", &self.authority, |word| Authority::parse(word).is_some(), "parent or members"),
        ];
        for (name, value, is_sound, allowed) in all {
            if let Some(value) = value.as_deref().filter(|value| !is_sound(value)) {
                return Err(format!("{name} is {value:?}; it can be {allowed}"));
            }
        }
        Ok(())
    }

    /// What the path and the query say, if both can be.
    fn read(number: &str, said: Result<Query<Settings>, QueryRejection>) -> Result<Settings, String> {
        check_number(number)?;
        let Query(settings) = said.map_err(|why| why.body_text())?;
        settings.check().map(|()| settings)
    }
}

fn check_number(namespace: &str) -> Result<(), String> {
    let number = namespace.parse::<u32>();
    number.map(drop).map_err(|_| format!("a namespace is a number, not {namespace:?}"))
}

/// Nothing is said behind a question mark where nobody would heed it.
fn check_no_query(uri: &Uri) -> Result<(), String> {
    match uri.query().filter(|query| !query.is_empty()) {
        Some(query) => Err(format!("this takes no parameters, and {query:?} was given")),
        None => Ok(()),
    }
}

const PATCH_USAGE: &str = "say one change at a time: reads=lease|quorum|local|apportioned, or of registers quorum=R%20W, the sizes of \
                           their quorums, or where members decide members=node,node,... with quorum=... or without; all else \
                           is settled when a namespace is made";

async fn create_namespace(
    State(admin): State<Admin>,
    Path(number): Path<String>,
    settings: Result<Query<Settings>, QueryRejection>,
) -> Response {
    let settings = match Settings::read(&number, settings) {
        Ok(settings) => settings,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    };
    let words = [vec!["NAMESPACE", "CREATE", &number], settings.words()].concat();
    respond(admin.ask(&words).await)
}

async fn set_namespace(
    State(admin): State<Admin>,
    Path(number): Path<String>,
    settings: Result<Query<Settings>, QueryRejection>,
) -> Response {
    let settings = match Settings::read(&number, settings) {
        Ok(settings) => settings,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    };
    match settings.change_of(&number) {
        Some(words) => respond(admin.ask(&words).await),
        None => refuse(StatusCode::BAD_REQUEST, PATCH_USAGE),
    }
}

async fn drop_namespace(State(admin): State<Admin>, Path(number): Path<String>, uri: Uri) -> Response {
    if let Err(why) = check_number(&number).and_then(|()| check_no_query(&uri)) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    respond(admin.ask(&["NAMESPACE", "DROP", &number]).await)
}

async fn log_level() -> Json<Value> {
    Json(json!({ "level": log::directives() }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLogLevel {
    level: String,
}

async fn set_log_level(wanted: Result<Query<NewLogLevel>, QueryRejection>) -> Response {
    let set = match wanted {
        Ok(Query(wanted)) => log::set(&wanted.level),
        Err(why) => Err(why.body_text()),
    };
    match set {
        Ok(()) => log_level().await.into_response(),
        Err(why) => refuse(StatusCode::BAD_REQUEST, why),
    }
}

/// Why there is no reply.
#[derive(Debug)]
enum NoReply {
    /// Not executed: too much is being asked, or the node stops.
    Busy,
    Failed(Failure),
    /// The worker has not answered in time.
    Silent,
}

impl Admin {
    async fn ask(&self, words: &[&str]) -> Result<AdminReply, NoReply> {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.ask_within(ANSWER_WITHIN, 0, words).await
    }

    /// The words behind `QUORATE`, said by a client that has entered this namespace.
    async fn ask_within(&self, within: Duration, namespace: u32, words: Vec<Vec<u8>>) -> Result<AdminReply, NoReply> {
        match self.request(within, |answer| Request::Words { namespace, words, answer }).await? {
            Answer::Admin(reply) => Ok(reply),
            Answer::Failed(failure) => Err(NoReply::Failed(failure)),
            Answer::Outcome(_) => Ok(AdminReply::Ok),
        }
    }

    async fn request<A>(
        &self,
        within: Duration,
        request: impl FnOnce(oneshot::Sender<A>) -> Request,
    ) -> Result<A, NoReply> {
        let (answer, answered) = oneshot::channel();
        match self.requests.try_send(request(answer)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return Err(NoReply::Busy),
        }
        // A poll that is gone answers nobody, which is noticed below.
        let _ = self.waker.wake();
        match tokio::time::timeout(within, answered).await {
            Err(_elapsed) => Err(NoReply::Silent),
            Ok(Err(_dropped)) => Err(NoReply::Busy),
            Ok(Ok(answer)) => Ok(answer),
        }
    }
}

const NO_ANSWER: &str = "no answer in time: it may have been executed, look before you repeat it";

fn respond(reply: Result<AdminReply, NoReply>) -> Response {
    match reply {
        Ok(AdminReply::Error(text)) => refuse(status_of(&text), text),
        Ok(reply) => Json(to_json(reply)).into_response(),
        Err(NoReply::Busy) => {
            refuse(StatusCode::SERVICE_UNAVAILABLE, "not executed: the node is busy or stopping, try again")
        }
        Err(NoReply::Silent) => refuse(StatusCode::GATEWAY_TIMEOUT, NO_ANSWER),
        Err(NoReply::Failed(failure)) => {
            let (status, text) = words_of(&failure);
            refuse(status, text)
        }
    }
}

/// The root refuses in words alone.
fn status_of(refusal: &str) -> StatusCode {
    if refusal.starts_with("ERR no namespace ") { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST }
}

fn words_of(failure: &Failure) -> (StatusCode, &'static str) {
    let unavailable = |text| (StatusCode::SERVICE_UNAVAILABLE, text);
    match failure {
        Failure::Timeout => (StatusCode::GATEWAY_TIMEOUT, NO_ANSWER),
        Failure::NoQuorum => unavailable("not executed: too few nodes can be reached"),
        Failure::ClockOff => unavailable("not executed: the node's clock is off its peers'"),
        Failure::ClockUnknown => {
            unavailable("not executed: the node was too busy or cut off to compare its clock with its peers'")
        }
        Failure::Loading => unavailable("not executed: the node does not know the cluster yet"),
        Failure::BehindUnknown => unavailable("not executed: a write before it has an unknown outcome"),
        Failure::Overloaded => unavailable("not executed: too much is waiting, try again"),
        Failure::OutOfMemory => unavailable("not executed: the node uses more memory than it may"),
        Failure::NoNamespace => (StatusCode::NOT_FOUND, "there is no such namespace"),
    }
}

fn to_json(reply: AdminReply) -> Value {
    match reply {
        AdminReply::Ok => json!({ "ok": true }),
        AdminReply::Text(text) | AdminReply::Line(text) | AdminReply::Error(text) => text.into(),
        AdminReply::Failed(failure) => words_of(&failure).1.into(),
        AdminReply::Int(number) => number.into(),
        AdminReply::List(list) => list.into_iter().map(to_json).collect(),
        AdminReply::Bytes(bytes) => bytes_to_json(bytes).unwrap_or_else(Value::from),
        AdminReply::Map(fields) => fields.into_iter().map(field_to_json).collect(),
    }
}

fn field_to_json((name, value): (String, AdminReply)) -> (String, Value) {
    match value {
        AdminReply::Bytes(bytes) => match bytes_to_json(bytes) {
            Ok(text) => (name, text),
            Err(base64) => (name + "_base64", base64.into()),
        },
        value => (name, to_json(value)),
    }
}

/// As text, or in base64.
fn bytes_to_json(bytes: Vec<u8>) -> Result<Value, String> {
    String::from_utf8(bytes).map(Value::from).map_err(|no_text| BASE64.encode(no_text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_the_words_of_the_command() {
        let settings = Settings { volumes: Some("8".into()), reads: Some("quorum".into()), ..Settings::default() };
        assert_eq!(settings.words(), ["VOLUMES", "8", "READS", "quorum"]);
    }

    #[test]
    fn one_thing_of_a_namespace_is_changed_at_a_time() {
        let said = |text: &str| Some(text.to_owned());
        let reads = Settings { reads: said("local"), ..Settings::default() };
        assert_eq!(reads.change_of("7").expect("a change"), ["NAMESPACE", "SET", "7", "READS", "local"]);
        let quorum = Settings { quorum: said("1 3"), ..Settings::default() };
        assert_eq!(quorum.change_of("7").expect("a change"), ["QUORUM", "SET", "NAMESPACE", "7", "1", "3"]);
        let members = Settings { members: said("n1"), quorum: said("majority"), ..Settings::default() };
        let words = ["NAMESPACE", "MOVE", "7", "MEMBERS", "n1", "QUORUM", "majority"];
        assert_eq!(members.change_of("7").expect("a change"), words);
        assert!(Settings::default().change_of("7").is_none());
        assert!(Settings { quorum: said("1 3"), ..reads }.change_of("7").is_none());
        assert!(Settings { volumes: said("3"), ..quorum }.change_of("7").is_none());
    }

    #[test]
    fn a_value_that_cannot_be_is_named_with_those_that_can() {
        let read = |number: &str, query: &str| {
            let uri: Uri = format!("/namespaces/7?{query}").parse().expect("a target");
            Settings::read(number, Query::try_from_uri(&uri)).map(|settings| settings.words().join(" "))
        };
        for (query, reason) in [
            ("protocol=zab", "protocol is \"zab\"; it can be paxos, chain or register"),
            ("durability=async", "durability is \"async\"; it can be sync, interval or memory"),
            ("volumes=many", "volumes is \"many\"; it can be a number"),
            ("quorum=all", "it can be majority, threshold R W, grid or grid ROWSxCOLS"),
            ("colour=red", "unknown field `colour`"),
        ] {
            assert!(read("7", query).is_err_and(|why| why.contains(reason)), "{query}: {:?}", read("7", query));
        }
        assert_eq!(read("abc", "").expect_err("no number"), "a namespace is a number, not \"abc\"");
        assert_eq!(read("7", "reads=LEASE&quorum=1%203").expect("sound"), "READS LEASE QUORUM 1 3");
        assert!(check_no_query(&"/namespaces/6?x=y".parse().expect("a target")).is_err_and(|why| why.contains("x=y")));
        assert!(check_no_query(&"/namespaces/6".parse().expect("a target")).is_ok());
    }

    #[test]
    fn failures_say_whether_it_was_executed() {
        assert_eq!(respond(Err(NoReply::Silent)).status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(respond(Err(NoReply::Busy)).status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(respond(Ok(AdminReply::Error("ERR".into()))).status(), StatusCode::BAD_REQUEST);
        assert_eq!(respond(Ok(AdminReply::Error("ERR no namespace 7: ...".into()))).status(), StatusCode::NOT_FOUND);
        assert_eq!(respond(Ok(AdminReply::Ok)).status(), StatusCode::OK);
    }

    #[test]
    fn a_worker_that_stands_still_is_not_well() {
        let mut pulse = Pulse::new();
        pulse.beat(Readiness::Ready);
        assert!(pulse.is_well());
        pulse.origin = Instant::now().checked_sub(TURN_WITHIN * 2).expect("the machine has run for seconds");
        assert!(!pulse.is_well());
    }
}
