//! Runs cases against a sandbox and writes down what happened.

use super::case::{Case, Kind};
use hub::core::code::{check_size, prepare};
use hub::model::json::cut;
use hub::model::time::LogicalMs;
use hub::model::turn::{Delivery, GuestEnd, GuestLimit, LookupKind, Program, Turn, Yielded};
use hub::ports::sandbox::{Guest, Sandbox, SandboxError};
use std::fmt::Write as _;

/// The run's clock at its start: the first moment of 2025.
const STARTED_MS: u64 = 1_735_689_600_000;
/// Bytes of code.
const CODE_BYTES_MAX: u64 = 64 * 1024;
/// Lines of one kind that are written out.
const LINES_SHOWN: usize = 6;
/// Bytes of a line that is written out; of a longer one only the beginning is.
const LINE_BYTES_MAX: usize = 1200;

/// Runs every case twice, one that is killed once, and after each a harmless program in the same sandbox;
/// returns what came out otherwise than expected, in the form of the case files.
pub async fn mismatches<S: Sandbox>(sandbox: &S, kind: Kind, cases: &[Case]) -> Vec<String> {
    let mut found = Vec::new();
    let harmless = harmless();
    for case in cases.iter().filter(|case| case.only.is_none_or(|only| only == kind)) {
        for attempt in ["at first", "the second time"] {
            let got = transcript(sandbox, case).await;
            if got != case.expected {
                found.push(format!("=== {} ({attempt})\n{}\n---\n{got}\n", case.name, case.code));
                break;
            }
            // What is killed repeats nothing but the wait for it.
            if got.lines().any(|line| line.starts_with("killed ")) {
                break;
            }
        }
        let got = transcript(sandbox, &harmless).await;
        if got != harmless.expected {
            found.push(format!("=== the guest after `{}` was harmed\n---\n{got}\n", case.name));
        }
    }
    found
}

/// A program that uses a bit of everything.
fn harmless() -> Case {
    let text = "=== unharmed\nconst { n } = await mail.read({ id: 1 });\nreturn [n, 1 + 1, new Date().toISOString()];\n---\ncall c1 mail.read {\"id\":1}\n> c1 {\"n\":7}\nreturn [7,2,\"2025-01-01T00:00:00.000Z\"]\n";
    super::case::read(text)
        .ok()
        .and_then(|cases| cases.into_iter().next())
        .expect("the text above reads")
}

/// What the guest of a case is opened with.
///
/// # Errors
/// The hub itself refuses the code.
pub fn program(case: &Case) -> Result<Program, hub::model::error::Failure> {
    let body = if case.raw {
        format!("\n{}", case.code)
    } else {
        check_size(&case.code, CODE_BYTES_MAX)?;
        prepare(&case.code)?.body
    };
    Ok(program_of(case, body))
}

fn program_of(case: &Case, body: String) -> Program {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let mut sources = vec![
        ("mail".to_owned(), names(&["read", "send", "searchAll", "then_", "list_2"])),
        ("notes".to_owned(), names(&["add", "größe"])),
    ];
    if !case.tools.is_empty() {
        sources.push(("odd".to_owned(), case.tools.clone()));
    }
    Program {
        body,
        seed: [case.seed; 32],
        started: LogicalMs(STARTED_MS),
        sources,
        memory_bytes: case.memory_mb << 20,
        value_bytes_max: case.value_bytes,
    }
}

/// Runs one case: everything the guest asked for, each delivery after `>`.
pub async fn transcript<S: Sandbox>(sandbox: &S, case: &Case) -> String {
    let mut out = String::new();
    // The code is prepared by the sandbox that runs it, as the hub has it done.
    let body = if case.raw {
        format!("\n{}", case.code)
    } else {
        let prepared = match check_size(&case.code, CODE_BYTES_MAX) {
            Ok(()) => sandbox.prepare(&case.code).await,
            Err(failure) => Ok(Err(failure)),
        };
        match prepared {
            Ok(Ok(prepared)) => prepared.body,
            Ok(Err(failure)) => return format!("refused {failure}"),
            Err(error) => return lost(&error),
        }
    };
    let program = program_of(case, body);
    let mut guest = match sandbox.open(program).await {
        Ok(guest) => guest,
        Err(error) => return lost(&error),
    };
    let mut at = STARTED_MS;
    let start = (0, String::new(), Delivery::Start);
    for (passed_ms, line, delivery) in std::iter::once(&start).chain(&case.deliveries) {
        at += passed_ms;
        if !line.is_empty() {
            let _ = writeln!(out, "> {line}");
        }
        let turn = Turn {
            delivery: delivery.clone(),
            at: LogicalMs(at),
            budget_us: case.budget_ms * 1000,
        };
        match guest.step(turn).await {
            Ok(yielded) => print(&yielded, &mut out),
            Err(error) => {
                out.push_str(&lost(&error));
                break;
            }
        }
    }
    out.trim_end().to_owned()
}

fn print(yielded: &Yielded, out: &mut String) {
    let Yielded { calls, timers, cleared, lookups, logs, logs_dropped, end, cost_us: _ } = yielded;
    lines(out, logs.iter().map(|text| format!("log {text}")));
    lines(out, (*logs_dropped > 0).then(|| format!("dropped {logs_dropped}")).into_iter());
    lines(
        out,
        calls.iter().map(|call| {
            let connection =
                call.connection.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
            format!(
                "call {} {}.{} {}{connection}",
                call.seq, call.namespace, call.tool, call.arguments
            )
        }),
    );
    lines(out, timers.iter().map(|timer| format!("timer t{} {}", timer.id, timer.delay_ms)));
    lines(out, cleared.iter().map(|id| format!("clear t{id}")));
    lines(
        out,
        lookups.iter().map(|lookup| {
            let kind = match lookup.kind {
                LookupKind::Search => "search",
                LookupKind::Describe => "describe",
            };
            format!("{kind} l{} {}", lookup.id, lookup.arguments)
        }),
    );
    lines(out, end.iter().map(ending));
}

fn ending(end: &GuestEnd) -> String {
    match end {
        GuestEnd::Returned(None) => "return nothing".to_owned(),
        GuestEnd::Returned(Some(text)) => format!("return {text}"),
        GuestEnd::Threw { message, hint: None } => format!("throw {message}"),
        GuestEnd::Threw { message, hint: Some(hint) } => format!("throw {message}\nhint {hint}"),
        GuestEnd::NotJson(why) => format!("not json: {why}"),
        GuestEnd::Syntax(why) => format!("syntax: {why}"),
        GuestEnd::Limit(limit) => format!("limit {}", name(*limit)),
    }
}

/// Writes the first few of what is alike, each with the rest of its lines set in, control characters
/// spelled out and its end cut.
fn lines(out: &mut String, texts: impl Iterator<Item = String>) {
    let mut more = 0;
    for (at, text) in texts.enumerate() {
        if at >= LINES_SHOWN {
            more += 1;
            continue;
        }
        let shown = if text.len() > LINE_BYTES_MAX {
            format!("{}… of {} bytes", cut(&text, 60), text.len())
        } else {
            text
        };
        for c in shown.chars() {
            match c {
                '\n' => out.push_str("\n  "),
                c if c.is_control() => out.extend(c.escape_unicode()),
                c => out.push(c),
            }
        }
        out.push('\n');
    }
    if more > 0 {
        let _ = writeln!(out, "and {more} more");
    }
}

fn lost(error: &SandboxError) -> String {
    match error {
        SandboxError::Unavailable(why) => format!("unavailable: {why}"),
        SandboxError::Crashed(_) => "crashed".to_owned(),
        SandboxError::Killed(limit) => format!("killed {}", name(*limit)),
    }
}

fn name(limit: GuestLimit) -> &'static str {
    match limit {
        GuestLimit::Compute => "compute",
        GuestLimit::Memory => "memory",
        GuestLimit::Requests => "requests",
        GuestLimit::Calls => "calls",
    }
}
