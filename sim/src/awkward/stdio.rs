//! The awkward server over its standard streams.

use super::{Quirk, Server, lock};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Exit status of a server that dies first.
const DIED_FIRST: u8 = 3;
/// How often a server that starts late looks whether it may.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines of noise, a kilobyte each.
const NOISE_LINES: usize = 64 * 1024;

/// Serves until standard input ends; each call in a thread of its own.
pub(super) fn serve(server: &Arc<Server>) -> anyhow::Result<ExitCode> {
    let out = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let out = Arc::new(Mutex::new(out));
    let say = move |text: String| {
        // A client that is gone hears nothing.
        let _ = lock(&out).write_all(format!("{text}\n").as_bytes());
    };
    if server.has(Quirk::DiesFirst) {
        writeln!(std::io::stderr(), "reading the configuration\nerror: no API key in sight")?;
        return Ok(ExitCode::from(DIED_FIRST));
    }
    while server.arguments.start_when.as_deref().is_some_and(|path| !path.exists()) {
        std::thread::sleep(LOOK_EVERY);
    }
    if server.has(Quirk::Banner) {
        say("Starting Awkward MCP Server v1.0 …\n[INFO] ready {not json}\n\n[1, 2]\n{\"a\": 1}"
            .to_owned());
    }
    if server.has(Quirk::Noise) {
        let mut error = std::io::stderr().lock();
        let line = format!("{}\n", "noise ".repeat(170));
        for _ in 0..NOISE_LINES {
            error.write_all(line.as_bytes())?;
        }
    }
    if server.has(Quirk::Grandchild) {
        let log = server.arguments.log.clone().unwrap_or_default();
        let child =
            Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        std::fs::write(log.with_extension("grandchild"), child.id().to_string())?;
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        if server.has(Quirk::Banner) {
            say("[DEBUG] a message arrived".to_owned());
        }
        if server.has(Quirk::Deaf) && message["params"]["name"] == "hang" {
            // A thread that is parked may wake; this one has nothing to do then.
            loop {
                std::thread::park();
            }
        }
        let (server, say) = (Arc::clone(server), say.clone());
        let apart = message["method"] == "tools/call";
        let work = move || server.take(&message, &say);
        if apart {
            std::thread::spawn(work);
        } else {
            work();
        }
    }
    Ok(ExitCode::SUCCESS)
}
