//! `holm volume show`

use holm_api::Volume;

use crate::args::volume::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let volume: Volume = cx.client.get(&path::of("volumes", &typed.volume, "")?).await?;
    cx.output.one(&volume)
}
