//! Tests of the source itself.
#![expect(clippy::disallowed_methods, reason = "tidy reads the source")]

mod tidy;
