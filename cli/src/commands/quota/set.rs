//! `holm quota set`

use holm_api::{Quota, SetQuota};
use hyper::Method;

use crate::args::quota::Set;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Set) -> Result<(), Error> {
    let target = path::of("quotas", &cx.project, "")?;
    let look = format!("holm quota show {}", cx.project);
    let body = SetQuota { limits: typed.limits.into_iter().collect() };
    let quota: Quota = cx.client.write(Method::PUT, &target, &body, &look).await?;
    cx.output.done(&quota, &format!("the quota of project {} is changed", quota.project))
}
