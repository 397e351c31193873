//! The QuickJS sandbox: one guest, run inline or in a worker process of its own.
//!
//! `guest` is the same code for both. `worker` is what runs inside the process, `process` is the hub's
//! side of it, `frame` what they say to each other, `lockdown` what a worker gives up first. `rquickjs` is named nowhere else.

mod explain;
mod frame;
mod guest;
mod host;
#[cfg(target_os = "linux")]
mod inherited;
mod inline;
mod lockdown;
mod meter;
mod process;
mod raw;
#[cfg(target_os = "linux")]
mod syscalls;
mod values;
mod worker;

pub use inline::InlineSandbox;
pub use lockdown::Layer;
pub use process::{UNFILTERED_VARIABLE, WorkerSandbox};
pub use worker::{WORKER_ARGUMENT, run_worker};
