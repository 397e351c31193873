//! `auth` and `connections`: credentials entered, listed and removed. Values are read at a masked prompt or
//! from standard input, never from an argument, and never printed.

use super::args::{AuthArguments, ConnectionsArguments};
use super::output::{Done, Failed, Output};
use super::wire::{UnattendedHub, unattended};
use super::{review, who};
use crate::adapters::person::TerminalPerson;
use crate::driver::{HubError, ShownConnection};
use crate::model::connection::{Place, SECRET_BYTES_MAX};
use crate::model::http::AddressClass;
use crate::model::names::ConnectionName;
use crate::model::source::{SourceRecord, Transport};
use crate::model::time::WallMs;
use crate::ports::Ports as _;
use crate::ports::clock::Clock as _;
use crate::ports::secrets::SecretText;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Read as _;
use zeroize::Zeroizing;

pub(super) async fn auth(
    output: &Output,
    arguments: AuthArguments,
    no_input: bool,
) -> Result<Done, Failed> {
    who::no_agent("hub auth")?;
    let hub = unattended()?;
    let record = hub.source(&arguments.namespace).await?;
    if !record.is_consented() {
        return Err(HubError::NotConsented(record.namespace.to_string()).into());
    }
    let name = connection_name(&arguments.connection)?;
    let known = hub.connections(&record).await?;
    let before = known.iter().find(|connection| connection.name == name);
    let place = place(&arguments, &record, before)?;
    let can_ask = who::can_ask(no_input);
    if !arguments.stdin && !can_ask {
        return Err(Failed::needs_person(
            "a credential is typed by a person at a terminal",
            "run it in your own terminal, or pipe the credential into it with `--stdin`",
        ));
    }
    let kept_in = hub.ports().secrets().whereabouts();
    output.say(&where_to(&record, &name, &place, &kept_in));
    let value = if arguments.stdin { from_stdin()? } else { typed(&place)? };
    let entered = hub.enter_credential(&record, &name, place.clone(), value).await?;
    for replaced in &entered.replaced {
        output
            .say(&format!("It takes the place of the one that was sent {}.", replaced.sentence()));
    }
    if arguments.default && !entered.default {
        hub.set_default_connection(&record, &name).await?;
    }
    let default = entered.default || arguments.default;
    let mut text = format!("Kept as connection {name} of {}.", record.namespace);
    if !default {
        let _ = write!(text, " Code picks it with {{ connection: \"{name}\" }}.");
    }
    let mut done = Done::Ok;
    let mut tools = None;
    // A connection that nobody uses by default is tried when it is first used.
    if default {
        output.say("Trying it …");
        match hub.refresh(&record).await {
            Ok(refreshed) => {
                let _ = write!(text, " It works: {} tools.", refreshed.tools);
                tools = Some(refreshed.tools);
                review::review_source(output, &hub, &record, false, can_ask).await?;
                let left = hub.to_review(Some(&record.id)).await?.len();
                if left > 0 {
                    let namespace = &record.namespace;
                    let _ = write!(
                        text,
                        "\n{left} tools ask until you review them: capabilities hub review {namespace}"
                    );
                }
            }
            Err(error) => {
                output.say(&format!("! {error}"));
                text.push_str(" It could not be used; enter another with the same command.");
                done = Done::Failed;
            }
        }
    }
    hub.shut_down().await;
    output.result(&text, || {
        json!({
            "namespace": record.namespace, "connection": name, "place": place, "default": default,
            "works": default.then_some(done == Done::Ok), "tools": tools,
        })
    });
    Ok(done)
}

pub(super) async fn connections(
    output: &Output,
    arguments: ConnectionsArguments,
) -> Result<Done, Failed> {
    let hub = unattended()?;
    let record = hub.source(&arguments.namespace).await?;
    let namespace = record.namespace.clone();
    if let Some(name) = &arguments.remove {
        who::no_agent("hub connections --remove")?;
        let name = connection_name(name)?;
        hub.remove_connection(&record, &name).await?;
        let text = format!("Removed connection {name} of {namespace}, with its secrets.");
        output.result(&text, || json!({ "namespace": namespace, "removed": name }));
        return Ok(Done::Ok);
    }
    if let Some(name) = &arguments.default {
        who::no_agent("hub connections --default")?;
        let name = connection_name(name)?;
        hub.set_default_connection(&record, &name).await?;
        let text = format!("Calls of {namespace} that name no connection use {name}.");
        output.result(&text, || json!({ "namespace": namespace, "default": name }));
        return Ok(Done::Ok);
    }
    list(output, &hub, &record).await
}

async fn list(output: &Output, hub: &UnattendedHub, record: &SourceRecord) -> Result<Done, Failed> {
    let connections = hub.connections(record).await?;
    let now = hub.ports().clock().wall();
    let mut text = String::new();
    if connections.is_empty() {
        let name = &record.namespace;
        let _ = write!(
            text,
            "{name} has no connections. Enter a credential:\n  capabilities hub auth {name}"
        );
    }
    for connection in &connections {
        let star = if connection.default { "*" } else { "" };
        let _ = writeln!(text, "{}{star}", connection.name);
        for place in &connection.connection.places {
            let _ = writeln!(text, "  sent {}", place.sentence());
        }
        let entered = ago(connection.connection.entered, now);
        let used = connection
            .last_used
            .map_or_else(|| "never used".to_owned(), |at| format!("used {}", ago(at, now)));
        let _ = writeln!(text, "  entered {entered}, {used}");
    }
    if connections.iter().any(|connection| connection.default) && connections.len() > 1 {
        text.push_str("* for calls that name none\n");
    }
    output.result(&text, || {
        let connections: Vec<_> = connections
            .iter()
            .map(|one| {
                json!({
                    "name": one.name, "default": one.default, "places": one.connection.places,
                    "entered": one.connection.entered, "lastUsed": one.last_used,
                })
            })
            .collect();
        json!({ "namespace": record.namespace, "connections": connections })
    });
    Ok(Done::Ok)
}

fn connection_name(text: &str) -> Result<ConnectionName, Failed> {
    text.parse().map_err(|error: crate::model::names::NameError| {
        Failed::usage(error.to_string(), "choose a name such as `work`")
    })
}

/// Where the credential goes: as the person says, or as is usual for such a source.
fn place(
    arguments: &AuthArguments,
    record: &SourceRecord,
    before: Option<&ShownConnection>,
) -> Result<Place, Failed> {
    let named =
        |kind: &str, name: &Option<String>| name.as_ref().map(|name| format!("{kind}:{name}"));
    let given = (arguments.bearer.then(|| "bearer".to_owned()))
        .or(arguments.basic.then(|| "basic".to_owned()))
        .or(named("header", &arguments.header))
        .or(named("query", &arguments.query))
        .or(named("env", &arguments.env));
    let known = before.map(|connection| &connection.connection.places).filter(|all| all.len() == 1);
    let known = known.and_then(|places| places.first().cloned());
    let place = match (given, &record.transport) {
        (Some(text), _) => {
            text.parse().map_err(|error: crate::model::connection::PlaceError| {
                Failed::usage(
                    format!("the credential cannot go there: {error}"),
                    "correct the name",
                )
            })?
        }
        (None, _) if known.is_some() => known.unwrap_or(Place::Bearer),
        (None, Transport::Http(_)) => Place::Bearer,
        (None, Transport::Stdio(command)) => match command.pass.as_slice() {
            [name] => Place::Env(name.clone()),
            _ => {
                return Err(Failed::usage(
                    format!(
                        "`{}` is a local server; which of its variables is it?",
                        record.namespace
                    ),
                    "name it with `--env NAME`",
                ));
            }
        },
    };
    if place.fits(&record.transport) {
        return Ok(place);
    }
    Err(match &record.transport {
        Transport::Stdio(_) => Failed::usage(
            format!("`{}` is a local server: it gets credentials as variables", record.namespace),
            "use `--env NAME`",
        ),
        Transport::Http(_) => Failed::usage(
            format!("`{}` is a server over HTTP: it has no environment", record.namespace),
            "use `--bearer`, `--header`, `--query` or `--basic`",
        ),
    })
}

/// What a person sees before they type: where it will go, and nowhere else.
fn where_to(record: &SourceRecord, name: &ConnectionName, place: &Place, kept_in: &str) -> String {
    let mut text = format!("Credential of {}, connection {name}\n", record.namespace);
    match &record.transport {
        Transport::Stdio(_) => {
            let _ =
                writeln!(text, "  goes to  exactly this command: {}", record.transport.summary());
        }
        Transport::Http(endpoint) => {
            let _ = writeln!(text, "  goes to  {} and nowhere else", endpoint.url.origin());
            if !endpoint.url.is_encrypted() && endpoint.reaches != AddressClass::Loopback {
                text.push_str(
                    "  !        not encrypted: whoever carries the traffic can read it\n",
                );
            }
        }
    }
    let _ = writeln!(text, "  sent     {}", place.sentence());
    let _ = writeln!(text, "  kept in  {kept_in}");
    text
}

fn typed(place: &Place) -> Result<SecretText, Failed> {
    let prompt = match place {
        Place::Basic => "user:password (hidden): ",
        Place::Bearer | Place::Header(_) | Place::Query(_) | Place::Env(_) => "Value (hidden): ",
    };
    TerminalPerson::secret(prompt)
        .filter(|value| !value.expose().is_empty())
        .ok_or_else(|| Failed::refused("nothing was entered", "nothing was kept"))
}

/// All of standard input, without the line break that ends it.
fn from_stdin() -> Result<SecretText, Failed> {
    let mut text = Zeroizing::new(String::with_capacity(SECRET_BYTES_MAX + 3));
    let read = std::io::stdin().take(SECRET_BYTES_MAX as u64 + 3).read_to_string(&mut text);
    read.map_err(|error| {
        Failed::usage(format!("standard input cannot be read: {error}"), "pipe the credential in")
    })?;
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(Failed::usage("standard input is empty", "pipe the credential in"));
    }
    Ok(SecretText::new(value.to_owned()))
}

/// How long ago that was, roughly.
fn ago(at: WallMs, now: WallMs) -> String {
    let minutes = now.0.saturating_sub(at.0) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..=119 => format!("{minutes} min ago"),
        120..=2879 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_roughly() {
        let check = |minutes: u64, expected: &str| {
            assert_eq!(ago(WallMs(0), WallMs(minutes * 60_000 + 59_000)), expected);
        };
        check(0, "just now");
        check(119, "119 min ago");
        check(120, "2 h ago");
        check(2880, "2 days ago");
        assert_eq!(ago(WallMs(9_000_000), WallMs(0)), "just now");
    }
}
