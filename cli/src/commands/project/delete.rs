//! `holm project delete`

use holm_api::Deleted;
use hyper::Method;

use crate::args::project::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("projects", &typed.name, "")?;
    let look = format!("holm project show {}", typed.name);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("project {} deleted", typed.name))
}
