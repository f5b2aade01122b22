//! `holm image list`

use holm_api::Image;

use crate::args::project::ListOfProject;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &ListOfProject) -> Result<(), Error> {
    cx.list_of_project::<Image>("/v1/images", typed, |image| (&image.project, &mut image.name)).await
}
