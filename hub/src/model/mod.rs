//! The glossary as plain data: ids, names, calls, journal entries, envelopes, limits, error codes.
//!
//! Belongs here: what several rooms must agree on, and what is stored. Does not belong here: a
//! decision, a clock, an effect. Stored shapes are promises: each names its version.

pub mod answer;
pub mod call;
pub mod connection;
pub mod contract;
pub mod digest;
pub mod envelope;
pub mod error;
pub mod facts;
pub mod http;
pub mod ids;
pub mod journal;
pub mod json;
pub mod limits;
pub mod names;
pub mod nearest;
pub mod policy;
pub mod run;
pub mod source;
pub mod time;
pub mod tokens;
pub mod turn;
pub mod visible;
