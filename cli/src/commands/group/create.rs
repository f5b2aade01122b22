//! `holm group create`

use holm_api::{CreateServerGroup, GroupPolicy, ServerGroup};
use hyper::Method;

use crate::args::group::{Create, Policy};
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    let policy = match typed.policy {
        Policy::Affinity => GroupPolicy::Affinity,
        Policy::AntiAffinity => GroupPolicy::AntiAffinity,
        Policy::SoftAffinity => GroupPolicy::SoftAffinity,
        Policy::SoftAntiAffinity => GroupPolicy::SoftAntiAffinity,
    };
    let body = CreateServerGroup { name: typed.name, policy, max_server_per_host: typed.max_per_host };
    let look = format!("holm group show {}", body.name);
    let group: ServerGroup = cx.client.write(Method::POST, "/v1/server-groups", &body, &look).await?;
    cx.output.done(&group, &format!("group {} created: {}", group.name, group.policy))
}
