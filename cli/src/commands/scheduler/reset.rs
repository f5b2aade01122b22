//! `holm scheduler reset`

use holm_api::SchedulerPolicy;
use hyper::Method;

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let look = "holm scheduler show";
    let policy: SchedulerPolicy = cx.client.write(Method::DELETE, "/v1/scheduler", &(), look).await?;
    cx.output.done(&policy, "the scheduler has its default policy again")
}
