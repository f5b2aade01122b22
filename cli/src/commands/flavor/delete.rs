//! `holm flavor delete`

use holm_api::Deleted;
use hyper::Method;

use crate::args::flavor::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("flavors", &typed.flavor, "")?;
    let look = format!("holm flavor show {}", typed.flavor);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("flavor {} deleted", typed.flavor))
}
