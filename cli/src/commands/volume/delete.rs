//! `holm volume delete`

use holm_api::Deleted;
use hyper::Method;

use crate::args::volume::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("volumes", &typed.volume, "")?;
    let look = format!("holm volume show {}", typed.volume);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("volume {} deleted", typed.volume))
}
