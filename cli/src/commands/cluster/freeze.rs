//! `holm cluster freeze`

use std::time::Duration;

use holm_api::{BeginFreeze, Freeze};
use hyper::Method;

use crate::commands::Context;
use crate::error::Error;
use crate::output::record::policy::freeze_state;

const TARGET: &str = "/v1/freeze";
const LOOK: &str = "holm cluster status";

pub async fn begin(cx: &Context, time: Duration, reason: Option<String>) -> Result<(), Error> {
    let for_ms = u64::try_from(time.as_millis())
        .map_err(|_| Error::usage("--for is too long", "at most 24h is allowed"))?;
    let body = BeginFreeze { for_ms, reason };
    let freeze: Freeze = cx.client.write(Method::PUT, TARGET, &body, LOOK).await?;
    cx.output.done(&freeze, &format!("the freeze is {}", freeze_state(&freeze, cx.output.now)))
}

pub async fn end(cx: &Context) -> Result<(), Error> {
    let freeze: Freeze = cx.client.write(Method::DELETE, TARGET, &(), LOOK).await?;
    cx.output.done(&freeze, &format!("the freeze is {}", freeze_state(&freeze, cx.output.now)))
}
