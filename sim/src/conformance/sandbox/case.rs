//! The text form of one case.
//!
//! ```text
//! === a sentence | seed 2, budget_ms 50
//! return await mail.read({ id: 1 });
//! ---
//! call c1 mail.read {"id":1}
//! > c1 "hello"
//! return "hello"
//! ```
//!
//! Lines after `---` are what the guest asks for; those after `>` are delivered: `c1 JSON`, `c1 text JSON`,
//! `c1 error JSON`, `t1`, `l1 JSON string`, `l1 error JSON string`, each after `+MS` if time has passed.

use anyhow::{Context as _, Result, bail};
use hub::model::call::Seq;
use hub::model::turn::{Answer, Delivery};

/// A program and what must come of it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it shows, as a sentence.
    pub name: String,
    /// The code as a model sends it.
    pub code: String,
    /// Delivered one by one: milliseconds that passed before, the line as written, and what it says.
    pub deliveries: Vec<(u64, String, Delivery)>,
    /// The transcript, deliveries included.
    pub expected: String,
    /// Every byte of the run's seed.
    pub seed: u8,
    /// Compute one step may take.
    pub budget_ms: u64,
    /// Guest heap.
    pub memory_mb: u64,
    /// Bytes of one value.
    pub value_bytes: u64,
    /// Run the code as it is, without the hub's own preparation.
    pub raw: bool,
    /// Tools of one more source, `odd`.
    pub tools: Vec<String>,
    /// The only sandbox this is about, if not every one.
    pub only: Option<Kind>,
}

/// Which sandbox a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A process that can be killed.
    Worker,
    /// The calling thread.
    Inline,
}

/// Reads a file of cases.
///
/// # Errors
/// Names the case that does not read.
pub fn read(text: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for part in format!("\n{text}").split("\n=== ").skip(1) {
        let title = part.lines().next().unwrap_or("");
        cases.push(case(part).with_context(|| format!("in the case `{title}`"))?);
    }
    Ok(cases)
}

fn case(part: &str) -> Result<Case> {
    let (title, rest) = part.split_once('\n').context("a case has more than a title")?;
    let (code, expected) =
        rest.split_once("\n---\n").context("a case has a transcript after `---`")?;
    let (name, options) = title.split_once(" | ").unwrap_or((title, ""));
    let mut case = Case {
        name: name.to_owned(),
        code: code.to_owned(),
        deliveries: Vec::new(),
        expected: expected.trim_end().to_owned(),
        seed: 1,
        budget_ms: 1_000,
        memory_mb: 16,
        value_bytes: 1 << 20,
        raw: false,
        tools: Vec::new(),
        only: None,
    };
    for option in options.split(", ").filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once(' ').unwrap_or((option, ""));
        match key {
            "seed" => case.seed = value.parse()?,
            "budget_ms" => case.budget_ms = value.parse()?,
            "memory_mb" => case.memory_mb = value.parse()?,
            "value_bytes" => case.value_bytes = value.parse()?,
            "raw" => case.raw = true,
            "tools" => case.tools = value.split(' ').map(str::to_owned).collect(),
            "worker" => case.only = Some(Kind::Worker),
            "inline" => case.only = Some(Kind::Inline),
            _ => bail!("there is no option `{key}`"),
        }
    }
    for line in case.expected.lines().filter_map(|line| line.strip_prefix("> ")) {
        let (passed_ms, what) = match line.strip_prefix('+').and_then(|line| line.split_once(' ')) {
            Some((ms, what)) => (ms.parse()?, what),
            None => (0, line),
        };
        case.deliveries.push((
            passed_ms,
            line.to_owned(),
            delivery(what).with_context(|| format!("`{line}`"))?,
        ));
    }
    Ok(case)
}

fn delivery(text: &str) -> Result<Delivery> {
    let (who, what) = text.split_once(' ').unwrap_or((text, ""));
    let (kind, number) = who.split_at_checked(1).context("a letter and a number")?;
    let number: u32 = number.parse()?;
    let failed = what.strip_prefix("error ");
    match kind {
        "c" => {
            let answer = match (failed, what.strip_prefix("text ")) {
                (Some(members), _) => Answer::Error(members.to_owned()),
                (None, Some(text)) => Answer::Text(text.to_owned()),
                (None, None) => Answer::Json(what.to_owned()),
            };
            Ok(Delivery::Call { seq: Seq(number), answer })
        }
        "t" => Ok(Delivery::Timer { id: number }),
        "l" => {
            let answer = match failed {
                Some(text) => Err(serde_json::from_str(text)?),
                None => Ok(serde_json::from_str(what)?),
            };
            Ok(Delivery::Lookup { id: number, answer })
        }
        _ => bail!("a delivery begins with c, t or l"),
    }
}
