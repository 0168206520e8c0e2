//! Where volumes lie: told, and changed. See docs/decisions/0034.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use quorate_node::AdminReply;
use serde::Deserialize;

use super::{Admin, NoReply, check_no_query, refuse, respond};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    from: String,
    to: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    /// Or `never`.
    seconds: String,
}

pub(super) async fn list_volumes(State(admin): State<Admin>, Path(number): Path<String>) -> Response {
    respond(admin.ask(&["VOLUME", "LIST", &number]).await)
}

pub(super) async fn move_volume(
    State(admin): State<Admin>,
    Path((number, index)): Path<(String, String)>,
    nodes: Result<Query<Move>, QueryRejection>,
) -> Response {
    match nodes {
        Ok(Query(Move { from, to })) => {
            respond(admin.ask(&["VOLUME", "MOVE", &number, &index, "FROM", &from, "TO", &to]).await)
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, why.body_text()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveRoot {
    /// Whoever comes takes no member's place where none is named.
    from: Option<String>,
    to: String,
}

pub(super) async fn show_root(State(admin): State<Admin>) -> Response {
    respond(admin.ask(&["ROOT", "SHOW"]).await)
}

pub(super) async fn move_root(State(admin): State<Admin>, nodes: Result<Query<MoveRoot>, QueryRejection>) -> Response {
    match nodes {
        Ok(Query(MoveRoot { from: Some(from), to })) => {
            respond(admin.ask(&["ROOT", "MOVE", "FROM", &from, "TO", &to]).await)
        }
        Ok(Query(MoveRoot { from: None, to })) => respond(admin.ask(&["ROOT", "WIDEN", "TO", &to]).await),
        Err(why) => refuse(StatusCode::BAD_REQUEST, why.body_text()),
    }
}

pub(super) async fn show_node(State(admin): State<Admin>, Path(name): Path<String>) -> Response {
    respond_of_node(admin.ask(&["NODE", "SHOW", &name]).await)
}

pub(super) async fn drain_node(State(admin): State<Admin>, Path(name): Path<String>, uri: Uri) -> Response {
    if let Err(why) = check_no_query(&uri) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    respond_of_node(admin.ask(&["NODE", "DRAIN", &name]).await)
}

pub(super) async fn undrain_node(State(admin): State<Admin>, Path(name): Path<String>, uri: Uri) -> Response {
    if let Err(why) = check_no_query(&uri) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    respond_of_node(admin.ask(&["NODE", "UNDRAIN", &name]).await)
}

pub(super) async fn show_replace_after(State(admin): State<Admin>) -> Response {
    match admin.ask(&["NODE", "REPLACE", "AFTER"]).await {
        Ok(after @ AdminReply::Text(_)) => respond(Ok(AdminReply::Map(vec![("replace_after".into(), after)]))),
        reply => respond(reply),
    }
}

pub(super) async fn set_replace_after(
    State(admin): State<Admin>,
    after: Result<Query<After>, QueryRejection>,
) -> Response {
    match after {
        Ok(Query(After { seconds })) => respond(admin.ask(&["NODE", "REPLACE", "AFTER", &seconds]).await),
        Err(why) => refuse(StatusCode::BAD_REQUEST, why.body_text()),
    }
}

pub(super) async fn level(State(admin): State<Admin>, uri: Uri) -> Response {
    if let Err(why) = check_no_query(&uri) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    respond(admin.ask(&["NODE", "LEVEL"]).await)
}

pub(super) async fn stop_levelling(State(admin): State<Admin>, uri: Uri) -> Response {
    if let Err(why) = check_no_query(&uri) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    respond(admin.ask(&["NODE", "LEVEL", "STOP"]).await)
}

fn respond_of_node(reply: Result<AdminReply, NoReply>) -> Response {
    match reply {
        Ok(AdminReply::Error(text)) if text.starts_with("ERR no node is called ") => {
            refuse(StatusCode::NOT_FOUND, text)
        }
        reply => respond(reply),
    }
}
