//! Objects with groups of their own, over HTTP: the words of `QUORATE GROUP`, with an answer for each key.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::percent_decode_str;
use quorate_node::AdminReply;
use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admin, NoReply, check_no_query, refuse, respond, to_json, words_of};

/// What the paths begin with.
const PREFIX: &str = "/groups/";
/// The body of one request, as much as one of a Redis client may be.
pub(super) const BODY_BYTES_MAX: usize = 32 << 20;
/// Requests with a body that are in memory at once.
pub(super) const BODIES_MAX: usize = 4;
/// Keys in one request, as in one command.
const KEYS_MAX: usize = 10_000;
/// Longer than a node takes to say of each key that it has no answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What shall be done, as it is written in JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    action: String,
    #[serde(default)]
    keys: Vec<String>,
    /// Keys that are not text.
    #[serde(default)]
    keys_base64: Vec<String>,
    protocol: Option<String>,
    #[serde(default)]
    members: Vec<String>,
    quorum: Option<Quorum>,
    value: Option<String>,
    value_base64: Option<String>,
}

impl Wanted {
    fn read(body: &[u8]) -> Result<Wanted, String> {
        let refused = |why: &dyn std::fmt::Display| {
            format!("the body is not what is wanted, as in {{\"action\": \"promote\", \"keys\": [\"k\"]}}: {why}")
        };
        // Of an array the fields would be taken in their order.
        if body.trim_ascii_start().first().is_some_and(|&first| first != b'{') {
            return Err(refused(&"expected an object"));
        }
        let wanted: Wanted = serde_json::from_slice(body).map_err(|error| refused(&error))?;
        Ok(Wanted { action: wanted.action.to_ascii_lowercase(), ..wanted })
    }

    /// The words behind `QUORATE`.
    fn words(self) -> Result<Vec<Vec<u8>>, String> {
        self.check_options()?;
        let Wanted { action, keys, keys_base64, protocol, members, quorum, value, value_base64 } = self;
        let keys = either("keys", keys, keys_base64)?;
        let protocol = protocol.map(|word| match Protocol::parse(&word) {
            Some(protocol) => Ok(protocol.word()),
            None => Err(format!("protocol is {word:?}; it can be paxos, chain or register")),
        });
        let protocol = protocol.transpose()?;
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(format!("keys, or keys_base64, name from 1 to {KEYS_MAX} keys, not {}", keys.len()));
        }
        let count = keys.len().to_string();
        let first = match (action.as_str(), keys.len()) {
            ("move", 1) => vec!["GROUP", "MOVE"],
            ("move", _) => return Err("move takes one key: its group is moved".into()),
            ("set_quorum", _) => vec!["QUORUM", "SET", "KEYS", &count],
            (action, _) => vec!["GROUP", action, "KEYS", &count],
        };
        let mut words: Vec<Vec<u8>> = first.into_iter().map(|word| word.as_bytes().to_vec()).collect();
        words.extend(keys);
        if action == "set_quorum" {
            let Some(Quorum::Threshold { read, write }) = quorum else {
                return Err("set_quorum takes a quorum of two sizes, as in \"threshold 1 3\"".into());
            };
            words.extend([read, write].map(|size| size.to_string().into_bytes()));
            return Ok(words);
        }
        let value = either("value", Vec::from_iter(value), Vec::from_iter(value_base64))?.pop();
        let options = [
            ("PROTOCOL", protocol.map(Into::into)),
            ("MEMBERS", Some(members.join(",").into_bytes()).filter(|members| !members.is_empty())),
            ("QUORUM", quorum.map(|quorum| quorum.words().into_bytes())),
            ("VALUE", value),
        ];
        let said = options.into_iter().filter_map(|(name, given)| Some([name.into(), given?]));
        words.extend(said.flatten());
        Ok(words)
    }

    /// Nothing is said that the action has no use for, and nothing is left out that it needs.
    fn check_options(&self) -> Result<(), String> {
        let takes: &[&str] = match self.action.as_str() {
            "create" => &["protocol", "members", "quorum", "value"],
            "promote" => &["protocol", "members", "quorum"],
            "retype" if self.protocol.is_none() => return Err("retype takes protocol: paxos, chain or register".into()),
            "retype" => &["protocol", "members", "quorum"],
            "move" if self.members.is_empty() => return Err("move takes members: the nodes to be on".into()),
            "move" => &["members", "quorum"],
            "set_quorum" => &["quorum"],
            "demote" | "show" => &[],
            other => {
                let actions = "create, promote, demote, move, retype, set_quorum or show";
                return Err(format!("action is {actions}, not {other:?}"));
            }
        };
        let given = [
            ("protocol", self.protocol.is_some()),
            ("members", !self.members.is_empty()),
            ("quorum", self.quorum.is_some()),
            ("value", self.value.is_some() || self.value_base64.is_some()),
        ];
        match given.iter().find(|(name, is_given)| *is_given && !takes.contains(name)) {
            Some((name, _)) => Err(format!("{} takes no {name}", self.action)),
            None => Ok(()),
        }
    }
}

/// Bytes that were given as text or in Base64.
fn either(name: &str, plain: Vec<String>, encoded: Vec<String>) -> Result<Vec<Vec<u8>>, String> {
    if encoded.is_empty() {
        return Ok(plain.into_iter().map(String::into_bytes).collect());
    }
    if !plain.is_empty() {
        return Err(format!("say either {name} or {name}_base64"));
    }
    let decoded = |text: &String| BASE64.decode(text).map_err(|error| format!("{name}_base64: {text:?}: {error}"));
    encoded.iter().map(decoded).collect()
}

pub(super) async fn show_group(State(admin): State<Admin>, uri: Uri) -> Response {
    // By hand, since the router's own decoding refuses what is not text.
    let path = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let (namespace, key) = path.split_once('/').unwrap_or_default();
    let key = percent_decode_str(key).collect();
    ask(&admin, namespace, vec![b"GROUP".to_vec(), b"SHOW".to_vec(), key]).await
}

pub(super) async fn change_groups(
    State(admin): State<Admin>,
    Path(namespace): Path<String>,
    request: Request,
) -> Response {
    if let Err(why) = check_no_query(request.uri()) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    // It is never closed.
    let _place = admin.bodies.acquire().await;
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(why) => {
            return refuse(why.status(), format!("{}; a body has at most {BODY_BYTES_MAX} bytes", why.body_text()));
        }
    };
    match Wanted::read(&body).and_then(Wanted::words) {
        Ok(words) => ask(&admin, &namespace, words).await,
        Err(why) => refuse(StatusCode::BAD_REQUEST, why),
    }
}

async fn ask(admin: &Admin, namespace: &str, words: Vec<Vec<u8>>) -> Response {
    let Ok(namespace) = namespace.parse() else {
        return refuse(StatusCode::BAD_REQUEST, format!("a namespace is a number, not {namespace:?}"));
    };
    told(admin.ask_within(ANSWERS_WITHIN, namespace, words).await)
}

fn told(reply: Result<AdminReply, NoReply>) -> Response {
    match reply {
        Ok(AdminReply::List(answers)) => Json(answers.into_iter().map(of_one_key).collect::<Value>()).into_response(),
        // A group was moved: a list of one, as of other actions.
        Ok(AdminReply::Ok) => Json(json!([of_one_key(AdminReply::Ok)])).into_response(),
        Ok(AdminReply::Error(text)) if text == "ERR no such key" => refuse(StatusCode::NOT_FOUND, text),
        Ok(AdminReply::Failed(failure)) => {
            let (status, text) = words_of(&failure);
            refuse(status, text)
        }
        other => respond(other),
    }
}

/// One of many answers, in the order of the keys.
fn of_one_key(reply: AdminReply) -> Value {
    match reply {
        AdminReply::Error(text) => json!({ "error": text }),
        AdminReply::Failed(failure) => json!({ "error": words_of(&failure).1 }),
        other => to_json(other),
    }
}

#[cfg(test)]
mod tests {
    use quorate_node::Failure;

    use super::*;

    fn words(body: &str) -> Result<String, String> {
        let words = Wanted::read(body.as_bytes())?.words()?;
        Ok(words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn bodies_become_the_words_of_the_command() {
        let all = r#"{"action": "create", "keys": ["a", "b c"], "members": ["n2", "n1"], "value": "v"}"#;
        assert_eq!(words(all), Ok("GROUP create KEYS 2 a b c MEMBERS n2,n1 VALUE v".into()));
        let binary = r#"{"action": "create", "keys_base64": ["AP8="], "value_base64": "/w=="}"#;
        assert_eq!(words(binary), Ok(r"GROUP create KEYS 1 \x00\xff VALUE \xff".into()));
        assert_eq!(words(r#"{"action": "demote", "keys": ["a"]}"#), Ok("GROUP demote KEYS 1 a".into()));
        let chain = r#"{"action": "promote", "keys": ["a"], "protocol": "chain"}"#;
        assert_eq!(words(chain), Ok("GROUP promote KEYS 1 a PROTOCOL chain".into()));
        let capitals = r#"{"action": "PROMOTE", "keys": ["a"], "protocol": "REGISTER", "quorum": "GRID"}"#;
        assert_eq!(words(capitals), Ok("GROUP promote KEYS 1 a PROTOCOL register QUORUM grid".into()));
        let register = r#"{"action": "create", "keys": ["a"], "protocol": "register", "quorum": "grid 2x2"}"#;
        assert_eq!(words(register), Ok("GROUP create KEYS 1 a PROTOCOL register QUORUM grid 2x2".into()));
        let moved = r#"{"action": "move", "keys": ["a"], "members": ["n1", "n2"], "quorum": "majority"}"#;
        assert_eq!(words(moved), Ok("GROUP MOVE a MEMBERS n1,n2 QUORUM majority".into()));
        let retyped = r#"{"action": "retype", "keys": ["a"], "protocol": "chain"}"#;
        assert_eq!(words(retyped), Ok("GROUP retype KEYS 1 a PROTOCOL chain".into()));
        let resized = r#"{"action": "set_quorum", "keys": ["a", "b"], "quorum": "threshold 1 3"}"#;
        assert_eq!(words(resized), Ok("QUORUM SET KEYS 2 a b 1 3".into()));
    }

    #[test]
    fn bodies_that_say_something_else_are_refused_with_a_reason() {
        for (body, reason) in [
            ("", "as in {\"action\""),
            (r#"{"keys": ["a"]}"#, "missing field `action`"),
            (r#"{"action": "show", "key": "a"}"#, "unknown field `key`"),
            (r#"{"action": "drop", "keys": ["a"]}"#, "not \"drop\""),
            (r#"{"action": "show"}"#, "from 1 to 10000 keys, not 0"),
            (r#"{"action": "show", "keys": ["a"], "keys_base64": ["YQ=="]}"#, "either keys or keys_base64"),
            (r#"{"action": "show", "keys_base64": ["?"]}"#, "keys_base64: \"?\""),
            (r#"{"action": "demote", "keys": ["a"], "members": ["n1"]}"#, "demote takes no members"),
            (r#"{"action": "promote", "keys": ["a"], "value": "v"}"#, "promote takes no value"),
            (r#"{"action": "promote", "keys": ["a"], "protocol": "ring"}"#, "it can be paxos, chain or register"),
            ("[]", "expected an object"),
            (" 7", "expected an object"),
            (r#"{"action": "promote", "keys": ["a"], "quorum": "all"}"#, "majority, threshold R W"),
            (r#"{"action": "move", "keys": ["a"]}"#, "move takes members"),
            (r#"{"action": "move", "keys": ["a", "b"], "members": ["n1"]}"#, "move takes one key"),
            (r#"{"action": "retype", "keys": ["a"]}"#, "retype takes protocol"),
            (r#"{"action": "set_quorum", "keys": ["a"]}"#, "as in \"threshold 1 3\""),
            (r#"{"action": "set_quorum", "keys": ["a"], "quorum": "grid"}"#, "as in \"threshold 1 3\""),
            (r#"{"action": "set_quorum", "keys": ["a"], "quorum": "majority", "members": ["n1"]}"#, "takes no members"),
        ] {
            assert!(words(body).as_ref().is_err_and(|why| why.contains(reason)), "{body}: {:?}", words(body));
        }
        let many = format!(r#"{{"action": "show", "keys": [{}"a"]}}"#, r#""a","#.repeat(KEYS_MAX));
        assert!(words(&many).is_err_and(|why| why.contains("not 10001")));
    }

    #[test]
    fn each_key_has_its_answer_and_one_key_that_is_not_there_is_not_found() {
        let answers = vec![AdminReply::Ok, AdminReply::Error("ERR no".into()), AdminReply::Failed(Failure::NoQuorum)];
        let told_of: Vec<Value> = answers.into_iter().map(of_one_key).collect();
        assert_eq!(told_of[..2], [json!({ "ok": true }), json!({ "error": "ERR no" })]);
        assert!(told_of[2]["error"].as_str().is_some_and(|text| text.starts_with("not executed")));
        let status = |reply| told(Ok(reply)).status();
        assert_eq!(status(AdminReply::Error("ERR no such key".into())), StatusCode::NOT_FOUND);
        assert_eq!(status(AdminReply::Error("ERR no node is called n9".into())), StatusCode::BAD_REQUEST);
        assert_eq!(status(AdminReply::Failed(Failure::Timeout)), StatusCode::GATEWAY_TIMEOUT);
    }
}
