//! `holm group list`

use holm_api::ServerGroup;

use crate::args::project::ListOfProject;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &ListOfProject) -> Result<(), Error> {
    cx.list_of_project::<ServerGroup>("/v1/server-groups", typed, |group| (&group.project, &mut group.name))
        .await
}
