//! The simulator's command line; also the worker and the fake server that its tests start.

use clap::{Parser, Subcommand};
use sim::{answer, server};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// Seeded worlds around the hub, and the parts its tests are made of.
#[derive(Debug, Parser)]
#[command(name = "sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command on a pseudo-terminal and answer its prompts
    Answer(Answer),
    /// Serve a scripted MCP server over standard input and output
    Server(server::Script),
}

#[derive(Debug, clap::Args)]
struct Answer {
    /// One key for each prompt, in order; `+` stands for Enter
    #[arg(long)]
    keys: String,
    /// Give up after so many seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    within: u64,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    // Started as a sandbox worker, this is one, and nothing else may happen before.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == hub::adapters::sandbox::WORKER_ARGUMENT)
    {
        return hub::adapters::sandbox::run_worker(hub::cli::BUILD);
    }
    let done = match Arguments::parse().command {
        Command::Answer(arguments) => answer_prompts(&arguments),
        Command::Server(script) => server::serve(&script),
    };
    done.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}

fn answer_prompts(arguments: &Answer) -> anyhow::Result<ExitCode> {
    let (program, rest) =
        arguments.command.split_first().ok_or_else(|| anyhow::anyhow!("no command is given"))?;
    let mut command = std::process::Command::new(program);
    command.args(rest);
    let keys = arguments.keys.replace('+', "\r");
    let within = Duration::from_secs(arguments.within);
    let answered = answer::answer(&command, &keys, within, &mut std::io::stdout())?;
    Ok(ExitCode::from(u8::try_from(answered.status).unwrap_or(1)))
}
