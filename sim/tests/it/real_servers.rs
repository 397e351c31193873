//! Three servers from npm, installed by `scripts/servers`, through the real binary.

use crate::support::{TestHub, until};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The installed servers; without them the test says so and does nothing.
pub(crate) fn installed() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers");
    let found = folder.join("installed").exists() && which_node();
    if !found {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the real servers are not installed; run scripts/servers"
        );
    }
    found.then(|| folder.canonicalize().expect("a folder"))
}

fn which_node() -> bool {
    std::process::Command::new("node")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A hub with `everything`, `files` and `memory`, and the folder that `files` may read.
fn hub(servers: &Path) -> (TestHub, PathBuf) {
    let hub = TestHub::new();
    let notes = hub.file("shared");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("ada.txt"), "Ada Lovelace\nwrote the first program\n").unwrap();
    std::fs::write(notes.join("grace.txt"), "Grace Hopper\nwrote the first compiler\n").unwrap();
    let notes = notes.canonicalize().unwrap();
    let script = |name: &str| {
        let path =
            servers.join(format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js"));
        path.to_str().unwrap().to_owned()
    };
    hub.ok([
        "add",
        "--accept",
        "--namespace",
        "everything",
        "node",
        &script("everything"),
        "stdio",
    ]);
    hub.ok([
        "add",
        "--accept",
        "--namespace",
        "files",
        "node",
        &script("filesystem"),
        notes.to_str().unwrap(),
    ]);
    let graph = format!("MEMORY_FILE_PATH={}", hub.file("memory.json").display());
    hub.ok([
        "add",
        "--accept",
        "--namespace",
        "memory",
        "--env",
        &graph,
        "node",
        &script("memory"),
    ]);
    (hub, notes)
}

#[test]
fn real_servers_are_searched_described_and_executed() {
    let Some(servers) = installed() else { return };
    let (hub, notes) = hub(&servers);
    let (_, listed) = hub.json(["list"]);
    let counts: Vec<_> = listed["sources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|source| source["tools"].as_u64().unwrap())
        .collect();
    assert!(counts.len() == 3 && counts.iter().all(|count| *count >= 9), "{listed:#}");
    let (_, findings) = hub.json(["doctor"]);
    for namespace in ["everything", "files", "memory"] {
        let fine = findings["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|f| f["what"] == namespace && f["ok"] == true);
        assert!(fine, "{findings:#}");
    }

    let mut client = hub.serve();
    let opened = client.initialize("2025-11-25");
    for namespace in ["everything (", "files (", "memory ("] {
        assert!(opened["instructions"].as_str().unwrap().contains(namespace), "{opened:#}");
    }
    let found = client.text("search", &json!({ "query": "read a text file" }));
    assert!(
        found.starts_with("files\n") && found.contains("files.readTextFile(input: { path: string"),
        "{found}"
    );
    let found =
        client.text("search", &json!({ "query": "remember entities in the knowledge graph" }));
    assert!(found.contains("memory.createEntities(") && found.contains("[asks]"), "{found}");
    let types = client.text(
        "describe",
        &json!({ "targets": ["files.readTextFile", "memory.createEntities", "everything.getSum"] }),
    );
    for part in [
        "declare const files: {",
        "declare const memory: {",
        "declare const everything: {",
        "entityType: string",
    ] {
        assert!(types.contains(part), "{part}: {types}");
    }

    let code = format!(
        "const [sum, listing, graph] = await Promise.all([everything.getSum({{ a: 2, b: 40 }}), files.listDirectory({{ path: {0} }}), memory.readGraph()]);\nreturn {{ sum, listing, graph }}",
        json!(notes)
    );
    let done = client.execute(&code);
    assert_eq!(done["status"], "completed", "{done:#}");
    assert!(done["result"]["sum"].as_str().unwrap().contains("42"), "{done:#}");
    assert!(done["result"]["listing"].to_string().contains("ada.txt"), "{done:#}");
    assert_eq!(done["result"]["graph"], json!({ "entities": [], "relations": [] }));

    let image = client.execute("return await everything.getTinyImage()");
    let blocks = image["result"].as_array().unwrap();
    assert!(
        blocks.iter().any(|block| block["type"] == "image" && block["handle"].is_string()),
        "{image:#}"
    );
    assert!(!image.to_string().contains("iVBOR"), "no picture inline");
    let code = "try { await files.readTextFile({ path: '/etc/passwd' }) } catch (e) { return [e.name, e.code, e.address] }";
    assert_eq!(
        client.execute(code)["result"],
        json!(["ToolError", "upstream_error", "files.readTextFile"])
    );
    assert_eq!(client.close(), 0);
}

#[test]
fn reading_files_and_remembering_them_asks_exactly_once() {
    let Some(servers) = installed() else { return };
    let (hub, notes) = hub(&servers);
    let mut client = hub.serve();
    client.stateless();
    let code = format!(
        "const names = ['ada.txt', 'grace.txt'];
const texts = await Promise.all(names.map(name => files.readTextFile({{ path: {0} + '/' + name }})));
const entities = texts.map(text => {{
  const [name, ...observations] = (text.content ?? text).trim().split('\\n');
  return {{ name, entityType: 'person', observations }};
}});
const made = await memory.createEntities({{ entities }});
return (made.entities ?? made).map(entity => entity.name);",
        json!(notes)
    );
    let asked = client.execute(&code);
    assert_eq!(asked["status"], "awaiting_approval", "{asked:#}");
    assert_eq!(asked["pending"].as_array().unwrap().len(), 1, "{asked:#}");
    assert_eq!(asked["pending"][0]["address"], "memory.createEntities");
    assert!(!hub.file("memory.json").exists(), "nothing was written");
    let run = asked["runId"].as_str().unwrap().to_owned();

    let answered = hub.at_terminal("o", ["approve", &run]);
    assert_eq!((answered.status, answered.prompts), (0, 1), "{}", answered.output);
    for part in ["memory.createEntities", "\"Grace Hopper\"", "wrote the first compiler"] {
        assert!(answered.output.contains(part), "{part}: {}", answered.output);
    }
    let done = client.envelope(&json!({ "resume": run }));
    assert_eq!(
        (&done["status"], &done["result"]),
        (&json!("completed"), &json!(["Ada Lovelace", "Grace Hopper"])),
        "{done:#}"
    );
    let graph = std::fs::read_to_string(hub.file("memory.json")).unwrap();
    assert_eq!(graph.matches("Ada Lovelace").count(), 1, "{graph}");
    assert_eq!(client.close(), 0);
}

#[test]
fn a_real_server_that_is_killed_is_started_again_for_the_next_read() {
    let Some(servers) = installed() else { return };
    let (hub, _) = hub(&servers);
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    assert_eq!(client.execute("return (await memory.readGraph()).entities.length")["result"], 0);
    let marker = hub.file("memory.json").display().to_string();
    let server = until("the server's process", || process_with(&marker));
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &server])
            .status()
            .is_ok_and(|status| status.success())
    );
    // A read that falls into the server's death is lost, and said to be; it is not sent again unasked.
    let envelope = until("a read by another server", || {
        let envelope = client.execute("return (await memory.readGraph()).entities.length");
        let lost = envelope["error"]["message"].to_string().contains("upstream_timeout");
        assert!(lost || envelope["status"] == "completed", "{envelope:#}");
        (!lost).then_some(envelope)
    });
    assert_eq!(envelope["result"], 0, "{envelope:#}");
}

/// The id of the process whose environment contains `marker`.
fn process_with(marker: &str) -> Option<String> {
    let processes = std::fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let found = String::from_utf8_lossy(&environment).contains(marker);
        found.then(|| process.file_name().to_string_lossy().into_owned())
    })
}

#[test]
fn results_have_the_types_that_their_servers_declare() {
    let Some(servers) = installed() else { return };
    let Some(compiler) = crate::typescript::compiler() else { return };
    let (hub, notes) = hub(&servers);
    let awkward = [env!("CARGO_BIN_EXE_sim"), "awkward"];
    hub.ok(["add", "--accept", "--namespace", "odd"].into_iter().chain(awkward));
    crate::awkward::allow_all(&hub);
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let file = json!({ "path": notes.join("ada.txt") });
    let folder = json!({ "path": notes });
    let mut pieces = Vec::new();
    for (tool, arguments) in [
        ("files.readTextFile", &file),
        ("files.readFile", &file),
        ("files.getFileInfo", &file),
        ("files.readMultipleFiles", &json!({ "paths": [notes.join("ada.txt")] })),
        ("files.listDirectory", &folder),
        ("files.listDirectoryWithSizes", &folder),
        ("files.directoryTree", &folder),
        ("files.listAllowedDirectories", &json!({})),
        ("files.searchFiles", &json!({ "path": notes, "pattern": "*.txt" })),
        ("files.writeFile", &json!({ "path": notes.join("new.txt"), "content": "x" })),
        ("everything.getStructuredContent", &json!({ "location": "Chicago" })),
        ("memory.readGraph", &json!({})),
        (
            "memory.createEntities",
            &json!({ "entities": [{ "name": "Ada", "entityType": "person", "observations": [] }] }),
        ),
        ("memory.searchNodes", &json!({ "query": "Ada" })),
        ("odd.structuredOnly", &json!({})),
    ] {
        let declared = client.text("describe", &json!({ "targets": [tool] }));
        let envelope = client.execute(&format!("return await {tool}({arguments})"));
        assert_eq!(envelope["status"], "completed", "{tool}: {envelope:#}");
        let result = &envelope["result"];
        pieces.push(format!(
            "{declared}\nexport const result: Awaited<ReturnType<typeof {tool}>> = {result};"
        ));
    }
    let known = pieces.iter().filter(|piece| !piece.contains("Promise<unknown>")).count();
    assert!(known >= 12, "{known} of {} declare what they return", pieces.len());
    crate::typescript::compile(&compiler, &pieces);
}
