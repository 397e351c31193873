//! A server from npm over HTTP, streamable and in the older way, through the real binary.

use crate::real_servers::installed;
use crate::support::{TestHub, until};
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server. Dropping it ends it.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start(servers: &Path, way: &str) -> Served {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap();
        Served::start_at(servers, way, free.port())
    }

    fn start_at(servers: &Path, way: &str, port: u16) -> Served {
        let script =
            servers.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let child = Command::new("node")
            .arg(script)
            .arg(way)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let served = Served { child, port };
        until("the server to listen", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_server_over_http_is_added_called_and_lost() {
    let Some(servers) = installed() else { return };
    for (way, path) in [("streamableHttp", "mcp"), ("sse", "sse")] {
        let served = Served::start(&servers, way);
        let hub = TestHub::new();
        let url = format!("http://localhost:{}/{path}", served.port);
        hub.ok(["add", "--accept", "--namespace", "everything", &url]);
        let mut client = hub.serve();
        client.initialize("2025-11-25");
        let code = "const [sum, echo] = await Promise.all([everything.getSum({ a: 2, b: 40 }), everything.echo({ message: 'größe' })]);\nreturn [sum, echo]";
        let done = client.execute(code);
        assert_eq!(done["status"], "completed", "{way}: {done:#}");
        assert!(done["result"].to_string().contains("42"), "{way}: {done:#}");
        assert!(done["result"].to_string().contains("größe"), "{way}: {done:#}");
        let image = client.execute("return await everything.getTinyImage()");
        assert!(image["result"].to_string().contains("blob:"), "{way}: {image:#}");
        // It ends, and another begins at the same address: the next reads find it.
        let port = served.port;
        drop(served);
        let gone = client.execute("return await everything.echo({ message: 'x' })");
        assert_eq!(gone["status"], "failed", "{way}: {gone:#}");
        let again = Served::start_at(&servers, way, port);
        let found = until("the server again", || {
            let envelope = client.execute("return await everything.echo({ message: 'back' })");
            (envelope["status"] == "completed").then_some(envelope)
        });
        assert!(found["result"].to_string().contains("back"), "{way}: {found:#}");
        drop(again);
        let listed = hub.json(["list"]).1;
        assert_eq!(listed["sources"][0]["transport"]["http"]["url"], json!(url));
    }
}
