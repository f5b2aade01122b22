//! `holm project set`

use holm_api::{PatchProject, Project};
use hyper::Method;

use crate::args::project::Set;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Set) -> Result<(), Error> {
    let target = path::of("projects", &typed.name, "")?;
    let look = format!("holm project show {}", typed.name);
    let body = PatchProject { description: typed.description };
    let project: Project = cx.client.write(Method::PATCH, &target, &body, &look).await?;
    cx.output.done(&project, &format!("project {} changed", project.name))
}
