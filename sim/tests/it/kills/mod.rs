//! Hubs killed at random points of runs with writes: nothing happens twice, and nothing is forgotten.
//!
//! `SIM_KILLS=500` plays so many stories instead of forty; `SIM_KILL_SEED=7` repeats one.

pub(crate) mod judge;
mod program;
mod story;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use story::{Stage, Tally};

/// Stories in an ordinary test.
const STORIES: u64 = 40;
/// Hubs that are killed at the same time, each in a home of its own.
const STAGES: usize = 3;

#[test]
fn a_hub_killed_anywhere_repeats_no_write_and_forgets_none() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut seeds = match number("SIM_KILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_KILLS").unwrap_or(STORIES),
    };
    let stories = seeds.end - seeds.start;
    let seeds = Mutex::new(&mut seeds);
    let played = std::thread::scope(|scope| {
        let stages: Vec<_> = (0..STAGES).map(|_| scope.spawn(|| all_of(&seeds))).collect();
        stages.into_iter().map(|stage| stage.join()).collect::<Vec<_>>()
    });
    let mut tally = Tally::default();
    for one in played {
        tally += one.unwrap_or_else(|panic| resume_unwind(panic));
    }
    eprintln!("{stories} stories: {tally:?}");
    // Were all of them killed before anything happened, the rest would prove nothing.
    assert!(
        stories == 1 || tally.runs as u64 * 2 > stories && tally.calls > tally.runs,
        "{tally:?}"
    );
}

fn all_of(seeds: &Mutex<&mut std::ops::Range<u64>>) -> Tally {
    let next = || seeds.lock().expect("nobody panics in here").next();
    let stage = Stage::new();
    let mut tally = Tally::default();
    while let Some(seed) = next() {
        match catch_unwind(AssertUnwindSafe(|| stage.play(seed))) {
            Ok(one) => tally += one,
            Err(panic) => {
                eprintln!("seed {seed}: repeat it with SIM_KILL_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
    tally
}
