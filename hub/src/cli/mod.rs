//! The command line: arguments, wiring, rendering, exit status.
//!
//! `args` is what can be typed, `address` reads what `add` reaches, `wire` makes a hub of real parts, `output` prints and decides exit
//! status, `who` tells a person at a terminal from an agent's shell; the other files are the commands.

mod add;
mod address;
mod args;
mod connections;
mod decide;
mod doctor;
mod output;
mod review;
mod run;
mod serve;
mod setup;
mod who;
mod wire;

pub use who::AGENT_VARIABLES;

use crate::adapters::sandbox::{WORKER_ARGUMENT, run_worker};
use crate::adapters::sources::{KEEPER_ARGUMENT, run_keeper};
use args::{Arguments, Command, HubCommand};
use clap::Parser as _;
use output::{Done, Failed, Output};
use std::process::ExitCode;

/// The build, as journals and handshakes name it.
pub const BUILD: &str = env!("CARGO_PKG_VERSION");

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // A worker is this same program, and must be locked down before anything else happens in it.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == WORKER_ARGUMENT {
        return run_worker(BUILD);
    }
    if first == KEEPER_ARGUMENT {
        return run_keeper();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no mistakes.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    wire::start_logging();
    let Command::Hub(hub) = arguments.command;
    let output = Output { json: hub.json };
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return output.failed(&Failed::internal(&error.to_string())),
        };
    let done = runtime.block_on(dispatch(hub.command, &output, hub.no_input));
    // A reader thread may be stuck in a read that never ends; nothing waits for it.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match done {
        Ok(Done::Ok) => ExitCode::SUCCESS,
        Ok(Done::Failed) => ExitCode::from(1),
        Ok(Done::WaitsForPerson) => ExitCode::from(3),
        Err(failed) => output.failed(&failed),
    }
}

async fn dispatch(command: HubCommand, output: &Output, no_input: bool) -> Result<Done, Failed> {
    match command {
        HubCommand::Init => setup::init(output).await,
        HubCommand::Add(arguments) => add::add(output, arguments, no_input).await,
        HubCommand::List => setup::list(output).await,
        HubCommand::Remove { namespace } => setup::remove(output, &namespace).await,
        HubCommand::Refresh { namespace } => setup::refresh(output, namespace.as_deref()).await,
        HubCommand::Review(arguments) => review::review(output, arguments, no_input).await,
        HubCommand::Auth(arguments) => connections::auth(output, arguments, no_input).await,
        HubCommand::Connections(arguments) => connections::connections(output, arguments).await,
        HubCommand::Serve(arguments) => serve::serve(output, arguments).await,
        HubCommand::Call(arguments) => run::call(output, arguments, no_input).await,
        HubCommand::Exec(arguments) => run::exec(output, arguments, no_input).await,
        HubCommand::Runs(arguments) => run::runs(output, arguments).await,
        HubCommand::Approve(arguments) => decide::approve(output, arguments, no_input).await,
        HubCommand::Cancel { run } => decide::cancel(output, &run).await,
        HubCommand::Doctor => doctor::doctor(output).await,
    }
}
