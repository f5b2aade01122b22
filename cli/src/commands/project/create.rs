//! `holm project create`

use holm_api::{CreateProject, Project};
use hyper::Method;

use crate::args::project::Create;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    let body = CreateProject { name: typed.name, description: typed.description };
    let look = format!("holm project show {}", body.name);
    let project: Project = cx.client.write(Method::POST, "/v1/projects", &body, &look).await?;
    cx.output.done(&project, &format!("project {} created", project.name))
}
