//! What can be typed.

use clap::{Args, Parser, Subcommand};

/// One MCP endpoint for every tool your agents use.
#[derive(Debug, Parser)]
#[command(name = "capabilities", version, propagate_version = true, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// The capability hub: sources, runs, approvals
    #[command(after_help = HUB_HELP)]
    Hub(HubArguments),
}

const HUB_HELP: &str = "\
First steps:
  capabilities hub init                                  make the hub
  capabilities hub add npx -y @acme/mcp-server@1.2.3     add a local MCP server and review its tools
  capabilities hub add https://mcp.example.com/mcp       add a server over HTTP
  capabilities hub exec 'return await acme.listThings()' try it
  capabilities hub serve --stdio --profile default       what an agent's config starts

Exit status: 0 done, 1 failed, 2 wrong usage, 3 waits for a person.
Files are under ~/.capabilities/hub, or under $CAPABILITIES_HOME/hub.";

#[derive(Debug, Args)]
pub(super) struct HubArguments {
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Never ask anything; fail and name what would have answered
    #[arg(long, global = true)]
    pub(super) no_input: bool,
    #[command(subcommand)]
    pub(super) command: HubCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum HubCommand {
    /// Make the hub
    Init,
    /// Add a source: an MCP server, by its command line or its address
    Add(AddArguments),
    /// List sources
    List,
    /// Remove a source with its rules, reviews and credentials
    Remove {
        /// The source's namespace
        namespace: String,
    },
    /// Read tool lists again and say what changed upstream
    Refresh {
        /// Only this source
        namespace: Option<String>,
    },
    /// Decide about new and changed tools, and agree to run new sources
    Review(ReviewArguments),
    /// Enter a credential for a source, at a masked prompt
    Auth(AuthArguments),
    /// List a source's connections, or change them
    Connections(ConnectionsArguments),
    /// Serve the MCP endpoint to a client
    Serve(ServeArguments),
    /// Call one tool
    Call(CallArguments),
    /// Run code, as an agent would
    Exec(ExecArguments),
    /// List runs, or show one
    Runs(RunsArguments),
    /// Decide pending calls and let their runs go on
    Approve(ApproveArguments),
    /// Cancel a run
    Cancel {
        /// The run's id
        run: String,
    },
    /// Check the store, the sandbox and every source
    Doctor,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  capabilities hub add npx -y @modelcontextprotocol/server-memory@2026.8.31
  capabilities hub add --namespace files npx -y @modelcontextprotocol/server-filesystem@2026.8.31 ~/notes
  capabilities hub add --env GITHUB_TOKEN --env LOG=warn ./my-server --verbose
  capabilities hub add https://mcp.example.com/mcp

The exact command or address is shown before anything of it runs, and only that is ever run or reached.")]
pub(super) struct AddArguments {
    /// What it is called in code, such as `github`; proposed from the command or address if left out
    #[arg(long)]
    pub(super) namespace: Option<String>,
    /// A few words about it that agents see in the inventory
    #[arg(long)]
    pub(super) label: Option<String>,
    /// A variable the server gets: NAME=value, or NAME alone to pass your own on; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<String>,
    /// The folder it runs in; the current one if left out
    #[arg(long, value_name = "FOLDER")]
    pub(super) cwd: Option<std::path::PathBuf>,
    /// Agree to what is shown and accept the proposed policy without asking
    #[arg(long)]
    pub(super) accept: bool,
    /// The command and its arguments, or one address
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND|URL"
    )]
    pub(super) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ReviewArguments {
    /// Only this source
    pub(super) namespace: Option<String>,
    /// Agree to commands and accept every proposal without asking
    #[arg(long)]
    pub(super) accept: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  capabilities hub auth linear
  capabilities hub auth search --header X-Api-Key
  capabilities hub auth github --env GITHUB_TOKEN
  pass show work/linear | capabilities hub auth linear --connection work --stdin

The credential is kept in the system's keychain, is sent only where it is said to go before you type it,
and is taken out of everything that comes back. It is never given as an argument: other programs could
read it there.")]
pub(super) struct AuthArguments {
    /// The source's namespace
    pub(super) namespace: String,
    /// The connection it belongs to; made if it is not there yet
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(super) connection: String,
    /// Send it as `Authorization: Bearer …`; the usual way over HTTP
    #[arg(long, group = "place")]
    pub(super) bearer: bool,
    /// Send it as the value of this header
    #[arg(long, group = "place", value_name = "NAME")]
    pub(super) header: Option<String>,
    /// Send it as this parameter of the address
    #[arg(long, group = "place", value_name = "NAME")]
    pub(super) query: Option<String>,
    /// Send it as `Authorization: Basic …`; typed as user:password
    #[arg(long, group = "place")]
    pub(super) basic: bool,
    /// Give it to a local server as this variable
    #[arg(long, group = "place", value_name = "NAME")]
    pub(super) env: Option<String>,
    /// Read it from standard input instead of asking
    #[arg(long)]
    pub(super) stdin: bool,
    /// Use this connection for calls that name none
    #[arg(long)]
    pub(super) default: bool,
}

#[derive(Debug, Args)]
pub(super) struct ConnectionsArguments {
    /// The source's namespace
    pub(super) namespace: String,
    /// Remove this connection with its secrets
    #[arg(long, value_name = "NAME", conflicts_with = "default")]
    pub(super) remove: Option<String>,
    /// Use this connection for calls that name none
    #[arg(long, value_name = "NAME")]
    pub(super) default: Option<String>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("way").required(true))]
pub(super) struct ServeArguments {
    /// Speak MCP over standard input and output, with the client that starts this process
    #[arg(long, group = "way")]
    pub(super) stdio: bool,
    /// Serve clients on this machine over HTTP, each with the token in the hub's file `http-token`
    #[arg(long, group = "way")]
    pub(super) http: bool,
    /// The port; another is never taken by itself, so that nobody is mistaken for the hub
    #[arg(long, conflicts_with = "stdio", default_value_t = 4790)]
    pub(super) port: u16,
    /// The view of the hub to serve
    #[arg(long, default_value = "default")]
    pub(super) profile: String,
}

#[derive(Debug, Args)]
pub(super) struct CallArguments {
    /// The tool, as <namespace>.<tool>
    pub(super) address: String,
    /// Its arguments as one JSON object
    #[arg(default_value = "{}")]
    pub(super) arguments: String,
    /// The connection to use
    #[arg(long)]
    pub(super) connection: Option<String>,
    /// The view of the hub to use
    #[arg(long, default_value = "default")]
    pub(super) profile: String,
}

#[derive(Debug, Args)]
pub(super) struct ExecArguments {
    /// The code, or `-` to read it from standard input
    pub(super) code: String,
    /// The view of the hub to use
    #[arg(long, default_value = "default")]
    pub(super) profile: String,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RunsArguments {
    /// Only runs with this status
    #[arg(long, value_parser = ["running", "awaiting_input", "completed", "failed", "cancelled", "expired"])]
    pub(super) status: Option<String>,
    #[command(subcommand)]
    pub(super) command: Option<RunsCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunsCommand {
    /// Show one run: its code, its calls, what waits
    Show {
        /// The run's id
        run: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
The answer is read from your terminal, never from standard input, and takes one key. A flag only
preselects the answer that Enter gives.")]
pub(super) struct ApproveArguments {
    /// The run; every run that waits if left out
    pub(super) run: Option<String>,
    /// Preselect: this call runs
    #[arg(long, group = "choice")]
    pub(super) once: bool,
    /// Preselect: this tool runs for the rest of the run
    #[arg(long = "run", group = "choice", id = "for_run")]
    pub(super) for_run: bool,
    /// Preselect: this tool always runs, as long as it does not change
    #[arg(long, group = "choice")]
    pub(super) always: bool,
    /// Preselect: the call fails
    #[arg(long, group = "choice")]
    pub(super) deny: bool,
    /// Only this call, such as c3
    #[arg(long, value_name = "CALL")]
    pub(super) call: Option<String>,
}
