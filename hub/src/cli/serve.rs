//! `serve`: what a client's config starts.

use super::args::ServeArguments;
use super::output::{Done, Failed, Output};
use super::run::check_profile;
use super::wire::unattended;
use crate::ports::Ports as _;
use crate::ports::store::Store as _;
use crate::surface::serve_stdio;

pub(super) async fn serve(output: &Output, arguments: ServeArguments) -> Result<Done, Failed> {
    check_profile(&arguments.profile)?;
    let hub = unattended()?;
    hub.ports().store().settings().await?;
    if let Err(error) = serve_stdio(hub, arguments.profile).await {
        output.say(&format!("error: {error}"));
        return Ok(Done::Failed);
    }
    Ok(Done::Ok)
}
