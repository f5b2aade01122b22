//! `holm volume list`

use holm_api::Volume;

use crate::args::project::ListOfProject;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &ListOfProject) -> Result<(), Error> {
    cx.list_of_project::<Volume>("/v1/volumes", typed, |volume| (&volume.project, &mut volume.name)).await
}
