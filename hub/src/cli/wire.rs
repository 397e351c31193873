//! A hub of real parts.

use super::BUILD;
use super::output::Failed;
use crate::adapters::clock::SystemClock;
use crate::adapters::entropy::SystemEntropy;
use crate::adapters::person::{
    Browser, Desktop, Nobody, Preselected, ServedPerson, TerminalPerson,
};
use crate::adapters::postings::KeptPostings;
use crate::adapters::sandbox::{UNFILTERED_VARIABLE, WorkerSandbox};
use crate::adapters::secrets::KeptSecrets;
use crate::adapters::sources::McpSources;
use crate::adapters::store::FileStore;
use crate::driver::Hub;
use crate::model::source::Settings;
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::person::Person;
use crate::ports::store::Store as _;
use std::path::PathBuf;
use std::sync::Arc;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

/// The ports of a hub on this machine.
pub(super) struct Real<H: Person> {
    clock: SystemClock,
    entropy: SystemEntropy,
    store: FileStore,
    secrets: Arc<KeptSecrets>,
    sources: McpSources<KeptSecrets, SystemClock>,
    sandbox: WorkerSandbox,
    postings: KeptPostings,
    person: H,
}

impl<H: Person> Ports for Real<H> {
    type Clock = SystemClock;
    type Entropy = SystemEntropy;
    type Store = FileStore;
    type Secrets = KeptSecrets;
    type Sources = McpSources<KeptSecrets, SystemClock>;
    type Sandbox = WorkerSandbox;
    type Postings = KeptPostings;
    type Person = H;

    fn clock(&self) -> &SystemClock {
        &self.clock
    }

    fn entropy(&self) -> &SystemEntropy {
        &self.entropy
    }

    fn store(&self) -> &FileStore {
        &self.store
    }

    fn secrets(&self) -> &KeptSecrets {
        &self.secrets
    }

    fn sources(&self) -> &Self::Sources {
        &self.sources
    }

    fn sandbox(&self) -> &WorkerSandbox {
        &self.sandbox
    }

    fn postings(&self) -> &KeptPostings {
        &self.postings
    }

    fn person(&self) -> &H {
        &self.person
    }
}

/// A hub that nobody sits at.
pub(super) type UnattendedHub = Hub<Real<Nobody>>;

/// A hub with a person at the controlling terminal.
pub(super) type AttendedHub = Hub<Real<TerminalPerson>>;

pub(super) fn unattended() -> Result<UnattendedHub, Failed> {
    open(|_| Nobody)
}

/// A hub that answers a client, whose person is reached by the client or on a page.
pub(super) type ServingHub = Hub<Real<ServedPerson<KeptSecrets, SystemClock, SystemEntropy>>>;

pub(super) fn serving(settings: &Settings) -> Result<ServingHub, Failed> {
    open(|secrets| {
        ServedPerson::new(
            settings.id.clone(),
            settings.page_mark(),
            secrets,
            SystemClock::new(),
            SystemEntropy,
            browser(),
        )
    })
}

/// What opens approval pages here, if anything can.
pub(super) fn browser() -> Option<Browser> {
    let screen = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let has_screen = screen.into_iter().any(is_set);
    Browser::find(&Desktop { browser: variable("BROWSER"), has_screen })
}

/// The settings of the hub on this machine.
pub(super) async fn settings() -> Result<Settings, Failed> {
    let store = FileStore::new(hub_folder()?);
    Ok(store.settings().await.map_err(crate::driver::HubError::from)?)
}

pub(super) fn attended(preselected: Preselected) -> Result<AttendedHub, Failed> {
    open(|_| TerminalPerson::new(preselected, wall_now))
}

fn wall_now() -> WallMs {
    SystemClock::new().wall()
}

fn open<H: Person>(person: impl FnOnce(&Arc<KeptSecrets>) -> H) -> Result<Hub<Real<H>>, Failed> {
    let clock = SystemClock::new();
    let folder = hub_folder()?;
    // Beside the hub's folder, not in it: a copy of the hub carries no secrets.
    let (file, tokens) = (folder.with_file_name(".env"), folder.join("http-token"));
    let secrets = Arc::new(KeptSecrets::new(variables(), file, tokens));
    let person = person(&secrets);
    let unfiltered = variable(UNFILTERED_VARIABLE).is_some_and(|value| value == "1");
    let sandbox = WorkerSandbox::new(own_program(), BUILD.to_owned(), unfiltered)
        .map_err(|error| Failed::internal(&format!("the sandbox cannot be prepared: {error}")))?;
    let ports = Real {
        clock,
        entropy: SystemEntropy,
        store: FileStore::new(folder.clone()),
        postings: KeptPostings::new(folder.join("index")),
        sources: McpSources::new(Arc::clone(&secrets), clock, own_program()),
        secrets,
        sandbox,
        person,
    };
    Ok(Hub::new(ports, BUILD))
}

/// This program: as it was started, even if the file was replaced since.
fn own_program() -> PathBuf {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { own } else { std::env::current_exe().unwrap_or(own) }
}

/// Where the hub lives.
pub(super) fn hub_folder() -> Result<PathBuf, Failed> {
    let home = match variable("CAPABILITIES_HOME").filter(|home| !home.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => match variable("HOME").filter(|home| !home.is_empty()) {
            Some(home) => PathBuf::from(home).join(".capabilities"),
            None => {
                return Err(Failed::usage(
                    "neither CAPABILITIES_HOME nor HOME is set",
                    "set CAPABILITIES_HOME to a folder of yours",
                ));
            }
        },
    };
    if !home.is_absolute() {
        return Err(Failed::usage(
            format!(
                "CAPABILITIES_HOME is `{}`, which depends on the current folder",
                home.display()
            ),
            "use an absolute path",
        ));
    }
    Ok(home.join("hub"))
}

/// One variable of the environment, if it is set and is text.
#[expect(clippy::disallowed_methods, reason = "the environment is read here and nowhere else")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Logs to standard error, quiet unless told otherwise. The protocol library prints whole messages when
/// it is talkative, so its own lines are off whatever is asked for.
pub(super) fn start_logging() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(variable("CAPABILITIES_LOG").unwrap_or_default());
    let filter = match "rmcp=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}
