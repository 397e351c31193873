//! Every declaration parses as TypeScript, as the real compiler sees it.

use super::tokens::{Catalog, catalogs};
use hub::core::typegen::{NamespaceTools, Target, declare, signature};
use hub::model::contract::Contract;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler that `scripts/servers` installs.
pub(crate) fn compiler() -> Option<PathBuf> {
    let tsc = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/servers/node_modules/typescript/bin/tsc");
    tsc.exists().then_some(tsc)
}

/// Schemas that try to break the printer: what servers really send, and what nobody should.
fn awkward() -> Catalog {
    let schemas: Vec<(&str, Value)> = vec![
        ("plain", json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        ("missing", Value::Null),
        ("boolean", json!(true)),
        ("array_root", json!({"type": "array", "items": {"type": "string"}})),
        (
            "any_of_root",
            json!({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]}),
        ),
        (
            "all_of",
            json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "number"}}}]}),
        ),
        (
            "tuple",
            json!({"properties": {"t": {"prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 1}}}),
        ),
        (
            "old_tuple",
            json!({"properties": {"t": {"items": [{"type": "string"}], "additionalItems": false}}}),
        ),
        (
            "recursive",
            json!({"properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": {"type": "object", "properties": {"c": {"type": "array", "items": {"$ref": "#/$defs/Node"}}, "up": {"$ref": "#"}}}}}),
        ),
        (
            "names",
            json!({"properties": {"content-type": {"type": "string"}, "class": {"type": "string"}, "a b": {"type": "string"}, "*/ evil": {"type": "string", "description": "*/ globalThis.x = 1 /*"}, "__proto__": {"type": "string"}, "": {"type": "string"}, "größe": {"type": "string"}, "\u{202e}x": {"type": "string"}}}),
        ),
        (
            "literals",
            json!({"properties": {"e": {"enum": ["a\"b", "c\\d", "\n", "*/", "${x}", 1, -2.5, true, null, {"x": 1}]}, "c": {"const": "`"}}}),
        ),
        (
            "deep",
            json!({"properties": {"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "object", "properties": {"d": {"type": "object", "properties": {"e": {"type": "string"}}}}}}}}}}}),
        ),
        (
            "extra",
            json!({"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}}),
        ),
        (
            "map",
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        ),
        (
            "nested_unions",
            json!({"properties": {"u": {"oneOf": [{"type": "array", "items": {"oneOf": [{"type": "string"}, {"allOf": [{"type": "string"}, {"type": "number"}]}]}}, {"type": "object", "properties": {"k": {"const": 1}}}]}}}),
        ),
        (
            "huge_enum",
            json!({"properties": {"e": {"enum": (0..5000).map(|n| format!("v{n}")).collect::<Vec<_>>()}}}),
        ),
    ];
    let tools = schemas.into_iter().map(|(name, schema)| {
        let listed = json!({
            "name": name, "description": "Does */ things.\n\n/** more */", "inputSchema": schema, "outputSchema": schema,
        });
        (hub::core::addresses::identifier(name), Contract::from_listed(listed.as_object().expect("an object")))
    });
    Catalog::from([("awkward".to_owned(), tools.collect())])
}

/// Pieces of one file: a compiler starts faster on few files than on many.
const PIECES: usize = 500;

/// Compiles pieces of TypeScript, each in a scope of its own, as strictly as it can be.
pub(crate) fn compile(compiler: &Path, pieces: &[String]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for chunk in pieces.chunks(PIECES) {
        let file = folder.path().join(format!("d{}.ts", files.len()));
        let mut text = "export {};\n".to_owned();
        for (at, piece) in chunk.iter().enumerate() {
            let _ = writeln!(text, "export namespace n{at} {{\n{piece}\n}}");
        }
        std::fs::write(&file, text).expect("written");
        files.push(file);
    }
    let done = Command::new("node")
        .arg("--max-old-space-size=4096")
        .arg(compiler)
        .args(["--noEmit", "--strict", "--target", "es2022", "--skipLibCheck"])
        .args(&files)
        .output()
        .expect("node runs");
    if done.status.success() {
        return;
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let first = text.lines().next().unwrap_or_default();
    // The line that the first error names, with what stands around it.
    let place = first.split_once('(').and_then(|(file, rest)| {
        let line: usize = rest.split(',').next()?.parse().ok()?;
        let name = Path::new(file).file_name()?;
        let text = std::fs::read_to_string(folder.path().join(name)).ok()?;
        let lines: Vec<&str> = text.lines().skip(line.saturating_sub(6)).take(9).collect();
        Some(lines.join("\n"))
    });
    let errors: Vec<&str> = text.lines().take(10).collect();
    panic!("{} pieces:\n{}\n\n{}", pieces.len(), errors.join("\n"), place.unwrap_or_default());
}

#[test]
fn every_declaration_compiles() {
    let Some(compiler) = compiler() else {
        eprintln!("skipped: the TypeScript compiler is not installed; scripts/servers installs it");
        return;
    };
    let mut pieces = Vec::new();
    let all = catalogs().into_iter().chain([("awkward".to_owned(), awkward())]);
    for (set, catalog) in all {
        // Tools of real servers, each of them; of the other sets a part.
        let every = ["tools.jsonl", "own", "awkward"].contains(&set.as_str());
        let step = if every { 1 } else { (catalog.len() / 12).max(1) };
        for (namespace, tools) in catalog.iter().step_by(step) {
            let tools = NamespaceTools {
                namespace,
                connections: "connections: a*, b".to_owned(),
                tools: tools
                    .iter()
                    .map(|(name, contract)| (name.as_str(), contract, "[asks]".to_owned()))
                    .collect(),
            };
            pieces.push(declare(&[Target::Namespace(&tools)], 2_500).text);
            let count = if every { usize::MAX } else { 20 };
            for (at, (name, contract, _)) in tools.tools.iter().enumerate().take(count) {
                pieces.push(declare(&[Target::Tool(&tools, at)], 2_500).text);
                pieces.extend(signature_piece(name, contract));
            }
        }
    }
    compile(&compiler, &pieces);
    eprintln!("{} declarations and signatures compiled", pieces.len());
}

/// A signature is a type, with the names it leaves to `describe`.
fn signature_piece(name: &str, contract: &Contract) -> Option<String> {
    let line = signature("n", name, contract);
    let (_, rest) = line.split_once('(')?;
    let (input, output) = rest.rsplit_once("): ")?;
    let mut named: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| {
            word.chars().next().is_some_and(char::is_uppercase)
                && !["Promise", "Record"].contains(word)
        })
        .collect();
    named.sort_unstable();
    named.dedup();
    let known: String = named.iter().map(|word| format!("type {word} = unknown;\n")).collect();
    (!line.contains('"')).then(|| format!("{known}export declare const f: ({input}) => {output};"))
}
