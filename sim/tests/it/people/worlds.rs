//! Seeded worlds of people and clients: only a person ever decides, and a hub that is wrong about it is caught.

use sim::broken::Betrayal;
use sim::fakes::Seen;
use sim::oracles::judge;
use sim::people::play;
use sim::seed::Seed;
use std::collections::BTreeMap;

#[test]
fn in_every_world_only_a_person_decides() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..400 {
        let history = play(Seed(seed), None);
        let broken = judge(&history);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{history:#?}");
        for event in history {
            let name = match event {
                Seen::Durable {
                    entry: hub::model::journal::Entry::Decided { channel, choice, .. },
                    ..
                } => {
                    format!("{choice:?} by {channel:?}")
                }
                Seen::Forbidden { .. } => "forbidden".to_owned(),
                Seen::Reached { write: true, .. } => "a write".to_owned(),
                Seen::Durable { .. }
                | Seen::Reached { .. }
                | Seen::Answered { .. }
                | Seen::Published { .. }
                | Seen::Crashed
                | Seen::Started => continue,
            };
            *seen.entry(name).or_default() += 1;
        }
    }
    // The worlds reach what they are about.
    for name in ["forbidden", "a write"] {
        assert!(seen.get(name).is_some_and(|count| *count > 20), "{seen:#?}");
    }
    for channel in ["Client", "Page", "Terminal"] {
        for choice in ["Once", "Run", "Always", "Deny"] {
            let name = format!("{choice} by {channel}");
            assert!(seen.contains_key(&name), "{name} never happened: {seen:#?}");
        }
    }
}

#[test]
fn the_same_world_twice_is_the_same() {
    for seed in 0..20 {
        assert_eq!(play(Seed(seed), None), play(Seed(seed), None), "seed {seed}");
    }
}

#[track_caller]
fn caught(betrayal: Betrayal, by: &str) {
    let found = (0..400).find(|seed| {
        let played = std::panic::catch_unwind(|| play(Seed(*seed), Some(betrayal)));
        played.is_ok_and(|history| judge(&history).iter().any(|line| line.starts_with(by)))
    });
    assert!(found.is_some(), "{betrayal:?} was not caught by {by} in 400 worlds");
}

#[test]
fn invariant_i2_catches_a_fast_answer_that_is_believed_and_a_number_used_twice() {
    caught(Betrayal::BelievesFast, "i2_");
    caught(Betrayal::ForgetsNonces, "i2_");
}

#[test]
fn invariant_i2_catches_a_late_answer_that_counts() {
    caught(Betrayal::NeverExpires, "i2_");
}

#[test]
fn arguments_completed_after_their_digest_are_caught() {
    caught(Betrayal::FillsDefaults, "nothing_leaves");
}

#[test]
fn invariant_i2_catches_a_grant_that_ignores_the_connection() {
    caught(Betrayal::GrantsAnyConnection, "i2_");
}

#[test]
fn a_deny_that_is_read_only_once_is_caught() {
    caught(Betrayal::ReadsPoliciesOnce, "a_rule_that_became_deny");
}
