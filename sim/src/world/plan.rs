//! What a world does: a seed draws one, a test may write one.

use super::program::program;
use crate::fakes::Crash;
use crate::seed::Seed;
use hub::model::policy::Choice;

/// Everything that is not decided by the fakes' own chance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the model wrote.
    pub program: String,
    /// When the first, second … process dies.
    pub crashes: Vec<Crash>,
    /// Entries that were not durable at a crash and are there all the same.
    pub kept: usize,
    /// What the person answers, in turn.
    pub choices: Vec<Choice>,
    /// Per cent of calls whose answer is lost, that fail, and of servers that cannot be reached.
    pub trouble: (u64, u64, u64),
    /// Tools change before this process starts.
    pub changes_before: Option<u32>,
}

impl Plan {
    /// A plan without any trouble.
    #[must_use]
    pub fn calm(program: &str) -> Plan {
        Plan {
            program: program.to_owned(),
            crashes: Vec::new(),
            kept: 0,
            choices: vec![Choice::Once],
            trouble: (0, 0, 0),
            changes_before: None,
        }
    }

    /// The plan of a seed: about half of all kinds of trouble are absent in any one world.
    #[must_use]
    pub fn of(seed: Seed) -> Plan {
        let mut draw = seed.stream("plan");
        let mut crashes = Vec::new();
        for _ in 0..draw.below(4) {
            crashes.push(Crash { at: draw.below(70), after: draw.percent(50) });
        }
        let all = [Choice::Once, Choice::Run, Choice::Always, Choice::Deny];
        let choices = (0..1 + draw.below(4)).map(|_| *draw.pick(&all)).collect();
        let mut rate = |most: u64| if draw.percent(50) { draw.below(most) } else { 0 };
        let trouble = (rate(20), rate(30), rate(15));
        Plan {
            program: program(seed),
            crashes,
            kept: usize::try_from(draw.below(3)).expect("small"),
            choices,
            trouble,
            changes_before: draw.percent(30).then_some(2),
        }
    }
}
