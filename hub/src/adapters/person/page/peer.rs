//! Which user a loopback connection comes from.
#![expect(clippy::disallowed_methods, reason = "the system says it in a file")]

use std::net::SocketAddr;

/// Whether the other end of a connection belongs to the user this process runs as. Where the system does
/// not say, `None`.
pub(super) fn is_own_user(peer: SocketAddr, own: SocketAddr) -> Option<bool> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    // Not readable is not known, and what is not known is refused.
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
    Some(user_of(&table, peer, own) == Some(rustix::process::getuid().as_raw()))
}

/// The user of the socket at `peer` that is connected to `own`.
fn user_of(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (peer, own) = (in_table(peer)?, in_table(own)?);
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote) = (words.next()?, words.next()?);
        if local != peer || remote != own {
            return None;
        }
        // State, queues, timer and retransmissions stand between.
        words.nth(4)?.parse().ok()
    })
}

/// An address as that table writes it: hexadecimal, in the byte order of the machine.
fn in_table(address: SocketAddr) -> Option<String> {
    match address {
        SocketAddr::V4(address) => {
            let ip = u32::from_ne_bytes(address.ip().octets());
            Some(format!("{ip:08X}:{:04X}", address.port()))
        }
        SocketAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_read_off_the_other_ends_own_line() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 5 1 0\n   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 6 1 0\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(user_of(table, at(50000), at(8080)), Some(1000));
            assert_eq!(user_of(table, at(50001), at(8080)), None);
        }
    }

    #[test]
    fn a_connection_of_this_process_is_its_users() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(own).expect("a connection");
        let (_served, peer) = listener.accept().expect("a connection");
        assert_eq!(client.local_addr().expect("an address"), peer);
        if cfg!(target_os = "linux") {
            assert_eq!(is_own_user(peer, own), Some(true));
            let other = SocketAddr::from(([127, 0, 0, 1], 1));
            assert_eq!(is_own_user(other, own), Some(false));
        }
    }
}
