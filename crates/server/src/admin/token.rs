//! Who may administer: those who show the token, as `Authorization: Bearer TOKEN`.
//!
//! Whether the node is well may be asked by anybody: what watches a node rarely has secrets, and learns one bit.

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;

use crate::auth::secrets::TokenHash;

/// The hash of the token, if there is one to be shown. It can be changed while the port is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected(Arc<RwLock<Option<TokenHash>>>);

const FOR_EVERYBODY: [&str; 2] = ["/healthz", "/readyz"];

impl Expected {
    pub(crate) fn new(hash: Option<TokenHash>) -> Expected {
        Expected(Arc::new(RwLock::new(hash)))
    }

    pub(crate) fn set(&self, hash: Option<TokenHash>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = hash;
    }

    fn is_met_by(&self, headers: &HeaderMap) -> bool {
        let hash = *self.0.read().unwrap_or_else(PoisonError::into_inner);
        hash.is_none_or(|hash| shows_token(headers, &hash))
    }
}

/// The router behind the check.
pub(super) fn require(router: Router, expected: Expected) -> Router {
    router.layer(from_fn_with_state(expected, check))
}

async fn check(State(expected): State<Expected>, request: Request, next: Next) -> Response {
    let is_allowed = FOR_EVERYBODY.contains(&request.uri().path()) || expected.is_met_by(request.headers());
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
