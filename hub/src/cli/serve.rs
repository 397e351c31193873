//! `serve`: what a client's config starts.
#![expect(clippy::disallowed_methods, reason = "sweeps beside serving")]

use super::args::ServeArguments;
use super::doctor::open_to_others;
use super::output::{Done, Failed, Output};
use super::run::check_profile;
use super::wire::{ServingHub, hub_folder, serving, settings};
use crate::adapters::loopback::{PortError, listen};
use crate::ports::Ports as _;
use crate::ports::clock::Clock as _;
use crate::ports::secrets::Secrets as _;
use crate::surface::{HTTP_PATH, serve_http, serve_stdio};
use std::time::Duration;

/// When old runs are removed: some time after the start, then every hour.
const SWEEP_FIRST: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(60 * 60);

pub(super) async fn serve(output: &Output, arguments: ServeArguments) -> Result<Done, Failed> {
    check_profile(&arguments.profile)?;
    let hub = serving(&settings().await?)?;
    let folder = hub_folder()?;
    if let Some(open) = open_to_others(&folder) {
        let (open, folder) = (open.display(), folder.display());
        output.say(&format!("{open} is open to other users: chmod -R go= {folder}"));
    }
    // The first run then finds a worker waiting; the client's first request does not wait for it.
    hub.ports().sandbox().start_ahead();
    let sweeping = hub.clone();
    let sweep = tokio::spawn(async move {
        loop {
            // Never while the client waits for its first answers, and again every hour.
            let clock = sweeping.ports().clock();
            clock.sleep_until(clock.tick().after(SWEEP_FIRST)).await;
            if let Err(error) = sweeping.sweep().await {
                tracing::warn!(%error, "old runs could not be removed");
            }
            clock.sleep_until(clock.tick().after(SWEEP_EVERY)).await;
        }
    });
    let served = if arguments.http {
        http(output, &hub, arguments).await?;
        Ok(())
    } else {
        tokio::select! {
            biased;
            served = serve_stdio(hub.clone(), arguments.profile) => served,
            () = told_to_end() => {
                // Writes on their way settle; what a run has not sent stays for its resume.
                hub.shut_down().await;
                Ok(())
            }
        }
    };
    sweep.abort();
    if let Err(error) = served {
        output.say(&format!("error: {error}"));
        return Ok(Done::Failed);
    }
    Ok(Done::Ok)
}

/// Serves over HTTP until the system asks this process to end.
async fn http(output: &Output, hub: &ServingHub, arguments: ServeArguments) -> Result<(), Failed> {
    let secrets = hub.ports().secrets();
    secrets.prepare_tokens().map_err(|error| {
        Failed::refused(
            format!("clients cannot be told apart: {error}"),
            "correct that file, or remove it, and a token is made",
        )
    })?;
    let listeners = listen(arguments.port).await.map_err(|error| {
        let hint = match &error {
            PortError::Taken { .. } => "end that process, or choose another port with `--port`",
            PortError::Failed { .. } => "choose another port with `--port`",
        };
        Failed::refused(error.to_string(), hint)
    })?;
    let port = listeners.first().and_then(|one| one.local_addr().ok()).map_or(0, |at| at.port());
    let token = hub_folder()?.join("http-token");
    output.say(&format!(
        "Serving at http://127.0.0.1:{port}{HTTP_PATH}\n  clients send `Authorization: Bearer …` with the token in {}",
        token.display()
    ));
    hub.warm_up().await;
    serve_http(hub.clone(), arguments.profile, listeners, told_to_end()).await;
    Ok(())
}

/// Completes when the system asks this process to end.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let signals: Vec<_> = ends.into_iter().filter_map(|kind| signal(kind).ok()).collect();
    let waiting =
        signals.into_iter().map(|mut signal| Box::pin(async move { signal.recv().await }));
    futures::future::select_all(waiting).await;
}
