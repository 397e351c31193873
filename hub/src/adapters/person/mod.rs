//! The person, on the channels that reach them: their client's own prompt, the approval page, a terminal.
//!
//! `words` is what every channel says alike. Nothing here records a decision: answers are handed to the
//! driver.

mod masked;
mod nobody;
mod page;
mod prompt;
mod served;
mod terminal;
mod words;

pub use nobody::Nobody;
pub use page::{Browser, Desk, Desktop, Method, Reply, Request};
pub use prompt::{ClientPrompts, DECISION_FIELD};
pub use served::ServedPerson;
pub use terminal::{Preselected, TerminalPerson};
