//! The person, on the channels that reach them.

mod nobody;
mod terminal;

pub use nobody::Nobody;
pub use terminal::{Preselected, TerminalPerson};
