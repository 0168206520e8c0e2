//! The admin port answers as its own description says, everywhere and to everything.

use serde_json::Value;

use crate::common::{Nodes, until};

/// Targets, with a body after a space, and the status that each must have.
type Requests = [(&'static str, u16)];

/// For each method and path of the description.
const REQUESTS: [(&str, &str, &Requests); 30] = [
    ("get", "/", &[("/", 200)]),
    ("get", "/healthz", &[("/healthz", 200)]),
    ("get", "/readyz", &[("/readyz", 200)]),
    ("get", "/metrics", &[("/metrics", 200)]),
    ("get", "/status", &[("/status", 200)]),
    ("get", "/namespaces", &[("/namespaces", 200)]),
    (
        "post",
        "/namespaces/{number}",
        &[
            ("/namespaces/3?volumes=2&replicas=1&durability=memory&reads=quorum", 200),
            ("/namespaces/3", 400),
            ("/namespaces/x", 400),
            ("/namespaces/4?protocol=zab", 400),
            ("/namespaces/4?colour=red", 400),
            ("/namespaces/4?volumes=0", 400),
            ("/namespaces/4?volumes=1&volumes=2", 400),
            ("/namespaces/5?protocol=register&authority=members&members=n1", 200),
            ("/namespaces/6?protocol=register&authority=members&volumes=2&replicas=1", 400),
            ("/namespaces/6?protocol=chain&authority=members&replicas=1", 400),
            ("/namespaces/6?protocol=register&members=n1", 400),
        ],
    ),
    (
        "patch",
        "/namespaces/{number}",
        &[
            ("/namespaces/3?reads=lease", 200),
            ("/namespaces/3?volumes=4", 400),
            ("/namespaces/5?members=n1&quorum=threshold%201%201", 200),
            ("/namespaces/5?quorum=1%201", 200),
            ("/namespaces/5?quorum=1%202", 400),
            ("/namespaces/5?members=n9", 400),
            ("/namespaces/3?members=n1", 400),
            ("/namespaces/6?members=n1", 404),
            ("/namespaces/6?reads=local", 404),
            ("/namespaces/5", 400),
            ("/namespaces/5?reads=lease&quorum=1%201", 400),
        ],
    ),
    (
        "delete",
        "/namespaces/{number}",
        &[("/namespaces/3", 200), ("/namespaces/3", 404), ("/namespaces/0", 400), ("/namespaces/6?x=y", 400)],
    ),
    (
        "post",
        "/groups/{number}",
        &[
            (r#"/groups/0 {"action": "create", "keys": ["a/b", "c"], "members": ["n1"], "value": "v"}"#, 200),
            (r#"/groups/0 {"action": "create", "keys_base64": ["AP8="]}"#, 200),
            (r#"/groups/0 {"action": "promote", "keys": ["c", "missing"]}"#, 200),
            (r#"/groups/0 {"action": "show", "keys": ["c", "missing"]}"#, 200),
            (r#"/groups/0 {"action": "demote", "keys": ["c"]}"#, 200),
            (r#"/groups/0 {"action": "create", "keys": ["chain"], "protocol": "chain"}"#, 200),
            (
                r#"/groups/0 {"action": "create", "keys": ["r"], "protocol": "register", "quorum": "threshold 1 1"}"#,
                200,
            ),
            (r#"/groups/0 {"action": "show", "keys": ["chain", "r"]}"#, 200),
            (r#"/groups/0 {"action": "set_quorum", "keys": ["chain", "r"], "quorum": "threshold 1 1"}"#, 200),
            (r#"/groups/0 {"action": "move", "keys": ["r"], "members": ["n1"], "quorum": "majority"}"#, 200),
            (r#"/groups/0 {"action": "move", "keys": ["a/b"], "members": ["n1"]}"#, 200),
            (r#"/groups/0 {"action": "move", "keys": ["a/b"], "members": ["n1"], "quorum": "majority"}"#, 400),
            (r#"/groups/0 {"action": "retype", "keys": ["a/b"], "protocol": "register"}"#, 200),
            (r#"/groups/0 {"action": "retype", "keys": ["a/b"]}"#, 400),
            (r#"/groups/0 {"action": "create", "keys": ["e"], "protocol": "chain", "quorum": "majority"}"#, 400),
            (r#"/groups/0 {"action": "create", "keys": ["d"], "members": ["n9"]}"#, 400),
            (r#"/groups/0 {"action": "burn", "keys": ["c"]}"#, 400),
            ("/groups/0", 400),
            ("/groups/0 []", 400),
            (r#"/groups/0?x=1 {"action": "show", "keys": ["c"]}"#, 400),
            (r#"/groups/5 {"action": "show", "keys": ["c"]}"#, 200),
            (r#"/groups/5 {"action": "move", "keys": ["c"], "members": ["n1"]}"#, 200),
            (r#"/groups/x {"action": "show", "keys": ["c"]}"#, 400),
            (r#"/groups/77 {"action": "show", "keys": ["c"]}"#, 404),
        ],
    ),
    (
        "get",
        "/groups/{number}/{key}",
        &[
            ("/groups/0/a%2Fb", 200),
            ("/groups/0/%00%FF", 200),
            ("/groups/0/missing", 404),
            ("/groups/77/c", 404),
            ("/groups/x/c", 400),
        ],
    ),
    (
        "get",
        "/demand",
        &[("/demand", 200), ("/demand?count=1", 200), ("/demand?count=x", 400), ("/demand?most=1", 400)],
    ),
    ("get", "/upgrade", &[("/upgrade", 200)]),
    ("get", "/log-level", &[("/log-level", 200)]),
    ("put", "/log-level", &[("/log-level", 400), ("/log-level?level=inf", 400), ("/log-level?level=", 400)]),
    ("get", "/openapi.json", &[("/openapi.json", 200)]),
    (
        "post",
        "/nodes",
        &[
            ("/nodes?name=n2&peer=127.0.0.1:1&client=127.0.0.1:2&admin=127.0.0.1:3", 200),
            ("/nodes?name=n2&peer=127.0.0.1:1&client=127.0.0.1:2&admin=127.0.0.1:3", 200),
            ("/nodes?name=n1&peer=127.0.0.1:4&client=127.0.0.1:5&admin=127.0.0.1:6", 400),
            ("/nodes?name=n3&peer=127.0.0.1:4&client=127.0.0.1:5&admin=here", 400),
            ("/nodes?name=n3&peer=127.0.0.1:4&client=127.0.0.1:5", 400),
            ("/nodes?name=n3&peer=127.0.0.1:4&client=127.0.0.1:5&admin=127.0.0.1:6&id=3", 400),
        ],
    ),
    ("get", "/nodes", &[("/nodes", 200)]),
    ("get", "/nodes/{name}", &[("/nodes/n1", 200), ("/nodes/n9", 404)]),
    (
        "post",
        "/nodes/{name}/drain",
        &[("/nodes/n9/drain", 404), ("/nodes/n2/drain?x=y", 400), ("/nodes/n2/drain", 200)],
    ),
    (
        "post",
        "/nodes/{name}/undrain",
        &[("/nodes/n2/undrain", 200), ("/nodes/n9/undrain", 404), ("/nodes/n2/undrain?x", 400)],
    ),
    ("get", "/replace-after", &[("/replace-after", 200)]),
    (
        "post",
        "/replace-after",
        &[
            ("/replace-after", 400),
            ("/replace-after?seconds=0", 400),
            ("/replace-after?seconds=10m", 400),
            ("/replace-after?seconds=never", 200),
            ("/replace-after?seconds=600", 200),
        ],
    ),
    ("get", "/root", &[("/root", 200)]),
    (
        "post",
        "/root",
        &[
            ("/root", 400),
            ("/root?from=n1", 400),
            ("/root?from=n1&to=n9", 400),
            ("/root?from=n1&to=n1", 400),
            ("/root?to=n9", 400),
            ("/root?to=n1", 400),
        ],
    ),
    ("post", "/level", &[("/level", 200), ("/level?x=y", 400)]),
    ("delete", "/level", &[("/level", 200), ("/level?x=y", 400)]),
    (
        "get",
        "/namespaces/{number}/volumes",
        &[("/namespaces/0/volumes", 200), ("/namespaces/77/volumes", 404), ("/namespaces/x/volumes", 400)],
    ),
    (
        "post",
        "/namespaces/{number}/volumes/{index}/move",
        &[
            ("/namespaces/0/volumes/0/move?from=n1", 400),
            ("/namespaces/0/volumes/0/move?from=n1&to=n1", 400),
            ("/namespaces/0/volumes/9999/move?from=n1&to=n2", 400),
            ("/namespaces/77/volumes/0/move?from=n1&to=n2", 404),
        ],
    ),
    (
        "delete",
        "/nodes/{name}",
        &[("/nodes/n1", 400), ("/nodes/n2?x=y", 400), ("/nodes/n2", 200), ("/nodes/n2", 404), ("/nodes/n9", 404)],
    ),
];

#[test]
fn every_answer_is_as_described() {
    let nodes = Nodes::started(1);
    until("the node is ready", || nodes.http(0, "GET /readyz").0 == 200);
    let description: Value = serde_json::from_str(&nodes.http(0, "GET /openapi.json").1).expect("JSON");
    let mut described = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        described.extend(methods.as_object().expect("methods").keys().map(|method| (method.as_str(), path.as_str())));
    }
    described.sort_unstable();
    let mut known: Vec<(&str, &str)> = REQUESTS.iter().map(|(method, path, _)| (*method, *path)).collect();
    known.sort_unstable();
    assert_eq!(described, known, "what is described is what is tried here");
    // `GET /` lists the same, but for itself, with other placeholders.
    let listed = nodes.http(0, "GET /").1;
    let mut listed: Vec<(String, String)> = listed.lines().skip(2).map(line_of_list).collect();
    listed.push(("get".to_owned(), "/".to_owned()));
    listed.sort_unstable();
    assert!(listed.iter().map(|(method, path)| (method.as_str(), path.as_str())).eq(known), "{listed:?}");
    for (method, path, requests) in REQUESTS {
        for (target, expected) in requests {
            let request = format!("{} {target}", method.to_uppercase());
            if request == "DELETE /nodes/n2" && *expected == 200 {
                // One that was never heard of is no loss, and is known to be gone after a while.
                until("the new node is not there", || nodes.http(0, "GET /nodes").1.contains("suspected"));
                assert_eq!(nodes.http(0, "GET /readyz").0, 200);
            }
            let (request, sent) = match request.match_indices(' ').nth(1) {
                Some((at, _)) => request.split_at(at),
                None => (&request[..], ""),
            };
            let (status, body) = nodes.http_sending(0, request, "", sent.trim_start());
            assert_eq!(status, *expected, "{request}: {body}");
            let response = &description["paths"][path][method]["responses"][status.to_string()];
            assert!(response.is_object(), "{request} may not answer {status}");
            match response["content"]["application/json"]["schema"] {
                Value::Null => assert!(response["content"]["text/plain"].is_object(), "{request} has no content"),
                ref schema => {
                    let body = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{request}: {error}: {body}"));
                    check(&description, schema, &body, request);
                }
            }
        }
    }
}

fn line_of_list(line: &str) -> (String, String) {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default();
    (
        word().to_lowercase(),
        word()
            .replace("/NAME", "/{name}")
            .replace("/N", "/{number}")
            .replace("KEY", "{key}")
            .replace("INDEX", "{index}"),
    )
}

/// Panics where `value` is not what `schema` describes, or more.
fn check(description: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = description.pointer(reference.trim_start_matches('#')).expect("it refers to something");
        return check(description, schema, value, at);
    }
    if let Some(alternatives) = schema["oneOf"].as_array() {
        let described = |alternative: &&Value| {
            let reference = alternative["$ref"].as_str().expect("it refers to something");
            let schema = description.pointer(reference.trim_start_matches('#')).expect("it refers to something");
            let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.all(|name| value.get(name).is_some())
        };
        let fitting = alternatives.iter().find(described);
        return check(description, fitting.unwrap_or_else(|| panic!("{at}: what is {value}?")), value, at);
    }
    let expected: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        of_one => of_one.as_str().into_iter().collect(),
    };
    assert!(!expected.is_empty(), "{at}: no type in {schema}");
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(expected.contains(&found), "{at} is {value}, not of {expected:?}");
    if let (Some(names), Some(word)) = (schema["enum"].as_array(), value.as_str()) {
        assert!(names.iter().any(|name| name == word), "{at} is {word}, not of {names:?}");
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        check(description, &schema["items"], item, &format!("{at}[{place}]"));
    }
    let (Some(fields), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(fields.contains_key(name), "{at} lacks {name}");
    }
    for (name, field) in fields {
        let schema = properties.get(name).unwrap_or_else(|| panic!("{at}.{name} is not described"));
        let schema =
            schema["oneOf"].as_array().and_then(|all| all.iter().find(|one| !one["$ref"].is_null())).unwrap_or(schema);
        check(description, schema, field, &format!("{at}.{name}"));
    }
}

#[test]
fn a_browser_is_shown_a_page_and_all_others_a_list() {
    let nodes = Nodes::started(1);
    until("the node is ready", || nodes.http(0, "GET /readyz").0 == 200);
    let (status, page) = nodes.http_with(0, "GET /", "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
    assert_eq!(status, 200);
    assert!(page.starts_with("<!doctype html>") && page.contains("<h1>Quorate node n1</h1>"), "{page}");
    for path in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert_eq!(nodes.http(0, &format!("GET {path}")).0, 200, "{path}");
    }
    assert!(nodes.http_with(0, "GET /", "accept: */*\r\n").1.starts_with("This is the admin port"));
}

#[test]
fn what_is_not_there_is_refused_with_a_hint() {
    let nodes = Nodes::started(1);
    let refusal = |request: &str, expected: u16| {
        let (status, body) = nodes.http(0, request);
        assert_eq!(status, expected, "{request}: {body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        body["error"].as_str().expect("an error").to_owned()
    };
    assert_eq!(refusal("GET /nosuch", 404), "there is no /nosuch; GET / lists what there is");
    assert_eq!(refusal("GET /namespaces/1/2", 404), "there is no /namespaces/1/2; GET / lists what there is");
    assert_eq!(refusal("POST /status", 405), "/status does not take this method; GET / lists what there is");
    assert_eq!(refusal("GET /namespaces/1", 405), "/namespaces/1 does not take this method; GET / lists what there is");
    assert_eq!(refusal("PUT /log-level?level=loud", 400), LOUD);
}

const LOUD: &str = "\"loud\" is no level; use one of off, error, warn, info, debug, trace";

#[test]
fn own_groups_are_made_shown_and_ended_over_http() {
    let nodes = Nodes::started(1);
    until("the node is ready", || nodes.http(0, "GET /readyz").0 == 200);
    let groups = |body: &str| {
        let (status, answer) = nodes.http_sending(0, "POST /groups/0", "", body);
        assert_eq!(status, 200, "{body}: {answer}");
        serde_json::from_str::<Value>(&answer).expect("JSON")
    };
    let created = groups(r#"{"action": "create", "keys": ["a", "a b"], "value_base64": "+/8="}"#);
    assert_eq!((&created[0]["ok"], &created[1]["ok"]), (&Value::Bool(true), &Value::Bool(true)));
    let again = groups(r#"{"action": "create", "keys": ["a"]}"#);
    assert_eq!(again[0]["error"], "ERR the key has a group of its own already");
    assert_eq!(groups(r#"{"action": "create", "keys_base64": ["AP8v"]}"#)[0]["ok"], true);
    for key in ["a%20b", "%00%ff%2f", "a"] {
        let (status, shown) = nodes.http(0, &format!("GET /groups/0/{key}"));
        assert_eq!(status, 200, "{shown}");
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!((&shown["kind"], &shown["members"][0]), (&"own".into(), &"n1".into()), "{key}");
    }
    assert_eq!(groups(r#"{"action": "demote", "keys": ["a"]}"#)[0]["ok"], true);
    until("it is back in its volume", || nodes.http(0, "GET /groups/0/a").1.contains("\"kind\":\"volume\""));
    // As many as one request may name, and one more.
    let many = |count: usize| {
        let keys: Vec<String> = (0..count).map(|number| format!("\"many:{number}\"")).collect();
        format!(r#"{{"action": "create", "keys": [{}]}}"#, keys.join(","))
    };
    let answers = groups(&many(10_000));
    let answers = answers.as_array().expect("a list");
    assert_eq!((answers.len(), answers.iter().filter(|answer| answer["ok"] == true).count()), (10_000, 10_000));
    let (status, refusal) = nodes.http_sending(0, "POST /groups/0", "", &many(10_001));
    assert!(status == 400 && refusal.contains("not 10001"), "{status}: {refusal}");
    // A short request must not make much: 10,000 strings of 4 KiB are too much.
    let much = many(10_000).replace("many:", "much:").replace("}", &format!(",\"value\":\"{}\"}}", "x".repeat(4096)));
    let (status, refusal) = nodes.http_sending(0, "POST /groups/0", "", &much);
    assert!(status == 400 && refusal.contains("create fewer at once"), "{status}: {refusal}");
    assert_eq!(nodes.http(0, "GET /groups/0/much:0").0, 404);
    let (status, refusal) = nodes.http_sending(0, "POST /groups/0", "", &" ".repeat((32 << 20) + 1));
    assert!(status == 413 && refusal.contains("at most 33554432 bytes"), "{status}: {refusal}");
}
