//! A fixed port of this machine's own address: taken, or who has it.
#![expect(clippy::disallowed_methods, reason = "the system says in files who holds a port")]

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::TcpListener;

/// State of a socket that listens, as the system's table writes it.
const LISTENS: &str = "0A";

/// Why a port could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Somebody listens there.
    #[error("port {port} is taken{holder}")]
    Taken {
        /// The port.
        port: u16,
        /// ` by …`, or nothing if the system does not say.
        holder: String,
    },
    /// Something else.
    #[error("port {port} cannot be used: {why}")]
    Failed {
        /// The port.
        port: u16,
        /// The system's words.
        why: String,
    },
}

/// Listens at a port of the loopback addresses, of both kinds where there are both: whoever had one of them
/// could be taken for the hub. Port 0 is any that is free, of the first kind only.
///
/// # Errors
/// The port is taken, at either address.
pub async fn listen(port: u16) -> Result<Vec<TcpListener>, PortError> {
    let mut listeners = Vec::new();
    for address in [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    ] {
        match TcpListener::bind(address).await {
            Ok(listener) => listeners.push(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(PortError::Taken { port, holder: holder(port) });
            }
            // A machine without IPv6 has one loopback address.
            Err(_) if address.is_ipv6() => {}
            Err(error) => return Err(PortError::Failed { port, why: error.to_string() }),
        }
        if port == 0 {
            break;
        }
    }
    Ok(listeners)
}

/// Who listens at a port, as the end of a sentence; empty where the system does not say.
fn holder(port: u16) -> String {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let table: String =
        tables.iter().filter_map(|table| std::fs::read_to_string(table).ok()).collect();
    let Some((user, inode)) = listener(&table, port) else { return String::new() };
    let mut text = String::new();
    match process(&format!("socket:[{inode}]")) {
        Some((process, name)) => {
            let _ = write!(text, " by `{name}` (process {process})");
        }
        None => {
            let _ = write!(text, " by a process of another user (number {user})");
        }
    }
    text
}

/// User and inode of the socket that listens at a port.
fn listener(table: &str, port: u16) -> Option<(u32, u64)> {
    let wanted = format!(":{port:04X}");
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (words.get(1)?, words.get(3)?);
        if !local.ends_with(&wanted) || *state != LISTENS {
            return None;
        }
        Some((words.get(7)?.parse().ok()?, words.get(9)?.parse().ok()?))
    })
}

/// The process that has a socket open, and its name.
fn process(socket: &str) -> Option<(u32, String)> {
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(open) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        let has = open
            .flatten()
            .any(|open| std::fs::read_link(open.path()).is_ok_and(|to| to.as_os_str() == socket));
        if has {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some((process, name.trim().escape_debug().to_string()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_names_its_holder() {
        let listening = listen(0).await.unwrap();
        let port = listening[0].local_addr().unwrap().port();
        let taken = listen(port).await.unwrap_err();
        let PortError::Taken { holder, .. } = &taken else { panic!("{taken}") };
        if cfg!(target_os = "linux") {
            assert!(holder.contains(&format!("(process {})", std::process::id())), "{holder}");
        }
        drop(listening);
        assert!(!listen(port).await.unwrap().is_empty());
    }
}
