//! What a person should know about a source before they trust it: that it could reach what decides.

use crate::model::names::RawToolName;
use crate::model::source::{SourceRecord, Transport};
use std::path::{Component, Path, PathBuf};

/// Words in a command or an address that name something which drives a browser.
const BROWSERS: &[&str] = &[
    "playwright",
    "puppeteer",
    "chrome-devtools",
    "chromedriver",
    "selenium",
    "browser-use",
    "browser_use",
    "browsermcp",
    "browser-mcp",
    "browserbase",
    "stagehand",
    "webdriver",
];
/// What a tool that looks at or acts on a page is called, beside one that opens pages.
const ACTS: &[&str] =
    &["click", "screenshot", "snapshot", "evaluate", "fill", "type", "press", "content"];

/// What is worth a warning about a source, a sentence each. `hub` is the hub's own folder.
pub fn concerns<'a>(
    record: &SourceRecord,
    tools: impl IntoIterator<Item = &'a RawToolName>,
    hub: &Path,
) -> Vec<String> {
    let mut found = Vec::new();
    if drives_a_browser(record, tools) {
        found.push(
            "it drives a browser, so code could look for the page on which you decide: what shows that page is withheld, but give it a browser of its own"
                .to_owned(),
        );
    }
    if let Transport::Stdio(command) = &record.transport {
        let cwd = Path::new(&command.cwd);
        let settings = command.set.values().flat_map(|value| value.split(':'));
        let given = command.args.iter().flat_map(|arg| paths_in(arg)).chain(settings);
        for path in given {
            let Some(folder) = absolute(path, cwd) else { continue };
            if hub.starts_with(&folder) || folder.starts_with(hub) {
                found.push(format!(
                    "it is given `{}`, which holds the hub's own files: give it a folder without them",
                    folder.display()
                ));
                break;
            }
        }
    }
    found
}

fn drives_a_browser<'a>(
    record: &SourceRecord,
    tools: impl IntoIterator<Item = &'a RawToolName>,
) -> bool {
    let reached = match &record.transport {
        Transport::Stdio(command) => {
            let mut words = vec![command.program.to_lowercase()];
            words.extend(command.args.iter().map(|arg| arg.to_lowercase()));
            words.join(" ")
        }
        Transport::Http(endpoint) => endpoint.url.shown().to_lowercase(),
    };
    if BROWSERS.iter().any(|word| reached.contains(word)) {
        return true;
    }
    let names: Vec<String> = tools.into_iter().map(|tool| tool.as_str().to_lowercase()).collect();
    let any = |word: &str| names.iter().any(|name| name.contains(word));
    any("navigate") && ACTS.iter().any(|act| any(act))
}

/// An argument, and what stands behind its `=`.
fn paths_in(argument: &str) -> impl Iterator<Item = &str> {
    let value = argument.split_once('=').map(|(_, value)| value);
    std::iter::once(argument).chain(value)
}

/// A path as the source would see it, without looking at the disk; nothing if it is none.
fn absolute(text: &str, cwd: &Path) -> Option<PathBuf> {
    let text = text.strip_prefix("file://").unwrap_or(text);
    let is_path = text.starts_with(['/', '.']) && !text.is_empty();
    let joined = is_path.then(|| cwd.join(text))?;
    let mut whole = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(part),
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::SourceId;
    use crate::model::source::StdioCommand;
    use crate::model::time::WallMs;

    #[track_caller]
    fn check(args: &[&str], tools: &[&str], expected: &[&str]) {
        let record = SourceRecord {
            id: SourceId::from_random([0; 10]),
            namespace: "s".parse().unwrap(),
            label: None,
            transport: Transport::Stdio(StdioCommand {
                program: "/usr/bin/npx".to_owned(),
                args: args.iter().map(|&arg| arg.to_owned()).collect(),
                cwd: "/home/ada/work".to_owned(),
                path: String::new(),
                set: [("ROOT".to_owned(), "/srv".to_owned())].into(),
                pass: Vec::new(),
            }),
            consent: None,
            added: WallMs(0),
        };
        let tools: Vec<RawToolName> = tools.iter().map(|name| name.parse().unwrap()).collect();
        let found = concerns(&record, &tools, Path::new("/home/ada/.capabilities/hub"));
        let words: Vec<&str> = found
            .iter()
            .map(|text| if text.contains("browser") { "browser" } else { "folder" })
            .collect();
        assert_eq!(words, expected, "{args:?} {tools:?}");
    }

    #[test]
    fn what_could_reach_a_decision_is_flagged_and_nothing_else() {
        check(&["-y", "@playwright/mcp@1.0.0"], &[], &["browser"]);
        check(&["server.js"], &["browser_navigate", "browser_click"], &["browser"]);
        check(&["server.js"], &["navigate_menu", "list"], &[]);
        check(&["@modelcontextprotocol/server-memory"], &["read_graph"], &[]);
        check(&["server-filesystem", "/home/ada/notes"], &[], &[]);
        check(&["server-filesystem", "/home/ada/work", "/"], &[], &["folder"]);
        check(&["server-filesystem", "/home/ada"], &[], &["folder"]);
        check(&["--root=../.capabilities/hub/runs"], &[], &["folder"]);
        check(&[".."], &[], &["folder"]);
        check(&["."], &[], &[]);
        check(&["file:///home/ada/.capabilities/hub"], &[], &["folder"]);
        check(&["--url=https://example.com/", "/home/adam"], &[], &[]);
    }
}
