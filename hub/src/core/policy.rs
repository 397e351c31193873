//! Rules → ruling, with reasons: one pure function, in the order of design 4.

use crate::model::call::{Binding, Seq};
use crate::model::digest::Digest;
use crate::model::facts::SourcePolicy;
use crate::model::names::{ConnectionName, ToolRef};
use crate::model::policy::{Because, Choice, Effect, Rule, Ruling};
use std::collections::{BTreeMap, BTreeSet};

/// What people decided in one run so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionsOnRecord {
    /// Decisions about one call.
    pub calls: BTreeMap<Seq, (Binding, Choice)>,
    /// "For this run": tool, connection and contract.
    pub grants: BTreeSet<(ToolRef, Option<ConnectionName>, Digest)>,
    /// Denied in this run: tool, connection and arguments.
    pub denied: BTreeSet<(ToolRef, Option<ConnectionName>, Digest)>,
}

impl DecisionsOnRecord {
    /// Adds one decision about one call.
    pub fn record(&mut self, seq: Seq, binding: &Binding, choice: Choice) {
        let Binding { tool, connection, contract, arguments } = binding.clone();
        match choice {
            Choice::Once => {}
            Choice::Run | Choice::Always => {
                self.grants.insert((tool, connection, contract));
            }
            Choice::Deny => {
                self.denied.insert((tool, connection, arguments));
            }
        }
        self.calls.insert(seq, (binding.clone(), choice));
    }
}

/// One call as the policy sees it.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// Its number, when it is a run's.
    pub seq: Option<Seq>,
    /// What it is, with the contract the tool has at this moment.
    pub binding: &'a Binding,
    /// The contract the run froze at its start.
    pub frozen: Digest,
    /// Does the contract of this moment declare itself read-only?
    pub read_only: bool,
}

/// Decides one call.
#[must_use]
pub fn rule(policy: &SourcePolicy, record: &DecisionsOnRecord, call: CallFacts<'_>) -> Ruling {
    let policy = match policy {
        SourcePolicy::Usable(policy) => policy,
        SourcePolicy::Broken(detail) => {
            return because(Effect::Deny, Because::BrokenPolicy { detail: detail.clone() });
        }
    };
    let binding = call.binding;
    let mut matching: Vec<&Rule> =
        policy.rules.iter().filter(|rule| matches(rule, binding)).collect();
    // The most specific first; of equally specific ones the strictest.
    matching.sort_by_key(|rule| std::cmp::Reverse((rule.scope.rank(), rule.effect)));

    if let Some(deny) = matching.iter().find(|rule| rule.effect == Effect::Deny) {
        return because(Effect::Deny, by_rule(deny));
    }
    if let Some(ruling) = on_record(record, call) {
        return ruling;
    }
    match policy.pins.get(&binding.tool.raw) {
        None => return because(Effect::Ask, Because::NewTool),
        Some(pin) if pin.contract != binding.contract => {
            return because(Effect::Ask, Because::Changed);
        }
        Some(_) if call.frozen != binding.contract => {
            return because(Effect::Ask, Because::Changed);
        }
        Some(_) => {}
    }
    if let Some(rule) = matching.first() {
        return because(rule.effect, by_rule(rule));
    }
    if call.read_only {
        because(Effect::Allow, Because::ReadOnly)
    } else {
        because(Effect::Ask, Because::NotReadOnly)
    }
}

fn on_record(record: &DecisionsOnRecord, call: CallFacts<'_>) -> Option<Ruling> {
    let binding = call.binding;
    let decision = call.seq.and_then(|seq| record.calls.get(&seq));
    match decision {
        Some((bound, Choice::Deny)) if same_call(bound, binding) => {
            return Some(because(Effect::Deny, Because::Decision));
        }
        Some((bound, Choice::Once | Choice::Run | Choice::Always)) if bound == binding => {
            return Some(because(Effect::Allow, Because::Decision));
        }
        Some(_) | None => {}
    }
    let denied = (binding.tool.clone(), binding.connection.clone(), binding.arguments);
    if record.denied.contains(&denied) {
        return Some(because(Effect::Deny, Because::DeniedBefore));
    }
    let granted = (binding.tool.clone(), binding.connection.clone(), binding.contract);
    record.grants.contains(&granted).then(|| because(Effect::Allow, Because::RunGrant))
}

/// A person's no stands even if the tool changed meanwhile.
fn same_call(a: &Binding, b: &Binding) -> bool {
    a.tool == b.tool && a.connection == b.connection && a.arguments == b.arguments
}

fn matches(rule: &Rule, binding: &Binding) -> bool {
    rule.scope.tool.as_ref().is_none_or(|tool| *tool == binding.tool.raw)
        && rule.scope.connection.covers(binding.connection.as_ref())
        && rule.contract.is_none_or(|contract| contract == binding.contract)
}

fn by_rule(rule: &Rule) -> Because {
    Because::Rule { scope: rule.scope.clone(), effect: rule.effect }
}

fn because(effect: Effect, reason: Because) -> Ruling {
    Ruling { effect, because: vec![reason] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::SourceId;
    use crate::model::policy::{ConnectionScope, Pin, Policy, Scope};
    use crate::model::time::WallMs;
    use proptest::prelude::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn binding(tool: &str, connection: &str, contract: &str, arguments: &str) -> Binding {
        Binding {
            tool: ToolRef { source: SourceId::from_random([1; 10]), raw: tool.parse().unwrap() },
            connection: connection.parse().ok(),
            contract: digest(contract),
            arguments: digest(arguments),
        }
    }

    /// Rules as `effect tool/connection[@contract]`, with `*` for any; pins as `tool=contract`.
    fn policy(rules: &str, pins: &str) -> Policy {
        let rules = rules.split_whitespace().collect::<Vec<_>>();
        let rules = rules.chunks(2).map(|pair| {
            let effect = match pair[0] {
                "allow" => Effect::Allow,
                "ask" => Effect::Ask,
                _ => Effect::Deny,
            };
            let (scope, contract) = match pair[1].split_once('@') {
                Some((scope, contract)) => (scope, Some(digest(contract))),
                None => (pair[1], None),
            };
            let (tool, connection) = scope.split_once('/').unwrap();
            let scope = Scope {
                tool: (tool != "*").then(|| tool.parse().unwrap()),
                connection: match connection {
                    "*" => ConnectionScope::Any,
                    "-" => ConnectionScope::Without,
                    name => ConnectionScope::Named(name.parse().unwrap()),
                },
            };
            Rule { scope, effect, contract }
        });
        let pins = pins.split_whitespace().map(|pin| {
            let (tool, contract) = pin.split_once('=').unwrap();
            (tool.parse().unwrap(), Pin { contract: digest(contract), reviewed: WallMs(0) })
        });
        Policy { rules: rules.collect(), pins: pins.collect(), ..Policy::default() }
    }

    #[track_caller]
    fn check(rules: &str, pins: &str, connection: &str, read_only: bool, expected: &str) {
        let binding = binding("post", connection, "v1", "{}");
        let facts =
            CallFacts { seq: Some(Seq(1)), binding: &binding, frozen: digest("v1"), read_only };
        let ruling =
            rule(&SourcePolicy::Usable(policy(rules, pins)), &DecisionsOnRecord::default(), facts);
        let shown = format!("{:?}: {}", ruling.effect, ruling.because[0].sentence());
        assert_eq!(shown, expected);
    }

    #[test]
    fn without_a_rule_reads_run_and_everything_else_asks() {
        check("", "post=v1", "", true, "Allow: the tool declares itself read-only");
        check("", "post=v1", "", false, "Ask: the tool does not declare itself read-only");
    }

    #[test]
    fn a_new_or_changed_tool_asks_whatever_the_rules_allow() {
        check("allow post/*", "", "", true, "Ask: nobody has reviewed this tool yet");
        check("allow post/*", "post=v0", "", true, "Ask: the tool changed since it was reviewed");
    }

    #[test]
    fn the_most_specific_rule_decides_and_deny_always_wins() {
        check("allow */* ask post/*", "post=v1", "", true, "Ask: a rule asks about this tool");
        check(
            "ask post/* allow post/work",
            "post=v1",
            "work",
            false,
            "Allow: a rule allows this tool on connection `work`",
        );
        check(
            "ask post/* allow post/work",
            "post=v1",
            "home",
            false,
            "Ask: a rule asks about this tool",
        );
        check(
            "ask post/* allow */work",
            "post=v1",
            "work",
            false,
            "Ask: a rule asks about this tool",
        );
        check(
            "deny */* allow post/work",
            "post=v1",
            "work",
            true,
            "Deny: a rule denies this source",
        );
        check(
            "allow post/-",
            "post=v1",
            "",
            false,
            "Allow: a rule allows this tool without a connection",
        );
        check(
            "allow post/-",
            "post=v1",
            "work",
            false,
            "Ask: the tool does not declare itself read-only",
        );
        check("deny other/*", "post=v1", "", true, "Allow: the tool declares itself read-only");
        check("allow post/* ask post/*", "post=v1", "", true, "Ask: a rule asks about this tool");
    }

    #[test]
    fn a_pinned_rule_holds_for_its_contract_only() {
        check("allow post/*@v1", "post=v1", "", false, "Allow: a rule allows this tool");
        check(
            "allow post/*@v0",
            "post=v1",
            "",
            false,
            "Ask: the tool does not declare itself read-only",
        );
    }

    #[test]
    fn a_broken_policy_denies_its_source() {
        let binding = binding("post", "", "v1", "{}");
        let facts =
            CallFacts { seq: None, binding: &binding, frozen: digest("v1"), read_only: true };
        let broken = SourcePolicy::Broken("policies/x.json line 3: `rules`".to_owned());
        assert_eq!(rule(&broken, &DecisionsOnRecord::default(), facts).effect, Effect::Deny);
    }

    #[track_caller]
    fn check_record(decided: &[(u32, &str, Choice)], frozen: &str, contract: &str, expected: &str) {
        let mut record = DecisionsOnRecord::default();
        for (seq, arguments, choice) in decided {
            record.record(Seq(*seq), &binding("post", "", "v1", arguments), *choice);
        }
        let binding = binding("post", "", contract, "{}");
        let facts = CallFacts {
            seq: Some(Seq(1)),
            binding: &binding,
            frozen: digest(frozen),
            read_only: false,
        };
        let ruling = rule(&SourcePolicy::Usable(policy("", "post=v1")), &record, facts);
        assert_eq!(format!("{:?}: {}", ruling.effect, ruling.because[0].sentence()), expected);
    }

    #[test]
    fn a_decision_covers_the_exact_call_and_a_grant_the_tool() {
        let asks = "Ask: the tool does not declare itself read-only";
        let changed = "Ask: the tool changed since it was reviewed";
        check_record(&[(1, "{}", Choice::Once)], "v1", "v1", "Allow: a person decided this call");
        check_record(&[(1, "{\"a\":1}", Choice::Once)], "v1", "v1", asks);
        check_record(&[(2, "{}", Choice::Once)], "v1", "v1", asks);
        check_record(
            &[(2, "{\"a\":1}", Choice::Run)],
            "v1",
            "v1",
            "Allow: a person allowed this tool for this run",
        );
        check_record(&[(1, "{}", Choice::Once)], "v1", "v2", changed);
        check_record(&[(2, "{}", Choice::Run)], "v1", "v2", changed);
        check_record(&[], "v0", "v1", changed);
    }

    #[test]
    fn a_denied_call_is_denied_again_unasked() {
        check_record(&[(1, "{}", Choice::Deny)], "v1", "v1", "Deny: a person decided this call");
        check_record(&[(1, "{}", Choice::Deny)], "v1", "v2", "Deny: a person decided this call");
        check_record(
            &[(2, "{}", Choice::Deny)],
            "v1",
            "v1",
            "Deny: a person denied the same call earlier in this run",
        );
    }

    proptest! {
        #[test]
        fn adding_a_deny_never_loosens_and_order_never_matters(
            mut rules in proptest::collection::vec((0u8..3, 0u8..2, 0u8..2), 0..6), read_only: bool,
        ) {
            let text = |rules: &[(u8, u8, u8)]| rules.iter().map(|(effect, tool, connection)| format!(
                "{} {}/{} ", ["allow", "ask", "deny"][*effect as usize], ["*", "post"][*tool as usize],
                ["*", "work"][*connection as usize],
            )).collect::<String>();
            let binding = binding("post", "work", "v1", "{}");
            let facts = CallFacts { seq: None, binding: &binding, frozen: digest("v1"), read_only };
            let effect = |rules: &[(u8, u8, u8)]| {
                rule(&SourcePolicy::Usable(policy(&text(rules), "post=v1")), &DecisionsOnRecord::default(), facts).effect
            };
            let before = effect(&rules);
            rules.reverse();
            prop_assert_eq!(before, effect(&rules));
            rules.push((2, 0, 1));
            prop_assert_eq!(effect(&rules), Effect::Deny);
        }
    }
}
