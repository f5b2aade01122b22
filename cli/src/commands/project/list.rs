//! `holm project list`

use holm_api::{ListQuery, Project};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let projects: Vec<Project> = cx.client.list("/v1/projects", &ListQuery::default()).await?;
    cx.output.list(&projects)
}
