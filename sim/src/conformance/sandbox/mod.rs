//! What every sandbox must do.
//!
//! `cases/` holds the suite as text: a program, then what it asks for and what it is told, line by line.
//! `case` reads that, `play` runs it against a sandbox and writes down what happened.

mod case;
mod play;

pub use case::{Case, Kind, read};
pub use play::{mismatches, program, transcript};

/// The suite, by topic.
pub const TOPICS: &[(&str, &str)] = &[
    ("sources", include_str!("cases/sources.txt")),
    ("helpers", include_str!("cases/helpers.txt")),
    ("time and chance", include_str!("cases/time_and_chance.txt")),
    ("text and bytes", include_str!("cases/text_and_bytes.txt")),
    ("values", include_str!("cases/values.txt")),
    ("promises", include_str!("cases/promises.txt")),
    ("errors", include_str!("cases/errors.txt")),
    ("not available", include_str!("cases/not_available.txt")),
    ("patches", include_str!("cases/patches.txt")),
    ("limits", include_str!("cases/limits.txt")),
];

/// Programs that mean harm, by topic, in the form of the suite.
pub const HOSTILE: &[(&str, &str)] = &[
    ("compilers", include_str!("../../../../fixtures/programs/compilers.txt")),
    ("pollution", include_str!("../../../../fixtures/programs/pollution.txt")),
    ("names", include_str!("../../../../fixtures/programs/names.txt")),
    ("values", include_str!("../../../../fixtures/programs/values.txt")),
    ("depth", include_str!("../../../../fixtures/programs/depth.txt")),
    ("memory", include_str!("../../../../fixtures/programs/memory.txt")),
    ("loops", include_str!("../../../../fixtures/programs/loops.txt")),
    ("parser", include_str!("../../../../fixtures/programs/parser.txt")),
    ("floods", include_str!("../../../../fixtures/programs/floods.txt")),
];
