//! The nodes of the cluster: listed, added and removed.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use quorate_node::AdminReply;
use serde::Deserialize;
use serde_json::json;

use super::{Admin, check_no_query, refuse, respond};

/// What is to be said of a new node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewNode {
    name: String,
    peer: String,
    client: String,
    admin: String,
}

pub(super) async fn list_nodes(State(admin): State<Admin>) -> Response {
    respond(admin.ask(&["NODE", "LIST"]).await)
}

pub(super) async fn add_node(State(admin): State<Admin>, node: Result<Query<NewNode>, QueryRejection>) -> Response {
    let NewNode { name, peer, client, admin: http } = match node {
        Ok(Query(node)) => node,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why.body_text()),
    };
    let words = ["NODE", "ADD", &name, "PEER", &peer, "CLIENT", &client, "ADMIN", &http];
    match admin.ask(&words).await {
        Ok(AdminReply::Int(number)) => Json(json!({ "ok": true, "number": number })).into_response(),
        other => respond(other),
    }
}

pub(super) async fn remove_node(State(admin): State<Admin>, Path(name): Path<String>, uri: Uri) -> Response {
    if let Err(why) = check_no_query(&uri) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    match admin.ask(&["NODE", "REMOVE", &name]).await {
        Ok(AdminReply::Error(text)) if text.starts_with("ERR no node is called ") => {
            refuse(StatusCode::NOT_FOUND, text)
        }
        reply => respond(reply),
    }
}
