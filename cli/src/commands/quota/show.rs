//! `holm quota show`

use holm_api::Quota;

use crate::args::quota::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let quota: Quota = cx.client.get(&path::of("quotas", &typed.project, "")?).await?;
    cx.output.one(&quota)
}
