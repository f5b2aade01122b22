//! `holm group set`

use holm_api::{PatchServerGroup, ServerGroup};
use hyper::Method;

use crate::args::group::Set;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Set) -> Result<(), Error> {
    let target = path::of("server-groups", &typed.group, "")?;
    let look = format!("holm group show {}", typed.group);
    let body = PatchServerGroup { name: typed.name, max_server_per_host: typed.max_per_host };
    let group: ServerGroup = cx.client.write(Method::PATCH, &target, &body, &look).await?;
    cx.output.done(&group, &format!("group {} changed", group.name))
}
