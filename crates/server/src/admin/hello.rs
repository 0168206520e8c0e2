//! What `GET /` answers: the paths that there are, as text or, to a browser, as a page with links.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::Admin;

const LIST: &str = "This is the admin port of a Quorate node. Redis clients connect to its client port.\n\n\
                    GET    /healthz          is the process well?\n\
                    GET    /readyz           does the node serve?\n\
                    GET    /metrics          for Prometheus\n\
                    GET    /status           nodes, namespaces and volumes, as JSON\n\
                    GET    /demand           ?count=20 what this node's clients ask for most\n\
                    GET    /upgrade          how far the rolling upgrade is, if there is one\n\
                    GET    /nodes            who they are, and what is on them\n\
                    POST   /nodes            ?name=n4&peer=HOST:PORT&client=HOST:PORT&admin=HOST:PORT\n\
                    GET    /nodes/NAME       how many replicas it has, and what keeps them there\n\
                    DELETE /nodes/NAME       of one that is stopped and has no replicas\n\
                    POST   /nodes/NAME/drain move what it has to other nodes\n\
                    POST   /nodes/NAME/undrain\n\
                    GET    /root             which nodes hold the root\n\
                    POST   /root             ?from=n1&to=n4, or ?to=n4 for a member more\n\
                    GET    /replace-after    when a node that is away is replaced by itself\n\
                    POST   /replace-after    ?seconds=600, or ?seconds=never\n\
                    POST   /level            move replicas until all nodes have as many\n\
                    DELETE /level            leave it at what has been moved\n\
                    GET    /namespaces\n\
                    POST   /namespaces/N     ?protocol=paxos&replicas=3&volumes=64\n\
                    PATCH  /namespaces/N     ?reads=quorum\n\
                    DELETE /namespaces/N\n\
                    GET    /namespaces/N/volumes where they are\n\
                    POST   /namespaces/N/volumes/INDEX/move ?from=n1&to=n4\n\
                    GET    /groups/N/KEY     the group that an object is in; the key as in a%2Fb\n\
                    POST   /groups/N         create, promote, demote, move, retype, set_quorum or show, as the JSON body says\n\
                    GET    /log-level\n\
                    PUT    /log-level        ?level=debug\n\
                    GET    /openapi.json     all of this, for programs\n";

pub(super) async fn hello(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).map(HeaderValue::as_bytes).unwrap_or_default();
    // Only browsers ask for it.
    let wants_page = accept.windows(TEXT_HTML.len()).any(|part| part.eq_ignore_ascii_case(TEXT_HTML));
    let (kind, body) = match wants_page {
        true => ("text/html; charset=utf-8", admin.page),
        false => ("text/plain; charset=utf-8", Bytes::from_static(LIST.as_bytes())),
    };
    // The page is all that it needs.
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::VARY, "accept"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ];
    (headers, body).into_response()
}

const TEXT_HTML: &[u8] = b"text/html";

/// The list as a page of the node of this name, which is plain as every node's.
pub(super) fn page(node: &str) -> Bytes {
    let list: String = LIST.lines().map(|line| linked(line) + "\n").collect();
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Quorate node {node}</title>\n<h1>Quorate node {node}</h1>\n<pre>\n{list}</pre>\n</html>\n"
    );
    page.into()
}

/// A line of the list, with a link where it has a path that can be followed: one without placeholders.
fn linked(line: &str) -> String {
    let escaped = line.replace('&', "&amp;");
    let path = line.strip_prefix("GET ").and_then(|rest| rest.split_whitespace().next());
    match path.filter(|path| !path.contains(char::is_uppercase)) {
        Some(path) => escaped.replacen(path, &format!("<a href=\"{path}\">{path}</a>"), 1),
        None => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_followed_is_a_link() {
        let page = String::from_utf8(page("n7").to_vec()).expect("text");
        assert!(page.contains("<title>Quorate node n7</title>"));
        for path in ["/healthz", "/readyz", "/metrics", "/status", "/openapi.json"] {
            assert!(page.contains(&format!("<a href=\"{path}\">{path}</a> ")), "{path}: {page}");
        }
        assert!(page.contains("\nGET    /groups/N/KEY ") && page.contains("\nPUT    /log-level "), "{page}");
        assert!(page.contains("?protocol=paxos&amp;replicas=3&amp;volumes=64\n"), "{page}");
    }
}
