//! Token budgets, counted with the real tokenizer: the surface, the estimate, and every description.

use hub::core::addresses::identifier;
use hub::core::typegen::{NamespaceTools, Target, declare, signature};
use hub::model::contract::Contract;
use hub::model::tokens::estimate;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use tiktoken_rs::{CoreBPE, o200k_base};

static TOKENIZER: LazyLock<CoreBPE> =
    LazyLock::new(|| o200k_base().expect("the tokenizer is built in"));

/// Tokens one description may have.
const DESCRIBE_TOKENS: usize = 2_500;

fn count(text: &str) -> usize {
    TOKENIZER.encode_ordinary(text).len()
}

#[test]
fn the_surface_and_the_largest_inventory_have_at_most_a_thousand_tokens() {
    let definitions = serde_json::to_string(&hub::surface::definitions()).expect("json");
    // Eight hundred bytes of the densest text an inventory can hold is more than its budget allows.
    let inventory: Vec<String> = (0..60).map(|n| format!("namespace{n} ({n} tools)")).collect();
    let mut largest = String::new();
    for item in inventory {
        if estimate(&largest) + estimate(&item) + 16 > 220 {
            break;
        }
        largest.push_str(", ");
        largest.push_str(&item);
    }
    let instructions = hub::surface::instructions(&largest);
    let (tools, words) = (count(&definitions), count(&instructions));
    eprintln!("surface: definitions {tools} tokens, instructions {words} tokens");
    assert!(tools + words <= 1_000, "{tools} + {words}");
}

pub(crate) type Catalog = BTreeMap<String, Vec<(String, Contract)>>;

/// A small catalog of our own, and the public ones where they are at hand.
pub(crate) fn catalogs() -> Vec<(String, Catalog)> {
    let mut catalogs = vec![("own".to_owned(), own())];
    let folder = std::env::var_os("CAPABILITIES_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    for name in [
        "tools.jsonl",
        "tools.stabletoolbench.jsonl",
        "tools.sealtools.jsonl",
        "tools.bfcl.jsonl",
        "tools.tau2.jsonl",
    ] {
        match std::fs::read_to_string(folder.join("retrieval-sets").join(name)) {
            Ok(text) => catalogs.push((name.to_owned(), parsed(&text))),
            Err(_) => eprintln!("skipped: the public catalog {name} is not at hand"),
        }
    }
    catalogs
}

fn own() -> Catalog {
    let mut lines = Vec::new();
    for n in 0..40 {
        lines.push(
            serde_json::json!({
                "server": "tracker", "name": format!("update_item_{n}"),
                "description": "Update an item of the tracker. Fields that are left out keep their value.",
                "inputSchema": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "integer", "description": "Number of the item, as the list shows it."},
                    "title": {"type": "string"}, "labels": {"type": "array", "items": {"type": "string"}},
                    "state": {"enum": ["open", "closed"], "description": "Where it stands."}}}
            })
            .to_string(),
        );
    }
    parsed(&lines.join("\n"))
}

fn parsed(text: &str) -> Catalog {
    let mut catalog = Catalog::new();
    for line in text.lines() {
        let tool: serde_json::Value = serde_json::from_str(line).expect("json");
        let text =
            |key: &str| tool.get(key).and_then(serde_json::Value::as_str).unwrap_or("x").to_owned();
        let mut members = serde_json::Map::new();
        members.insert("name".to_owned(), text("name").into());
        members.insert("description".to_owned(), text("description").into());
        for key in ["inputSchema", "input_schema", "parameters"] {
            if let Some(schema) = tool.get(key) {
                members.insert("inputSchema".to_owned(), schema.clone());
            }
        }
        let contract = Contract::from_listed(&members);
        catalog
            .entry(identifier(&text("server")))
            .or_default()
            .push((identifier(&text("name")), contract));
    }
    catalog
}

/// Ratios of the estimate to the real count, and how full cut descriptions are.
#[derive(Default)]
struct Measured {
    ratios: Vec<f64>,
    fills: Vec<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn ratio(a: usize, b: usize) -> f64 {
    a as f64 / b.max(1) as f64
}

impl Measured {
    fn describe(&mut self, targets: &[Target<'_>]) {
        let declared = declare(targets, DESCRIBE_TOKENS);
        let real = count(&declared.text);
        assert!(real <= DESCRIBE_TOKENS, "{real} tokens:\n{}", declared.text);
        self.ratios.push(ratio(estimate(&declared.text), real));
        if declared.cut {
            self.fills.push(ratio(real, DESCRIBE_TOKENS));
        }
    }

    fn at(values: &mut [f64], percent: usize) -> f64 {
        values.sort_by(f64::total_cmp);
        values.get((values.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(1.0)
    }
}

#[test]
fn descriptions_keep_their_budget_and_use_it() {
    for (name, catalog) in catalogs() {
        let mut measured = Measured::default();
        // A spread of namespaces is enough, and keeps an unoptimised build quick.
        let step = (catalog.len() / 25).max(1);
        for (namespace, tools) in catalog.iter().step_by(step) {
            let tools = NamespaceTools {
                namespace,
                connections: String::new(),
                tools: tools
                    .iter()
                    .take(200)
                    .map(|(name, contract)| (name.as_str(), contract, String::new()))
                    .collect(),
            };
            measured.describe(&[Target::Namespace(&tools)]);
            for at in 0..tools.tools.len().min(6) {
                measured.describe(&[Target::Tool(&tools, at)]);
                let (tool, contract, _) = &tools.tools[at];
                let line = signature(namespace, tool, contract);
                measured.ratios.push(ratio(estimate(&line) + 8, count(&line) + 8));
            }
        }
        let Measured { mut ratios, mut fills } = measured;
        let least = Measured::at(&mut ratios, 0);
        let shown: Vec<String> = [1, 50, 90, 99, 100]
            .iter()
            .map(|p| format!("p{p} {:.3}", Measured::at(&mut ratios, *p)))
            .collect();
        eprintln!(
            "{name}: {} texts, least {least:.3}, {}; {} cut, fill least {:.3} p10 {:.3} p50 {:.3}",
            ratios.len(),
            shown.join(", "),
            fills.len(),
            Measured::at(&mut fills, 0),
            Measured::at(&mut fills, 10),
            Measured::at(&mut fills, 50)
        );
        assert!(least >= 1.0, "{name}: the estimate counted too few");
        assert!(
            Measured::at(&mut ratios, 90) <= 7.0 / 6.0,
            "{name}: the estimate is often a sixth too many"
        );
        assert!(
            fills.is_empty() || Measured::at(&mut fills, 0) >= 5.0 / 6.0,
            "{name}: the budget is not used"
        );
    }
}
