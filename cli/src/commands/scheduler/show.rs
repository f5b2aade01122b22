//! `holm scheduler show`

use holm_api::SchedulerPolicy;

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let policy: SchedulerPolicy = cx.client.get("/v1/scheduler").await?;
    cx.output.one(&policy)
}
