//! `holm project show`

use holm_api::Project;

use crate::args::project::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let project: Project = cx.client.get(&path::of("projects", &typed.name, "")?).await?;
    cx.output.one(&project)
}
