//! The hub's side of a worker: start it ahead, drive it turn by turn, and kill it at its budget.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "starts workers and keeps their clock"
)]

use super::frame::{self, FromWorker, ToWorker};
use super::lockdown::Layer;
use super::worker::{NOT_LOCKED_DOWN, WORKER_ARGUMENT};
use crate::model::error::Failure;
use crate::model::turn::{GuestLimit, Prepared, Program, Turn, Yielded};
use crate::ports::sandbox::{Guest, Sandbox, SandboxError};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// Workers started ahead.
const AHEAD: usize = 1;
/// How long a worker may take to lock itself down.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// CPU time that preparing code may take; 64 KB take a few milliseconds.
const PREPARE_WITHIN: Duration = Duration::from_secs(2);
/// Workers kept with the code they prepared; those whose code is never run make room.
const PREPARED_MAX: usize = 2;
/// A worker that says something else than it was asked for is not listened to any longer.
const OUT_OF_TURN: &str = "the worker spoke out of turn";
/// How long a worker whose pipe closed may take to be gone, and how often that is looked at.
const GONE_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often the budget of a running step is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(25);
/// CPU time over the budget after which a worker is killed: the engine's own limit is a polite one.
const GRACE: Duration = Duration::from_millis(200);

/// The variable that lets workers run where their system calls cannot be filtered.
pub const UNFILTERED_VARIABLE: &str = "CAPABILITIES_WITHOUT_SECCOMP";

/// Runs each guest in a process of its own.
#[derive(Debug, Clone)]
pub struct WorkerSandbox {
    shared: Arc<Shared>,
}

type Spawner = mpsc::Sender<oneshot::Sender<std::io::Result<Child>>>;

#[derive(Debug)]
struct Shared {
    build: String,
    /// Run workers even where the system cannot filter their system calls.
    unfiltered: bool,
    /// Asks the one thread that starts workers: their parent-death signal follows that thread.
    spawner: Spawner,
    ahead: Mutex<Vec<Worker>>,
    /// Workers that prepared some code, by that code: they run it, and no other.
    prepared: Mutex<VecDeque<(String, Worker)>>,
}

impl WorkerSandbox {
    /// Workers are `program` run with [`WORKER_ARGUMENT`]; `build` is checked in the handshake. A worker
    /// whose system calls are not filtered is refused, unless `unfiltered`.
    ///
    /// # Errors
    /// The thread that starts workers cannot be made.
    pub fn new(
        program: PathBuf,
        build: String,
        unfiltered: bool,
    ) -> std::io::Result<WorkerSandbox> {
        let (spawner, requests) = mpsc::channel::<oneshot::Sender<std::io::Result<Child>>>();
        std::thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(move || {
            for answer in requests {
                // Nobody waits any more: the process would be left behind.
                if let Err(Ok(mut child)) = answer.send(spawn(&program)) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        })?;
        let (ahead, prepared) = (Mutex::default(), Mutex::default());
        let shared = Shared { build, unfiltered, spawner, ahead, prepared };
        Ok(WorkerSandbox { shared: Arc::new(shared) })
    }

    /// Starts a worker ahead, unless one waits already. Never fails: the next run starts its own.
    pub fn start_ahead(&self) {
        let this = self.clone();
        tokio::spawn(async move {
            if this.lock().len() >= AHEAD {
                return;
            }
            if let Ok(worker) = this.spawn().await {
                let mut ahead = this.lock();
                if ahead.len() < AHEAD {
                    ahead.push(worker);
                }
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.shared.ahead.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A worker that has seen nothing yet.
    async fn take(&self) -> Result<Worker, SandboxError> {
        let waiting = self.lock().pop();
        match waiting.and_then(Worker::if_alive) {
            Some(worker) => Ok(worker),
            None => self.spawn().await,
        }
    }

    /// The worker that prepared exactly this code.
    fn prepared_for(&self, body: &str) -> Option<Worker> {
        let mut prepared =
            self.shared.prepared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = prepared.iter().position(|(code, _)| code == body)?;
        prepared.remove(at).and_then(|(_, worker)| worker.if_alive())
    }

    async fn spawn(&self) -> Result<Worker, SandboxError> {
        let unavailable = |error: std::io::Error| SandboxError::Unavailable(error.to_string());
        let (answer, spawned) = oneshot::channel();
        let gone =
            || SandboxError::Unavailable("the thread that starts workers is gone".to_owned());
        self.shared.spawner.send(answer).map_err(|_| gone())?;
        let child = spawned.await.map_err(|_| gone())?.map_err(unavailable)?;
        let mut worker = Worker::new(child, self.shared.spawner.clone()).map_err(unavailable)?;
        let ready = tokio::time::timeout(READY_WITHIN, worker.receive()).await;
        match ready {
            Ok(Ok(FromWorker::Ready { build, missing })) if build == self.shared.build => {
                let seccomp = Layer::Seccomp.name();
                let unfiltered = missing.iter().any(|layer| layer == seccomp);
                if cfg!(target_os = "linux") && unfiltered && !self.shared.unfiltered {
                    return Err(SandboxError::Unavailable(format!(
                        "this system has no seccomp, so code could reach files and the network if it broke out of its engine; set {UNFILTERED_VARIABLE}=1 to run it all the same"
                    )));
                }
                worker.missing = missing;
                Ok(worker)
            }
            Ok(Ok(FromWorker::Ready { .. })) => Err(SandboxError::Unavailable(
                "the program on disk was replaced while this process ran; restart it".to_owned(),
            )),
            Ok(Ok(FromWorker::Prepared(_) | FromWorker::Opened(_) | FromWorker::Yielded(_))) => {
                Err(SandboxError::Unavailable(OUT_OF_TURN.to_owned()))
            }
            Ok(Err(error)) => Err(SandboxError::Unavailable(worker.obituary(&error).await)),
            Err(_) => {
                Err(SandboxError::Unavailable("the worker did not become ready in time".to_owned()))
            }
        }
    }
}

impl Sandbox for WorkerSandbox {
    type Guest = Worker;

    async fn prepare(&self, text: &str) -> Result<Result<Prepared, Failure>, SandboxError> {
        let mut worker = self.take().await?;
        let prepared = match worker.ask(&ToWorker::Prepare(text.to_owned()), PREPARE_WITHIN).await?
        {
            FromWorker::Prepared(Ok(prepared)) => prepared,
            FromWorker::Prepared(Err(fault)) => {
                return serde_json::from_str(&fault)
                    .map(Err)
                    .map_err(|error| SandboxError::Crashed(error.to_string()));
            }
            FromWorker::Ready { .. } | FromWorker::Opened(_) | FromWorker::Yielded(_) => {
                return Err(SandboxError::Crashed(OUT_OF_TURN.to_owned()));
            }
        };
        let mut waiting =
            self.shared.prepared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        waiting.push_back((prepared.body.clone(), worker));
        if waiting.len() > PREPARED_MAX {
            waiting.pop_front();
        }
        Ok(Ok(prepared))
    }

    async fn open(&self, program: Program) -> Result<Worker, SandboxError> {
        let mut worker = match self.prepared_for(&program.body) {
            Some(worker) => worker,
            None => self.take().await?,
        };
        self.start_ahead();
        let open = ToWorker::Open { build: self.shared.build.clone(), program };
        match tokio::time::timeout(READY_WITHIN, worker.exchange(&open)).await {
            Ok(Ok(FromWorker::Opened(Ok(())))) => Ok(worker),
            Ok(Ok(FromWorker::Opened(Err(why)))) => Err(SandboxError::Unavailable(why)),
            Ok(Ok(FromWorker::Ready { .. } | FromWorker::Prepared(_) | FromWorker::Yielded(_))) => {
                Err(SandboxError::Unavailable(OUT_OF_TURN.to_owned()))
            }
            Ok(Err(error)) => Err(SandboxError::Unavailable(worker.obituary(&error).await)),
            Err(_) => Err(SandboxError::Unavailable(
                "the worker did not open the program in time".to_owned(),
            )),
        }
    }
}

/// One worker process. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    to: pipe::Sender,
    from: pipe::Receiver,
    /// Layers of the lock-down that it says this system lacks.
    missing: Vec<String>,
    /// Keeps the thread that started it: a worker dies with that thread.
    _spawner: Spawner,
}

impl Worker {
    /// Takes over a started process. Must run where pipes can be waited for.
    fn new(mut child: Child, spawner: Spawner) -> std::io::Result<Worker> {
        let pipes = child.stdin.take().zip(child.stdout.take());
        let Some((stdin, stdout)) = pipes else {
            return Err(std::io::Error::other("the worker has no pipes"));
        };
        let to = pipe::Sender::from_owned_fd(stdin.into());
        let from = pipe::Receiver::from_owned_fd(stdout.into());
        Ok(Worker { child, to: to?, from: from?, missing: Vec::new(), _spawner: spawner })
    }

    /// Layers of the lock-down that this system lacks, by name.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// This worker, unless it died while it waited.
    fn if_alive(mut self) -> Option<Worker> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    async fn receive(&mut self) -> std::io::Result<FromWorker> {
        read_frame(&mut self.from).await
    }

    /// Sends a message and reads what is answered. Neither end may take for ever: a worker that reads
    /// nothing is waited for like one that says nothing.
    async fn exchange(&mut self, message: &ToWorker) -> std::io::Result<FromWorker> {
        self.to.write_all(&frame::encode(message)?).await?;
        read_frame(&mut self.from).await
    }

    /// How the process ended, as far as it can be known.
    async fn obituary(&mut self, error: &std::io::Error) -> String {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        // Its pipe closes a moment before it can be waited for.
        let closed = matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset);
        let since = Instant::now();
        let ended = loop {
            match self.child.try_wait() {
                Ok(None) if closed && since.elapsed() < GONE_WITHIN => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                ended => break ended,
            }
        };
        match ended {
            Ok(Some(status)) if status.code() == Some(i32::from(NOT_LOCKED_DOWN)) => {
                "it could not lock itself down".to_owned()
            }
            Ok(Some(status)) => format!("it ended with {status}"),
            Ok(None) | Err(_) if closed => "it closed its pipe".to_owned(),
            Ok(None) | Err(_) => error.to_string(),
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Guest for Worker {
    async fn step(&mut self, turn: Turn) -> Result<Yielded, SandboxError> {
        let budget = Duration::from_micros(turn.budget_us);
        match self.ask(&ToWorker::Step(turn), budget).await? {
            FromWorker::Yielded(yielded) => Ok(*yielded),
            FromWorker::Ready { .. } | FromWorker::Prepared(_) | FromWorker::Opened(_) => {
                Err(SandboxError::Crashed(OUT_OF_TURN.to_owned()))
            }
        }
    }
}

impl Worker {
    /// Sends a message and waits for the answer, as long as the worker computes no longer than `budget`
    /// for it; past that it is killed.
    async fn ask(
        &mut self,
        message: &ToWorker,
        budget: Duration,
    ) -> Result<FromWorker, SandboxError> {
        let cpu_before = cpu_of(self.child.id());
        let since = Instant::now();
        let child = self.child.id();
        let received = {
            // Not restarted by a look at the watch: a frame may go and come in pieces.
            let mut exchange = std::pin::pin!(self.exchange(message));
            loop {
                tokio::select! {
                    biased;
                    received = &mut exchange => break Some(received),
                    () = tokio::time::sleep(WATCH_EVERY) => {}
                }
                let wall = since.elapsed();
                let cpu =
                    cpu_of(child).zip(cpu_before).map(|(now, before)| now.saturating_sub(before));
                if cpu.is_some_and(|cpu| cpu > budget + GRACE) || wall > budget * 3 + 10 * GRACE {
                    break None;
                }
            }
        };
        match received {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => Err(SandboxError::Crashed(self.obituary(&error).await)),
            None => {
                self.kill();
                Err(SandboxError::Killed(GuestLimit::Compute))
            }
        }
    }
}

/// Starts a worker process.
fn spawn(program: &Path) -> std::io::Result<Child> {
    Command::new(program)
        .arg(WORKER_ARGUMENT)
        .env_clear()
        // Set before the process starts: local time must not open a file once it is locked down.
        .env("TZ", "UTC0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

async fn read_frame(from: &mut pipe::Receiver) -> std::io::Result<FromWorker> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix).await?;
    let mut body = vec![0; frame::length(prefix)?];
    from.read_exact(&mut body).await?;
    frame::decode(&body)
}

/// CPU time a process has used; `None` where the system does not say.
fn cpu_of(process: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
