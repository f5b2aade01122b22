//! `holm quota set`

use holm_api::{Quota, SetQuota};
use hyper::Method;

use crate::args::quota::Set;
use crate::args::value::once;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output;

pub async fn run(cx: &Context, typed: Set) -> Result<(), Error> {
    let target = path::of("quotas", &cx.project, "")?;
    let look = format!("holm quota show {}", cx.project);
    let body = SetQuota { limits: once(typed.limits)? };
    let quota: Quota = cx.client.write(Method::PUT, &target, &body, &look).await?;
    for (class, of) in &quota.classes {
        if let Some(limit) = of.limit.filter(|limit| of.used > *limit) {
            let used = of.used;
            output::note(&format!(
                "warning: {class}: {used} in use, {limit} allowed: what is there stays, nothing is added"
            ));
        }
    }
    cx.output.done(&quota, &format!("the quota of project {} is changed", quota.project))
}
