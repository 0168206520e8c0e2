//! Who may administer: those who show the token, as `Authorization: Bearer TOKEN`.
//!
//! Whether the node is well may be asked by anybody: what watches a node rarely has secrets, and learns one bit.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;

use crate::auth::secrets::TokenHash;

const FOR_EVERYBODY: [&str; 2] = ["/healthz", "/readyz"];

/// The router behind the check, if there is a token to be checked.
pub(super) fn require(router: Router, hash: Option<TokenHash>) -> Router {
    match hash {
        Some(hash) => router.layer(from_fn_with_state(hash, check)),
        None => router,
    }
}

async fn check(State(hash): State<TokenHash>, request: Request, next: Next) -> Response {
    let is_allowed = FOR_EVERYBODY.contains(&request.uri().path()) || shows_token(request.headers(), &hash);
    if is_allowed { next.run(request).await } else { refuse() }
}

fn shows_token(headers: &HeaderMap, hash: &TokenHash) -> bool {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some((scheme, token)) = value.split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && hash.is_of(token.trim_ascii())
}

fn refuse() -> Response {
    let body = json!({ "error": "not executed: show the admin token, as in Authorization: Bearer TOKEN" });
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], Json(body)).into_response()
}
