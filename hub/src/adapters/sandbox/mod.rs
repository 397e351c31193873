//! The QuickJS sandbox: one guest, run inline or in a worker process of its own.
//!
//! `guest` is the same code for both. `worker` is what runs inside the process, `process` is the hub's
//! side of it, `frame` what they say to each other. `rquickjs` is named nowhere else.

mod explain;
mod frame;
mod guest;
mod host;
mod inline;
mod lockdown;
mod meter;
mod process;
mod raw;
mod values;
mod worker;

pub use inline::InlineSandbox;
pub use process::WorkerSandbox;
pub use worker::{WORKER_ARGUMENT, run_worker};
