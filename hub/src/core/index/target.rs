//! What `describe` names: an address, a namespace, or a type of an earlier declaration.

use super::query::{Effects, RequestError};
use crate::core::typegen::{NamespaceTools, Target, declare};
use crate::model::facts::{Facts, SourceFacts};
use crate::model::nearest::nearest;
use crate::model::policy::Effect;
use crate::model::visible::one_line;
use serde_json::Value;

/// Tokens of one description.
pub const DESCRIBE_TOKENS: usize = 2_500;
/// Targets of one request.
const TARGETS_MAX: usize = 10;
/// Characters a target may have.
const TARGET_CHARS_MAX: usize = 1_200;
/// Tokens kept for the lines on what could not be described.
const PROBLEM_TOKENS: usize = 400;

/// Reads the arguments of `describe`.
///
/// # Errors
/// Names the field and its range.
pub fn read_targets(arguments: &Value) -> Result<Vec<String>, RequestError> {
    let range = || RequestError(format!("`targets` must be a list of 1 to {TARGETS_MAX} strings"));
    let members = arguments.as_object().ok_or_else(range)?;
    if let Some(unknown) = members.keys().find(|key| *key != "targets") {
        let unknown: String = unknown.chars().take(40).flat_map(char::escape_debug).collect();
        return Err(RequestError(format!(
            "there is no field `{unknown}`; `describe` takes `targets`"
        )));
    }
    let targets = match members.get("targets") {
        Some(Value::Array(items)) => items.iter().map(Value::as_str).collect::<Option<Vec<_>>>(),
        // One target is as good as a list of one.
        Some(Value::String(one)) => Some(vec![one.as_str()]),
        Some(_) | None => None,
    };
    let targets = targets.ok_or_else(range)?;
    if !(1..=TARGETS_MAX).contains(&targets.len()) {
        return Err(RequestError(format!(
            "`targets` has {} items; it may have 1 to {TARGETS_MAX}",
            targets.len()
        )));
    }
    if targets
        .iter()
        .any(|target| target.trim().is_empty() || target.chars().count() > TARGET_CHARS_MAX)
    {
        return Err(RequestError(format!(
            "each of `targets` must have 1 to {TARGET_CHARS_MAX} characters"
        )));
    }
    Ok(targets.into_iter().map(|target| target.trim().to_owned()).collect())
}

/// Describes targets as TypeScript declarations within `tokens_max`. What does not exist is said in
/// comments, with the closest names.
///
/// # Errors
/// None of the targets exists.
pub fn describe(
    facts: &Facts,
    targets: &[String],
    tokens_max: usize,
) -> Result<String, RequestError> {
    let mut sources: Vec<&SourceFacts> = Vec::new();
    for target in targets {
        let namespace = target.split('.').next().unwrap_or("");
        if let Some(source) = facts.namespace(namespace)
            && !sources.iter().any(|known| known.record.id == source.record.id)
        {
            sources.push(source);
        }
    }
    let mut effects = Effects::default();
    let tools: Vec<NamespaceTools<'_>> =
        sources.iter().map(|source| namespace_tools(source, &mut effects)).collect();
    let mut wanted: Vec<Target<'_>> = Vec::new();
    let mut problems = Vec::new();
    for target in targets {
        match find(facts, &tools, target) {
            Ok(found) => wanted.push(found),
            Err(problem) => problems.push(problem),
        }
    }
    let room =
        if problems.is_empty() { tokens_max } else { tokens_max.saturating_sub(PROBLEM_TOKENS) };
    let declared = declare(&wanted, room);
    problems.extend(
        declared.unknown.iter().map(|name| format!("there is no type `{}`", one_line(name, 80))),
    );
    if wanted.len() == declared.unknown.len() {
        return Err(RequestError(problems.join("; ")));
    }
    let mut text = declared.text;
    let mut left = PROBLEM_TOKENS;
    for problem in problems {
        let line = format!("// {problem}\n");
        let cost = crate::model::tokens::estimate(&line);
        if cost > left {
            break;
        }
        left -= cost;
        text.push_str(&line);
    }
    text.truncate(text.trim_end().len());
    Ok(text)
}

fn namespace_tools<'a>(source: &'a SourceFacts, effects: &mut Effects) -> NamespaceTools<'a> {
    let mut tools = Vec::new();
    for tool in source.tools.values() {
        let remark = match effects.of(source, tool) {
            Effect::Deny => continue,
            Effect::Allow => String::new(),
            Effect::Ask => "[asks]".to_owned(),
        };
        // Where several raw names met in one identifier, the raw name tells them apart.
        let plain = crate::core::addresses::identifier(tool.raw.as_str());
        let remark = if plain == tool.name.as_str() {
            remark
        } else {
            format!("{remark} Upstream name: {}.", one_line(tool.raw.as_str(), 80))
                .trim()
                .to_owned()
        };
        tools.push((tool.name.as_str(), &tool.contract, remark));
    }
    tools.sort_by(|a, b| a.0.cmp(b.0));
    let connections = super::render::connections(source);
    let connections = connections.trim().trim_start_matches('(').trim_end_matches(')').to_owned();
    NamespaceTools { namespace: source.record.namespace.as_str(), connections, tools }
}

fn find<'a>(
    facts: &Facts,
    tools: &'a [NamespaceTools<'a>],
    target: &str,
) -> Result<Target<'a>, String> {
    let (namespace, rest) = match target.split_once('.') {
        Some((namespace, rest)) => (namespace, Some(rest)),
        None => (target, None),
    };
    let Some(known) = tools.iter().find(|known| known.namespace == namespace) else {
        return Err(no_namespace(facts, namespace).0);
    };
    let Some(name) = rest else { return Ok(Target::Namespace(known)) };
    // A model may write the call itself.
    let name = name.split('(').next().unwrap_or(name);
    if let Some(at) = known.tools.iter().position(|(tool, _, _)| *tool == name) {
        return Ok(Target::Tool(known, at));
    }
    if name.chars().next().is_some_and(|c| c.is_uppercase() || c == '_') {
        return Ok(Target::Interface(known, name.to_owned()));
    }
    let close = nearest(name, known.tools.iter().map(|(tool, _, _)| *tool), 3);
    let close: Vec<String> =
        close.into_iter().map(|tool| format!("`{namespace}.{tool}`")).collect();
    let shown = one_line(name, 80);
    Err(if close.is_empty() {
        format!(
            "there is no tool `{namespace}.{shown}`; search with namespace `{namespace}` lists them"
        )
    } else {
        format!("there is no tool `{namespace}.{shown}`; did you mean {}", close.join(", "))
    })
}

/// There is no such namespace; the closest ones, or all.
pub(super) fn no_namespace(facts: &Facts, name: &str) -> RequestError {
    let names: Vec<&str> =
        facts.visible().iter().map(|source| source.record.namespace.as_str()).collect();
    let close = nearest(name, names.iter().copied(), 3);
    let listed = if close.is_empty() { names.into_iter().take(12).collect() } else { close };
    let listed: Vec<String> = listed.into_iter().map(|name| format!("`{name}`")).collect();
    let known = if listed.is_empty() {
        "the hub has none yet".to_owned()
    } else {
        format!("there is {}", listed.join(", "))
    };
    RequestError(format!("there is no namespace `{}`; {known}", one_line(name, 80)))
}
