//! The simulator's command line; also the worker and the fake server that its tests start.

use clap::{Parser, Subcommand};
use sim::oracles::judge;
use sim::seed::Seed;
use sim::world::{Honest, Plan, play};
use sim::{answer, awkward, leaky, probe, server};
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
    /// Lock down as a sandbox worker does, then try what must be refused
    Probe(probe::Probe),
    /// Play seeded worlds and judge them
    Run(Run),
    /// Serve an MCP server that is as odd as those in the wild
    Awkward(awkward::Awkward),
    /// Serve an MCP server that gives its credential away
    Leaky(leaky::Leaky),
    /// Measure what the hub costs on this machine; builds nothing, so build it with `--release` first
    Figures,
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

#[derive(Debug, clap::Args)]
struct Run {
    /// The first world
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many worlds
    #[arg(long, default_value_t = 1)]
    count: u64,
}

fn main() -> ExitCode {
    // Started as a sandbox worker or a keeper, this is one, and nothing else may happen before.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == hub::adapters::sandbox::WORKER_ARGUMENT {
        return hub::adapters::sandbox::run_worker(hub::cli::BUILD);
    }
    if first == hub::adapters::sources::KEEPER_ARGUMENT {
        return hub::adapters::sources::run_keeper();
    }
    let done = match Arguments::parse().command {
        Command::Answer(arguments) => answer_prompts(&arguments),
        Command::Awkward(arguments) => awkward::serve(&arguments),
        Command::Leaky(arguments) => leaky::serve(&arguments),
        Command::Probe(attempt) => probe::probe(&attempt),
        Command::Run(run) => play_worlds(&run),
        Command::Figures => print_figures(),
        Command::Server(script) => server::serve(&script),
    };
    done.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Exits with 10 if an oracle finds a rule broken; the plan and the journal are printed then.
fn play_worlds(run: &Run) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    for seed in run.seed..run.seed.saturating_add(run.count) {
        let plan = Plan::of(Seed(seed));
        let outcome = play(&Honest, Seed(seed), &plan);
        let broken = judge(&outcome.history);
        if !broken.is_empty() {
            for line in &broken {
                writeln!(out, "FAIL  {line}")?;
            }
            writeln!(out, "seed  {seed}\n{plan:#?}\n{:#?}", outcome.journal)?;
            writeln!(out, "\nreplay  cargo run -p sim -- run --seed {seed}")?;
            return Ok(ExitCode::from(10));
        }
        if run.count == 1 {
            let status = outcome.envelope.map(|envelope| envelope.status);
            let (seen, processes) = (outcome.history.len(), outcome.processes);
            writeln!(out, "{}\n{seen} events, {processes} processes, {status:?}", plan.program)?;
        }
    }
    writeln!(out, "{} worlds, every rule kept", run.count)?;
    Ok(ExitCode::SUCCESS)
}

fn print_figures() -> anyhow::Result<ExitCode> {
    let sim = std::env::current_exe()?;
    let capabilities = sim.with_file_name("capabilities");
    anyhow::ensure!(
        capabilities.exists(),
        "there is no {}: cargo build --release -p hub -p sim",
        capabilities.display()
    );
    sim::figures::print(&capabilities, &sim, &mut std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
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
