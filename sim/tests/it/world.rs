//! Seeded worlds: the hub keeps its promises in all of them, and the oracles can tell a hub that does not.

use sim::broken::{Betrayal, Broken};
use sim::fakes::Crash;
use sim::oracles::judge;
use sim::seed::Seed;
use sim::world::{Honest, Maker, Outcome, Plan, play};

/// Plays a plan and fails with everything needed to repeat it.
#[track_caller]
fn check(seed: u64, plan: &Plan) -> Outcome {
    let outcome = play(&Honest, Seed(seed), plan);
    let broken = judge(&outcome.history);
    assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{plan:#?}\n{:#?}", outcome.journal);
    let ended = outcome.envelope.as_ref().is_some_and(|envelope| {
        use hub::model::envelope::EnvelopeStatus as Status;
        matches!(envelope.status, Status::Completed | Status::Failed)
    });
    // A process that died before the run was stored leaves nothing to end.
    assert!(
        ended,
        "seed {seed}: the run did not end: {:?}\n{plan:#?}\n{:#?}",
        outcome.envelope, outcome.journal
    );
    if let Some(error) = outcome.envelope.as_ref().and_then(|envelope| envelope.error.as_ref()) {
        let fine = ["wall_limit", "uncaught_error"].contains(&error.code.as_str());
        assert!(fine, "seed {seed}: {error}\n{plan:#?}\n{:#?}", outcome.journal);
    }
    outcome
}

#[test]
fn seeded_worlds_keep_every_promise() {
    for seed in 0..300 {
        check(seed, &Plan::of(Seed(seed)));
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_history() {
    for seed in 0..20 {
        let plan = Plan::of(Seed(seed));
        let (first, second) = (play(&Honest, Seed(seed), &plan), play(&Honest, Seed(seed), &plan));
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.journal, second.journal, "seed {seed}");
    }
}

/// Reads from one source, writes to the other, in parallel and one after the other.
const SHORT: &str = "\
const bugs = await alpha.get({ k: 1 });
const all = await Promise.all([beta.post({ k: 2 }), alpha.get({ k: 3 }), beta.post({ k: 4 })]);
await new Promise((done) => setTimeout(done, 50));
beta.purge({ k: 5 });
return [bugs.got.k, all.length, Math.random() < 2];
";

#[test]
fn a_crash_between_any_two_effects_repeats_nothing_and_ends_the_same() {
    let calm = check(1, &Plan::calm(SHORT));
    let result = calm.envelope.as_ref().and_then(|envelope| envelope.result.clone());
    assert_eq!(result, Some(serde_json::json!([1, 3, true])));
    let mut unknown = 0;
    for at in 0..calm.effects {
        for after in [false, true] {
            for kept in [0, 1] {
                let plan = Plan { crashes: vec![Crash { at, after }], kept, ..Plan::calm(SHORT) };
                let outcome = check(1, &plan);
                let envelope = outcome.envelope.expect("checked");
                match envelope.error {
                    None => assert_eq!(envelope.result, result, "crash at {at}, after {after}"),
                    // A write in doubt is an error the program does not catch.
                    Some(error) => {
                        assert!(
                            error.message.contains("outcome_unknown"),
                            "crash at {at}: {error}"
                        );
                        unknown += 1;
                    }
                }
            }
        }
    }
    assert!(unknown > 0, "some crash falls between a write and its answer");
}

#[track_caller]
fn caught(betrayal: Betrayal, by: &str) {
    let found = (0..100).find(|seed| {
        let outcome = std::panic::catch_unwind(|| {
            play(&Broken(betrayal), Seed(*seed), &Plan::of(Seed(*seed)))
        });
        outcome.is_ok_and(|outcome| judge(&outcome.history).iter().any(|line| line.starts_with(by)))
    });
    assert!(found.is_some(), "{betrayal:?} was not caught by {by} in 100 seeds");
}

#[test]
fn invariant_i2_catches_a_forged_decision() {
    caught(Betrayal::ForgesDecisions, "i2_");
}

#[test]
fn invariant_i6_catches_a_forgotten_sent_and_a_repeated_call() {
    caught(Betrayal::ForgetsSent, "i6_");
    caught(Betrayal::RetriesLost, "i6_");
}

#[test]
fn a_call_before_its_sent_is_synced_is_caught() {
    caught(Betrayal::NeverSyncs, "sent_is_synced");
    caught(Betrayal::ForgetsSent, "sent_is_synced");
}

#[test]
fn a_call_that_nobody_allowed_is_caught() {
    caught(Betrayal::NeverSyncs, "nothing_leaves");
}

/// The maker trait is what a broken hub replaces; an honest one passes the same seeds.
#[test]
fn the_seeds_that_catch_broken_hubs_pass_with_the_real_one() {
    fn clean<M: Maker>(maker: &M) -> bool {
        (0..40)
            .all(|seed| judge(&play(maker, Seed(seed), &Plan::of(Seed(seed))).history).is_empty())
    }
    assert!(clean(&Honest));
}
