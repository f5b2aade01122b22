//! `holm cluster policy show|set`

use std::time::Duration;

use holm_api::{ClusterPolicy, PatchClusterPolicy};
use hyper::Method;

use crate::args::policy::{Set, Verb};
use crate::commands::Context;
use crate::error::Error;

const TARGET: &str = "/v1/policy";

pub async fn run(cx: &Context, verb: &Verb) -> Result<(), Error> {
    match verb {
        Verb::Show => cx.output.one(&cx.client.get::<ClusterPolicy>(TARGET).await?),
        Verb::Set(typed) => set(cx, typed).await,
    }
}

async fn set(cx: &Context, typed: &Set) -> Result<(), Error> {
    let body = PatchClusterPolicy {
        lease_ttl_ms: typed.lease_ttl.map(ms).transpose()?,
        margin_ms: typed.margin.map(ms).transpose()?,
        autostart_wait_ms: typed.autostart_wait.map(ms).transpose()?,
    };
    let policy: ClusterPolicy =
        cx.client.write(Method::PATCH, TARGET, &body, "holm cluster policy show").await?;
    cx.output.done(&policy, "the policy is changed; every node goes by it from the next lease on")
}

fn ms(duration: Duration) -> Result<u64, Error> {
    u64::try_from(duration.as_millis())
        .map_err(|_| Error::usage("the duration is too long", "`holm cluster policy show` has the bounds"))
}
