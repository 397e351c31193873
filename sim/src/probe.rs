//! A worker that is not satisfied with its pipes: it tries by itself what the lock-down must refuse.
#![expect(
    unsafe_code,
    reason = "reads a descriptor that it was not given, and signals what is not its own"
)]

use hub::adapters::sandbox::Layer;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};

/// The descriptor that whoever starts the probe leaves open.
pub const LEFT_OPEN: i32 = 9;

/// What to give up, and what to try then.
#[derive(Debug, clap::Args)]
pub struct Probe {
    /// Layers to apply, in this order
    #[arg(long, value_enum, value_delimiter = ',')]
    pub layers: Vec<LayerName>,
    /// A file, a folder, an address or a socket, as the attempt needs it
    #[arg(long, default_value = "")]
    pub target: String,
    /// What to try
    #[arg(value_enum)]
    pub attempt: Attempt,
}

/// A layer by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LayerName {
    /// Descriptors and what else is inherited.
    Process,
    /// Landlock.
    Landlock,
    /// Resource limits.
    Rlimits,
    /// The filter of system calls.
    Seccomp,
}

impl LayerName {
    fn layer(self) -> Layer {
        match self {
            LayerName::Process => Layer::Inherited,
            LayerName::Landlock => Layer::Landlock,
            LayerName::Rlimits => Layer::Limits,
            LayerName::Seccomp => Layer::Seccomp,
        }
    }
}

/// Something that no guest may ever get done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Attempt {
    /// Read a file.
    ReadFile,
    /// Make a file.
    WriteFile,
    /// List a folder.
    ListFolder,
    /// Read a descriptor that was left open.
    LeftOpen,
    /// Connect over TCP.
    Tcp,
    /// Send a datagram.
    Udp,
    /// Connect to a local socket.
    LocalSocket,
    /// Run a program.
    Exec,
    /// Start a thread.
    Thread,
    /// Signal another process.
    Signal,
    /// End another process as `abort` ends its own.
    Abort,
    /// Nothing: the control.
    Nothing,
}

/// Applies the layers, tries, and says what came of it: `done`, `refused …`, or nothing if it was killed.
///
/// # Errors
/// A layer could not be applied, or nothing can be printed.
pub fn probe(probe: &Probe) -> anyhow::Result<ExitCode> {
    let mut missing = Vec::new();
    for name in &probe.layers {
        let layer = name.layer();
        if !layer.apply()? {
            missing.push(layer.name());
        }
    }
    let done = attempt(probe.attempt, &probe.target);
    let mut out = std::io::stdout();
    match done {
        Ok(()) => writeln!(out, "done")?,
        Err(error) => writeln!(out, "refused {:?}", error.kind())?,
    }
    if !missing.is_empty() {
        writeln!(out, "missing {}", missing.join(","))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn attempt(attempt: Attempt, target: &str) -> std::io::Result<()> {
    match attempt {
        Attempt::ReadFile => File::open(target)?.read_exact(&mut [0]),
        Attempt::WriteFile => File::create(target)?.write_all(b"x"),
        Attempt::ListFolder => {
            std::fs::read_dir(target)?.next().map_or(Ok(()), |entry| entry.map(|_| ()))
        }
        Attempt::LeftOpen => {
            // SAFETY: nothing else in this process uses the number; a closed one answers with an error.
            let mut left = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(LEFT_OPEN) });
            left.read_exact(&mut [0])
        }
        Attempt::Tcp => TcpStream::connect(target).map(|_| ()),
        Attempt::Udp => UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", target).map(|_| ()),
        Attempt::LocalSocket => UnixStream::connect(target).map(|_| ()),
        Attempt::Exec => Command::new(target).spawn()?.wait().map(|_| ()),
        Attempt::Thread => std::thread::Builder::new()
            .spawn(|| {})?
            .join()
            .map_err(|_| std::io::Error::other("the thread died")),
        Attempt::Signal => {
            let process = target.parse().map_err(std::io::Error::other)?;
            let process = rustix::process::Pid::from_raw(process)
                .ok_or_else(|| std::io::Error::other("there is no process 0"))?;
            Ok(rustix::process::test_kill_process(process)?)
        }
        Attempt::Abort => {
            unsafe extern "C" {
                fn tgkill(process: i32, thread: i32, signal: i32) -> i32;
            }
            let process = target.parse().map_err(std::io::Error::other)?;
            // SAFETY: it takes three numbers and answers with one.
            match unsafe { tgkill(process, process, rustix::process::Signal::ABORT.as_raw()) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        }
        Attempt::Nothing => Ok(()),
    }
}
