//! Several processes on one store: nothing is lost, nothing waits for ever, and each sees the others.

mod many;
mod resumes;
mod seen;
