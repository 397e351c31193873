//! Where calls leave the hub: a source is made ready and compared, a call is sent, its answer scrubbed.
#![expect(clippy::disallowed_methods, reason = "the one place that sends calls")]

use super::connections::{route, secret_code};
use super::hub::Hub;
use crate::core::engine::{Outbound, Reply};
use crate::core::outcome::outcome;
use crate::model::call::{Block, Outcome, ToolFailure, UpstreamResult};
use crate::model::digest::Digest;
use crate::model::error::ErrorCode;
use crate::model::facts::Facts;
use crate::model::ids::SourceId;
use crate::model::json::parse_from_server;
use crate::model::limits::LISTING_AGE_MS_MAX;
use crate::model::names::ConnectionName;
use crate::model::source::SourceRecord;
use crate::model::time::{Tick, WallMs};
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::secrets::Secrets as _;
use crate::ports::sources::{CallError, HttpRefusal, Route, Sources as _, UpstreamCall};
use crate::ports::store::Store as _;

/// Makes a source ready and takes in what it offers, so that the ruling after this sees it.
pub(super) async fn dial<P: Ports>(
    hub: &Hub<P>,
    facts: &Facts,
    (source, connection): (&SourceId, Option<&ConnectionName>),
    fresh: bool,
    deadline: Tick,
) -> Result<u64, ToolFailure> {
    let record = record(facts, source)?;
    let route = route(facts, record, connection).ok_or_else(|| removed(connection))?;
    let wall = hub.ports().clock().wall();
    let mut listed_after = fresh.then(|| WallMs(wall.0.saturating_sub(LISTING_AGE_MS_MAX)));
    let mut newest = false;
    loop {
        let listing = hub
            .ports()
            .sources()
            .dial(&route, listed_after, deadline)
            .await
            .map_err(|error| unavailable(hub, record, &error))?;
        let taken = hub.take_listing(source, &listing, newest).await.map_err(|error| {
            let message =
                format!("what `{}` offers could not be stored: {error}", record.namespace);
            ToolFailure::new(ErrorCode::SourceUnavailable, message).retryable()
        })?;
        match taken {
            None => return Ok(listing.number),
            // Another process has seen something newer: what this one sees now counts.
            Some(since) => (listed_after, newest) = (Some(since), true),
        }
    }
}

/// Sends one call, and turns its answer into what the journal and the guest get.
pub(super) async fn call<P: Ports>(
    hub: &Hub<P>,
    facts: &Facts,
    call: Outbound,
    deadline: Tick,
) -> (Reply, u64) {
    let clock = hub.ports().clock();
    let began = clock.tick();
    let reply = send(hub, facts, call, deadline).await;
    let ms = u64::try_from(clock.tick().since(began).as_millis()).unwrap_or(u64::MAX);
    (reply, ms)
}

async fn send<P: Ports>(hub: &Hub<P>, facts: &Facts, call: Outbound, deadline: Tick) -> Reply {
    let source = match record(facts, &call.tool.source) {
        Ok(source) => source,
        Err(failure) => return Reply::Outcome(failure.into()),
    };
    let Some(route) = route(facts, source, call.connection.as_ref()) else {
        return Reply::Outcome(removed(call.connection.as_ref()).into());
    };
    let tool = facts.sources.get(&source.id).and_then(|source| source.tools.get(&call.tool.raw));
    let declared = tool.is_some_and(|tool| tool.contract.output_schema().is_some());
    let outgoing = UpstreamCall {
        raw: call.tool.raw.clone(),
        arguments: call.arguments,
        listing: call.listing,
        contract: call.contract,
        timeout_ms: call.timeout_ms,
        deadline,
        result_bytes_max: call.result_bytes_max,
        repeatable: !call.write,
    };
    let called = hub.ports().sources().call(&route, &outgoing).await;
    if !matches!(called, Err(CallError::NotSent(_) | CallError::Credential(_))) {
        note_used(hub, &route).await;
    }
    match called {
        Ok(result) if shows_surface(hub, &result) => Reply::Outcome(withheld().into()),
        Ok(result) => {
            let result = scrubbed(hub, result);
            let outcome = match keep_media(hub, &result).await {
                Ok(()) => {
                    let outcome = parsed_scrubbed(hub, outcome(result, declared));
                    bounded(outcome, call.result_bytes_max)
                }
                Err(why) => {
                    let message =
                        format!("the call was made, and its media could not be stored: {why}");
                    ToolFailure::new(ErrorCode::StoreFailed, message).into()
                }
            };
            Reply::Outcome(outcome)
        }
        Err(error @ (CallError::NotSent(_) | CallError::Credential(_))) => {
            Reply::Outcome(unavailable(hub, source, &error).into())
        }
        Err(CallError::Status(refusal)) if call.write && refusal.may_have_happened() => {
            Reply::Lost(hub.scrub(&refusal.to_string()))
        }
        Err(CallError::Status(refusal)) => Reply::Outcome(refused(hub, source, &refusal).into()),
        Err(CallError::Refused { message, .. })
            if hub.ports().secrets().carries_surface(&message) =>
        {
            Reply::Outcome(withheld().into())
        }
        Err(CallError::Refused { code, message }) => {
            let mut failure = ToolFailure::new(ErrorCode::UpstreamError, hub.scrub(&message));
            failure.status = Some(code);
            Reply::Outcome(failure.into())
        }
        Err(error @ (CallError::TooLarge { .. } | CallError::TooDeep)) => Reply::Outcome(
            ToolFailure::new(ErrorCode::ResultTooLarge, format!("the call was made; {error}"))
                .into(),
        ),
        Err(CallError::Lost(why)) => Reply::Lost(hub.scrub(&why)),
    }
}

fn record<'f>(facts: &'f Facts, source: &SourceId) -> Result<&'f SourceRecord, ToolFailure> {
    let found = facts.sources.get(source).filter(|source| source.record.is_consented());
    found.map(|source| &source.record).ok_or_else(|| {
        ToolFailure::new(ErrorCode::SourceRemoved, "the source was removed from the hub")
    })
}

fn unavailable<P: Ports>(hub: &Hub<P>, source: &SourceRecord, error: &CallError) -> ToolFailure {
    if let CallError::Status(refusal) = error {
        return refused(hub, source, refusal);
    }
    if let CallError::Credential(error) = error {
        let message = hub.scrub(&format!("`{}`: {error}", source.namespace));
        return ToolFailure::new(secret_code(error), message);
    }
    let message =
        format!("`{}` is not available: {}", source.namespace, hub.scrub(&error.to_string()));
    ToolFailure::new(ErrorCode::SourceUnavailable, message).retryable()
}

/// What an error status means for whoever made the call: which code, and whether to try again.
fn refused<P: Ports>(hub: &Hub<P>, source: &SourceRecord, refusal: &HttpRefusal) -> ToolFailure {
    let (code, retryable) = match refusal.status {
        401 => (ErrorCode::UpstreamUnauthorized, false),
        403 => (ErrorCode::UpstreamForbidden, false),
        429 => (ErrorCode::UpstreamRateLimited, true),
        404 => (ErrorCode::SourceUnavailable, false),
        503 => (ErrorCode::SourceUnavailable, true),
        status => (ErrorCode::UpstreamError, status >= 500 || status == 408),
    };
    let message = hub.scrub(&format!("`{}`: {refusal}", source.namespace));
    let mut failure = ToolFailure::new(code, message);
    failure.status = Some(i64::from(refusal.status));
    failure.retryable = retryable;
    failure.headers =
        refusal.headers.iter().map(|(name, value)| (name.clone(), hub.scrub(value))).collect();
    failure
}

/// Was this answer read off a page on which the user decides?
fn shows_surface<P: Ports>(hub: &Hub<P>, result: &UpstreamResult) -> bool {
    let secrets = hub.ports().secrets();
    let in_blocks = result.blocks.iter().any(|block| match block {
        Block::Text(text) => secrets.carries_surface(text),
        Block::Media { data, .. } => secrets.carries_surface(data),
    });
    let structured = result.structured.as_ref();
    in_blocks || structured.is_some_and(|value| secrets.carries_surface(&value.to_string()))
}

fn withheld() -> ToolFailure {
    ToolFailure::new(
        ErrorCode::ApprovalSurface,
        "the call was made, and its result shows the page on which the user decides",
    )
}

/// The answer with every secret taken out of parsed values, before anything is cut or stored.
fn scrubbed<P: Ports>(hub: &Hub<P>, mut result: UpstreamResult) -> UpstreamResult {
    let secrets = hub.ports().secrets();
    for block in &mut result.blocks {
        match block {
            Block::Text(text) => *text = secrets.scrub(text),
            Block::Media { data, mime_type, kind } => {
                *data = secrets.scrub(data);
                *kind = secrets.scrub(kind);
                *mime_type = mime_type.take().map(|text| secrets.scrub(&text));
            }
        }
    }
    if let Some(value) = &mut result.structured {
        secrets.scrub_value(value);
    }
    result
}

/// Text that turned out to be JSON may have held a secret that only its parsed form shows.
fn parsed_scrubbed<P: Ports>(hub: &Hub<P>, outcome: Outcome) -> Outcome {
    let Outcome::ParsedText(text) = outcome else { return outcome };
    let secrets = hub.ports().secrets();
    match parse_from_server(text.as_bytes()) {
        Some(mut value) if secrets.carries_secret(&value.to_string()) => {
            secrets.scrub_value(&mut value);
            Outcome::ParsedText(value.to_string())
        }
        Some(_) | None => Outcome::ParsedText(text),
    }
}

/// Notes that a connection was used; once in a while is enough.
async fn note_used<P: Ports>(hub: &Hub<P>, route: &Route) {
    let Some(connection) = &route.connection else { return };
    let wall = hub.ports().clock().wall();
    if hub.is_use_noted(&route.record.id, &connection.name, wall) {
        return;
    }
    hub.ports().store().note_used(&route.record.id, &connection.name, wall).await;
}

fn removed(connection: Option<&ConnectionName>) -> ToolFailure {
    let name = connection.map(ToString::to_string).unwrap_or_default();
    let message = format!("the connection `{name}` was removed from the hub");
    ToolFailure::new(ErrorCode::UnknownConnection, message)
}

/// Media never goes inline: it is kept under its digest, which is its handle.
async fn keep_media<P: Ports>(hub: &Hub<P>, result: &UpstreamResult) -> Result<(), String> {
    for block in &result.blocks {
        if let Block::Media { data, .. } = block {
            let digest = Digest::of(data.as_bytes());
            hub.ports().store().put_blob(digest, data).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn bounded(outcome: Outcome, bytes_max: u64) -> Outcome {
    let bytes = match &outcome {
        Outcome::Value(value) => value.to_string().len(),
        Outcome::ParsedText(text) => text.len(),
        Outcome::Failed(_) => 0,
    } as u64;
    if bytes > bytes_max {
        let error = CallError::TooLarge { bytes, bytes_max };
        return ToolFailure::new(ErrorCode::ResultTooLarge, format!("the call was made; {error}"))
            .into();
    }
    outcome
}
