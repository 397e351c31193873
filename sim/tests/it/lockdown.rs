//! A worker that tries natively what code must never get done.

use clap::ValueEnum as _;
use sim::probe::{Attempt, LEFT_OPEN};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Signal that ends a process at a system call its filter does not allow.
const SIGSYS: i32 = 31;

/// What an attempt needs to succeed where nothing refuses it.
struct Surroundings {
    folder: tempfile::TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    _local: UnixListener,
    /// A process that may be signalled.
    other: std::process::Child,
}

impl Surroundings {
    fn new() -> Surroundings {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let local = UnixListener::bind(folder.path().join("socket")).unwrap();
        Surroundings {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            other: Command::new("cat").stdin(Stdio::piped()).spawn().unwrap(),
            _local: local,
            folder,
        }
    }

    fn target(&self, attempt: Attempt) -> String {
        let below = |name: &str| self.folder.path().join(name).display().to_string();
        match attempt {
            Attempt::ReadFile | Attempt::LeftOpen | Attempt::Nothing => below("secret"),
            Attempt::WriteFile => below("made"),
            Attempt::ListFolder => below(""),
            Attempt::Tcp => self.tcp.local_addr().unwrap().to_string(),
            Attempt::Udp => self.udp.local_addr().unwrap().to_string(),
            Attempt::LocalSocket => below("socket"),
            Attempt::Exec => "/bin/true".to_owned(),
            Attempt::Thread => String::new(),
            Attempt::Signal | Attempt::Abort => self.other.id().to_string(),
        }
    }

    /// `done`, `refused …` or `killed`, and the layers that this system lacks.
    fn attempt(&self, attempt: Attempt, layers: &str) -> (String, String) {
        let _ = std::fs::remove_file(self.folder.path().join("made"));
        let name = attempt.to_possible_value().unwrap();
        let mut probe = vec![env!("CARGO_BIN_EXE_sim"), "probe", name.get_name(), "--target"];
        let target = self.target(attempt);
        probe.push(&target);
        let layers = format!("--layers={layers}");
        if layers != "--layers=" {
            probe.push(&layers);
        }
        let secret = self.folder.path().join("secret");
        let output = Command::new("sh")
            .args(["-c", &format!("exec \"$@\" {LEFT_OPEN}<\"$SECRET\""), "sh"])
            .args(probe)
            .env("SECRET", secret)
            .output()
            .unwrap();
        if output.status.signal() == Some(SIGSYS) {
            return ("killed".to_owned(), String::new());
        }
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let mut lines = text.lines();
        let came = lines.next().unwrap_or_else(|| panic!("{name:?} {layers}: {output:?}"));
        (came.to_owned(), lines.next().unwrap_or_default().to_owned())
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

#[test]
fn a_worker_has_no_files_no_network_no_programs_and_no_processes() {
    let surroundings = Surroundings::new();
    for attempt in Attempt::value_variants() {
        let of = |layers| surroundings.attempt(*attempt, layers).0;
        assert_eq!(of(""), "done", "{attempt:?} works where nothing refuses it");
        let locked_down = of("process,landlock,rlimits,seccomp");
        if *attempt == Attempt::Nothing {
            assert_eq!(locked_down, "done");
        } else {
            assert_eq!(locked_down, "killed", "{attempt:?}");
        }
    }
    assert!(!Path::new(&surroundings.target(Attempt::WriteFile)).exists());
}

#[test]
fn each_layer_holds_without_the_others() {
    let surroundings = Surroundings::new();
    let refuses = |layers: &str, attempts: &[Attempt]| {
        for attempt in attempts {
            let (came, missing) = surroundings.attempt(*attempt, layers);
            assert!(came != "done" || !missing.is_empty(), "{layers} allows {attempt:?}");
        }
    };
    refuses("process", &[Attempt::LeftOpen]);
    refuses(
        "landlock",
        &[Attempt::ReadFile, Attempt::WriteFile, Attempt::ListFolder, Attempt::Tcp, Attempt::Exec],
    );
    refuses(
        "rlimits",
        &[
            Attempt::ReadFile,
            Attempt::WriteFile,
            Attempt::ListFolder,
            Attempt::Tcp,
            Attempt::Udp,
            Attempt::LocalSocket,
        ],
    );
    let every: Vec<Attempt> = Attempt::value_variants()
        .iter()
        .copied()
        .filter(|attempt| *attempt != Attempt::Nothing)
        .collect();
    refuses("seccomp", &every);
}
