//! `add` of a server over HTTP: its address, and where that leads.

use super::args::AddArguments;
use super::output::Failed;
use crate::adapters::sources::address_class;
use crate::model::http::{HttpEndpoint, HttpUrl};
use std::path::Path;

/// Words of a host name that do not say whose server it is.
const NOISE: &[&str] = &["mcp", "www", "api", "app", "server"];

/// Reads an address, and looks up in what kind of network it lies.
pub(super) async fn endpoint(text: &str, arguments: &AddArguments) -> Result<HttpEndpoint, Failed> {
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let document = Path::new(path).extension().and_then(|end| end.to_str());
    if document.is_some_and(|end| matches!(end, "json" | "yaml" | "yml")) {
        return Err(Failed::usage(
            "OpenAPI documents are planned and not in this build",
            "add an MCP server: its address, or the command line of a local one",
        ));
    }
    if !arguments.env.is_empty() || arguments.cwd.is_some() {
        return Err(Failed::usage(
            "`--env` and `--cwd` are for local servers; an address has neither",
            "leave them out",
        ));
    }
    let url: HttpUrl = text.parse().map_err(|error: crate::model::http::HttpUrlError| {
        Failed::usage(
            format!("this address cannot be added: {error}"),
            "give an address such as `https://mcp.example.com/mcp`",
        )
    })?;
    let reaches = address_class(&url).await.map_err(|why| {
        Failed::usage(format!("{} cannot be added: {why}", url.shown()), "check the address")
    })?;
    Ok(HttpEndpoint { url, reaches })
}

/// What a source could be called, from its address: the part of the host that names its owner.
pub(super) fn name(url: &HttpUrl) -> String {
    let (host, _) = url.host_and_port();
    let path = || {
        let shown = url.shown();
        let path = shown.rsplit('/').find(|part| {
            !part.is_empty() && !part.starts_with('?') && !NOISE.contains(part) && *part != "sse"
        });
        path.map(|part| part.trim_end_matches("?…").to_owned()).unwrap_or_default()
    };
    if host.parse::<std::net::IpAddr>().is_ok() || host == "localhost" {
        let last = path();
        return if last.contains(&host) || last.is_empty() { "local".to_owned() } else { last };
    }
    let labels: Vec<&str> = host.split('.').filter(|label| !NOISE.contains(label)).collect();
    // Without the top-level domain, if anything is left then.
    let named = labels.iter().rev().nth(1).or(labels.first()).copied().unwrap_or("server");
    named.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_proposed_from_the_owner_of_the_address() {
        let check = |text: &str, expected: &str| {
            assert_eq!(name(&text.parse().unwrap()), expected, "{text}");
        };
        check("https://mcp.linear.app/mcp", "linear");
        check("https://api.githubcopilot.com/mcp/", "githubcopilot");
        check("https://mcp.example.co/sse?x=1", "example");
        check("http://localhost:8080/mcp", "local");
        check("http://localhost:8080/notes/mcp", "notes");
        check("http://127.0.0.1:8080/", "local");
        check("http://[::1]:8080/tickets", "tickets");
        check("https://intranet/mcp", "intranet");
    }
}
