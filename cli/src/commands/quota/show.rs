//! `holm quota show`

use holm_api::Quota;

use crate::args::quota::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let project = typed.project.as_ref().unwrap_or(&cx.project);
    let quota: Quota = cx.client.get(&path::of("quotas", project, "")?).await?;
    cx.output.one(&quota)
}
