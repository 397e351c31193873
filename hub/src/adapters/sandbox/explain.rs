//! What a person reads when guest code fails: places in the code, and a hint.

use super::guest::CODE_NAME;
use crate::model::nearest::nearest;

/// The line of guest code nearest to where a stack was taken, counted from the code's own first line.
pub(super) fn first_line(stack: &str) -> Option<u32> {
    stack.lines().take(64).find_map(|line| {
        let (before, place) = line.split_once(CODE_NAME)?;
        let digits = place.trim_start_matches(':').split(|c: char| !c.is_ascii_digit()).next()?;
        let number: u32 = digits.parse().ok().filter(|_| !before.contains("<eval>"))?;
        Some(number.saturating_sub(1).max(1))
    })
}

/// The lines of a stack that lie in the guest's own code, counted from its own first line.
pub(super) fn places(stack: &str) -> String {
    let mut lines = Vec::new();
    for line in stack.lines().take(64) {
        let Some((before, place)) = line.split_once(CODE_NAME) else { continue };
        let mut numbers = place.trim_start_matches(':').split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next().and_then(|digits| digits.parse::<u32>().ok());
        let (Some(line), column) = (next(), next()) else { continue };
        if before.contains("<eval>") {
            // The hub's own closing line, which calls the program.
            continue;
        }
        let before = before.trim();
        let function = before.strip_prefix("at").unwrap_or(before).trim_end_matches('(').trim();
        let function = if function.is_empty() || function == "<anonymous>" {
            String::new()
        } else {
            format!("{function} ")
        };
        let column = column.map(|column| format!(", column {column}")).unwrap_or_default();
        lines.push(format!("    at {function}line {}{column}", line.saturating_sub(1).max(1)));
    }
    lines.truncate(8);
    lines.join("\n")
}

/// A better hint for names that are not there: what is not available, or which source was meant.
pub(super) fn missing_global<'a>(
    message: &str,
    namespaces: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let what = message.strip_prefix("ReferenceError: ")?;
    if what.starts_with("could not load module ") {
        return Some("There are no modules here; the user's sources are globals.".to_owned());
    }
    let (name, _) = what.split_once(" is not defined")?;
    let advice = match name {
        "fetch" | "XMLHttpRequest" | "WebSocket" => {
            "There is no network here; call the user's sources instead."
        }
        "require" | "module" | "exports" | "process" | "Buffer" => {
            "This is not Node.js: there are no modules, files or environment. Uint8Array, TextEncoder, atob and btoa work."
        }
        "URL" | "URLSearchParams" => "Build the string by hand with encodeURIComponent.",
        "setInterval" | "setImmediate" => "Use setTimeout, up to 30 seconds.",
        "eval" | "Function" => "Code cannot be made from text here; write it out.",
        _ => "",
    };
    if !advice.is_empty() {
        return Some(advice.to_owned());
    }
    let namespaces: Vec<&str> = namespaces.collect();
    let close = nearest(name, namespaces.iter().copied(), 3);
    let listed = if close.is_empty() { namespaces.into_iter().take(12).collect() } else { close };
    if listed.is_empty() {
        return None;
    }
    Some(format!("The sources here are globals: {}. Search finds others.", listed.join(", ")))
}
