//! What runs inside a worker process: one program, one attempt, then the end.

use super::frame::{FromWorker, ToWorker, read, write};
use super::guest::Blank;
use super::lockdown::lock_down;
use super::meter::MeterKind;
use super::values::STACK_BYTES_WORKER;
use crate::core::code::{get_ready, prepare};
use std::io::{Stdin, Stdout, stdin, stdout};
use std::process::ExitCode;

/// The hidden first argument that makes the binary a worker; looked at before anything else.
pub const WORKER_ARGUMENT: &str = "__sandbox-worker";

/// Exit status of a worker that could not lock itself down, and so ran nothing.
pub(super) const NOT_LOCKED_DOWN: u8 = 3;

/// Runs a worker until its pipe closes. `build` must be the parent's own.
#[must_use]
pub fn run_worker(build: &str) -> ExitCode {
    get_ready();
    let missing = match lock_down() {
        Ok(missing) => missing,
        Err(_) => return ExitCode::from(NOT_LOCKED_DOWN),
    };
    match serve(build, missing) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(4),
    }
}

fn serve(build: &str, missing: Vec<String>) -> std::io::Result<()> {
    let (mut from, mut to): (Stdin, Stdout) = (stdin(), stdout());
    let blank = Blank::new(STACK_BYTES_WORKER).map_err(std::io::Error::other)?;
    write(&mut to, &FromWorker::Ready { build: build.to_owned(), missing })?;
    let mut first = read(&mut from)?;
    if let Some(ToWorker::Prepare(text)) = first {
        let prepared = prepare(&text).map_err(|fault| serde_json::to_string(&fault));
        let prepared = match prepared {
            Ok(prepared) => Ok(prepared),
            Err(fault) => Err(fault.map_err(std::io::Error::other)?),
        };
        write(&mut to, &FromWorker::Prepared(prepared))?;
        first = read(&mut from)?;
    }
    let Some(ToWorker::Open { build: wanted, program }) = first else { return Ok(()) };
    if wanted != build {
        return write(&mut to, &FromWorker::Opened(Err(format!("the worker is build {build}"))));
    }
    let mut guest = match blank.open(program, MeterKind::Cpu) {
        Ok(guest) => guest,
        Err(error) => return write(&mut to, &FromWorker::Opened(Err(error.to_string()))),
    };
    write(&mut to, &FromWorker::Opened(Ok(())))?;
    while let Some(ToWorker::Step(turn)) = read(&mut from)? {
        let yielded = guest.step(turn);
        write(&mut to, &FromWorker::Yielded(Box::new(yielded)))?;
    }
    // Tearing a heap down after it ran full can abort; the process ends anyway.
    std::mem::forget(guest);
    Ok(())
}
