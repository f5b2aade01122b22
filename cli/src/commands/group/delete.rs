//! `holm group delete`

use holm_api::Deleted;
use hyper::Method;

use crate::args::group::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("server-groups", &typed.group, "")?;
    let look = format!("holm group show {}", typed.group);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("group {} deleted", typed.group))
}
