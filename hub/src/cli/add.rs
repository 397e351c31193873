//! `add`: shows what it will run before anything runs.

use super::args::AddArguments;
use super::output::{Done, Failed, Output};
use super::setup::what_runs;
use super::wire::{unattended, variable};
use super::{address, review, who};
use crate::adapters::person::TerminalPerson;
use crate::core::addresses::propose_namespace;
use crate::driver::{HubError, NewSource};
use crate::model::names::{Namespace, is_identifier};
use crate::model::source::{StdioCommand, Transport};
use crate::ports::Ports as _;
use crate::ports::store::Store as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Programs that fetch and run a package, with the words that may stand before its name.
const RUNNERS: &[(&str, &[&str])] = &[
    ("npx", &[]),
    ("bunx", &[]),
    ("uvx", &[]),
    ("pnpx", &[]),
    ("pnpm", &["dlx"]),
    ("yarn", &["dlx"]),
    ("pipx", &["run"]),
    ("uv", &["tool", "run"]),
];

pub(super) async fn add(
    output: &Output,
    arguments: AddArguments,
    no_input: bool,
) -> Result<Done, Failed> {
    if arguments.accept {
        who::no_agent("hub add --accept")?;
    }
    let transport = match arguments.command.as_slice() {
        [one] if one.contains("://") => Transport::Http(address::endpoint(one, &arguments).await?),
        _ => Transport::Stdio(stdio_command(&arguments)?),
    };
    let hub = unattended()?;
    let taken: Vec<String> = hub
        .ports()
        .store()
        .sources()
        .await?
        .into_iter()
        .flatten()
        .map(|source| source.namespace.to_string())
        .collect();
    let namespace = match &arguments.namespace {
        Some(name) => name.clone(),
        None => {
            let from = match &transport {
                Transport::Stdio(command) => package_name(command),
                Transport::Http(endpoint) => address::name(&endpoint.url),
            };
            propose_namespace(&from, &|name| taken.iter().any(|known| known == name))
        }
    };
    let namespace: Namespace =
        namespace.parse().map_err(|error: crate::model::names::NameError| {
            Failed::usage(error.to_string(), "choose another with `--namespace`")
        })?;
    let new = NewSource {
        namespace: namespace.clone(),
        label: arguments.label.clone(),
        transport,
        consented: false,
    };
    if taken.iter().any(|name| name == namespace.as_str()) {
        return Err(HubError::NamespaceTaken(namespace.to_string()).into());
    }
    let can_ask = who::can_ask(no_input);
    let shown = crate::model::source::SourceRecord {
        id: crate::model::ids::SourceId::from_random([0; 10]),
        namespace: namespace.clone(),
        label: new.label.clone(),
        transport: new.transport.clone(),
        consent: None,
        added: crate::model::time::WallMs(0),
    };
    output.say(&format!("Source {namespace}\n{}", what_runs(&shown)));
    let consented = arguments.accept || can_ask && ask_consent(&shown.transport);
    if !consented && can_ask {
        output.say("Nothing was added.");
        return Ok(Done::Failed);
    }
    let record = hub.add_source(NewSource { consented, ..new }).await?;
    if !consented {
        let text = format!(
            "Added {namespace}. Nothing of it runs until a person agrees: capabilities hub review {namespace}"
        );
        output.result(
            &text,
            || json!({ "namespace": namespace, "id": record.id, "consented": false }),
        );
        return Ok(Done::Ok);
    }
    output.say(match &record.transport {
        Transport::Stdio(_) => "Starting it and reading its tools …",
        Transport::Http(_) => "Reaching it and reading its tools …",
    });
    let refreshed = match hub.refresh(&record).await {
        Ok(refreshed) => refreshed,
        Err(error @ HubError::Unauthorized { .. }) => {
            let hint = error.hint().unwrap_or_default();
            let text = format!(
                "Added {namespace}. It wants a credential before it lists its tools: {hint}."
            );
            let id = &record.id;
            output.result(&text, || {
                json!({ "namespace": namespace, "id": id, "consented": true, "unauthorized": true })
            });
            return Ok(Done::Ok);
        }
        Err(error) => {
            // A source that cannot start is no use, and leaving it would take its namespace.
            hub.remove_source(namespace.as_str()).await?;
            return Err(error.into());
        }
    };
    for notice in &refreshed.notices {
        output.say(&format!("  ! {notice}"));
    }
    let reviewed = review::review_source(output, &hub, &record, arguments.accept, can_ask).await?;
    hub.shut_down().await;
    let text = format!("Added {namespace}: {} tools, {reviewed} reviewed.", refreshed.tools);
    output.result(&text, || {
        json!({
            "namespace": namespace, "id": record.id, "consented": true, "tools": refreshed.tools,
            "reviewed": reviewed, "notices": refreshed.notices,
        })
    });
    Ok(Done::Ok)
}

/// Asks at the terminal whether to run or reach exactly what was shown.
pub(super) fn ask_consent(transport: &Transport) -> bool {
    let question = match transport {
        Transport::Stdio(_) => "Run exactly this command, now and whenever it is needed?",
        Transport::Http(_) => "Reach exactly this address, now and whenever it is needed?",
    };
    TerminalPerson::key(&format!("{question} [y] yes  [n] no\r\n> "), "yn", None) == Some('y')
}

fn stdio_command(arguments: &AddArguments) -> Result<StdioCommand, Failed> {
    let words = match arguments.command.as_slice() {
        [one] if one.contains(char::is_whitespace) => split_words(one)?,
        many => many.to_vec(),
    };
    let (name, args) = words
        .split_first()
        .ok_or_else(|| Failed::usage("the command is empty", "give a command line"))?;
    let path = variable("PATH").unwrap_or_default();
    let here = std::env::current_dir().map_err(|error| Failed::internal(&error.to_string()))?;
    let cwd = match &arguments.cwd {
        Some(folder) => here.join(folder),
        None => here.clone(),
    };
    let cwd = cwd.canonicalize().map_err(|error| {
        Failed::usage(
            format!("the folder `{}` cannot be used: {error}", cwd.display()),
            "give a folder that exists with `--cwd`",
        )
    })?;
    let program = resolve(name, &path, &here)?;
    let mut set = BTreeMap::new();
    let mut pass = Vec::new();
    for one in &arguments.env {
        let (name, value) = match one.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (one.as_str(), None),
        };
        if !is_identifier(name) || !name.is_ascii() {
            return Err(Failed::usage(
                format!("`--env {name}` is not a variable's name"),
                "write NAME=value, or NAME alone",
            ));
        }
        match value {
            Some(value) => {
                set.insert(name.to_owned(), value.to_owned());
            }
            None => pass.push(name.to_owned()),
        }
    }
    let text = |path: PathBuf| {
        path.into_os_string().into_string().map_err(|path| {
            Failed::usage(
                format!("the path `{}` is not text", path.to_string_lossy()),
                "use a path that is",
            )
        })
    };
    Ok(StdioCommand {
        program: text(program)?,
        args: args.to_vec(),
        cwd: text(cwd)?,
        path,
        set,
        pass,
    })
}

/// The absolute path of a program: found once, so that what a person agrees to is what runs.
fn resolve(name: &str, path: &str, here: &Path) -> Result<PathBuf, Failed> {
    let runnable = |file: &Path| {
        std::fs::metadata(file)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.is_empty() {
        return Err(Failed::usage("the command is empty", "give a program and its arguments"));
    }
    if name.contains('/') {
        let file = here.join(name);
        // Not through symbolic links: a version manager's shim must stay the shim.
        return if runnable(&file) {
            std::path::absolute(&file).map_err(|error| Failed::internal(&error.to_string()))
        } else {
            Err(Failed::usage(
                format!("`{name}` is not a program that can be run"),
                "check the path and its permissions",
            ))
        };
    }
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| runnable(file))
        .ok_or_else(|| {
            Failed::usage(
                format!("there is no program `{name}` on your PATH"),
                "install it, or give its full path",
            )
        })
}

/// Splits a command line as a shell would, without expanding anything.
fn split_words(text: &str) -> Result<Vec<String>, Failed> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = chars.next().ok_or_else(|| {
                    Failed::usage("the command line ends in a backslash", "remove it")
                })?;
                word.get_or_insert_default().push(next);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '|' | '&' | ';' | '<' | '>' | '`' | '$') => {
                return Err(Failed::usage(
                    format!("`{c}` means something to a shell, and no shell is used here"),
                    "give one program and its arguments, or put the command into a script",
                ));
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Failed::usage("a quote in the command line is not closed", "close it"));
    }
    words.extend(word);
    Ok(words)
}

/// The package a runner would fetch.
fn package(command: &StdioCommand) -> Option<&str> {
    let program = Path::new(&command.program).file_name()?.to_str()?;
    let (_, before) = RUNNERS.iter().find(|(name, _)| *name == program)?;
    let mut rest = command.args.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    for word in *before {
        if rest.next() != Some(word) {
            return None;
        }
    }
    rest.next()
}

/// A warning for a package runner that fetches whatever is newest.
pub(super) fn unpinned(command: &StdioCommand) -> Option<String> {
    let package = package(command)?;
    let after_scope = package.get(1..).unwrap_or("");
    let version = after_scope
        .split_once('@')
        .or_else(|| package.split_once("=="))
        .map(|(_, version)| version);
    let pinned = version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()));
    (!pinned)
        .then(|| format!("`{package}` has no pinned version: whatever is newest runs each time"))
}

/// What a source could be called, from its command.
fn package_name(command: &StdioCommand) -> String {
    let named = package(command).map_or_else(
        || {
            let script = command.args.iter().find(|word| word.contains('/') || word.contains('.'));
            let runs_script = ["node", "python", "python3", "deno", "bun", "ruby"]
                .iter()
                .any(|name| command.program.ends_with(name));
            let path = if runs_script {
                script.map_or(command.program.as_str(), String::as_str)
            } else {
                command.program.as_str()
            };
            Path::new(path)
                .file_stem()
                .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        },
        |package| {
            let name = package.trim_start_matches('@');
            let name = name.split('@').next().unwrap_or(name).split("==").next().unwrap_or(name);
            name.rsplit('/').next().unwrap_or(name).to_owned()
        },
    );
    let mut name = named.as_str();
    for noise in ["mcp-server-", "server-", "mcp-"] {
        name = name.strip_prefix(noise).unwrap_or(name);
    }
    for noise in ["-mcp-server", "-server", "-mcp"] {
        name = name.strip_suffix(noise).unwrap_or(name);
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &str) -> StdioCommand {
        let words = split_words(words).unwrap();
        StdioCommand {
            program: format!("/usr/bin/{}", words[0]),
            args: words[1..].to_vec(),
            cwd: "/".into(),
            path: String::new(),
            set: BTreeMap::new(),
            pass: vec![],
        }
    }

    #[test]
    fn a_package_runner_without_a_version_is_flagged() {
        let check = |words: &str, pinned: bool| {
            assert_eq!(unpinned(&command(words)).is_none(), pinned, "{words}");
        };
        check("npx -y @acme/mcp-server@1.2.3", true);
        check("npx -y @acme/mcp-server", false);
        check("npx -y @acme/mcp-server@latest", false);
        check("npx server@1", true);
        check("uvx mcp-server-git==2026.1.1", true);
        check("uvx mcp-server-git", false);
        check("pnpm dlx thing@2.0.0", true);
        check("pnpm dlx thing", false);
        check("node /srv/server.js", true);
    }

    #[test]
    fn a_namespace_is_proposed_from_what_the_command_names() {
        let check = |words: &str, expected: &str| {
            assert_eq!(
                propose_namespace(&package_name(&command(words)), &|_| false),
                expected,
                "{words}"
            );
        };
        check("npx -y @modelcontextprotocol/server-memory@2026.8.31", "memory");
        check("npx -y @modelcontextprotocol/server-everything", "everything");
        check("uvx mcp-server-git==1", "git");
        check("node /srv/my-thing.js", "myThing");
        check("github-mcp-server stdio", "github");
    }

    #[test]
    fn command_lines_are_split_like_a_shell_does_and_nothing_is_expanded() {
        assert_eq!(
            split_words(r#"a 'b c' "d \" e" f\ g ''"#).unwrap(),
            ["a", "b c", "d \" e", "f g", ""]
        );
        for bad in ["a | b", "a $HOME", "a 'b", "a > b", "a \\"] {
            assert!(split_words(bad).is_err(), "{bad}");
        }
    }
}
