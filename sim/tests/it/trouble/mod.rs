//! What goes wrong, and what is said about it: what, where, and what to do next.

mod clock;
mod codes;
mod disk;
mod journal;
mod said;
mod store;
mod upgrade;
