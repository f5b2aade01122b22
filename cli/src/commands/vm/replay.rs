//! `holm vm replay`

use holm_api::Replay;

use crate::args::vm::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let replay: Replay = cx.client.get(&path::of("vms", &typed.vm, "/replay")?).await?;
    cx.output.one(&replay)
}
