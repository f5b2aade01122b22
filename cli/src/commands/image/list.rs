//! `holm image list`

use holm_api::{Image, ProjectListQuery};

use crate::args::Format;
use crate::args::image::List;
use crate::commands::Context;
use crate::error::Error;
use crate::output::record::name_among_all;

pub async fn run(cx: &Context, typed: &List) -> Result<(), Error> {
    let query = ProjectListQuery { all_projects: typed.all_projects, ..ProjectListQuery::default() };
    let mut images: Vec<Image> = cx.client.list("/v1/images", &query).await?;
    if typed.all_projects && cx.output.format == Format::Table {
        images.iter_mut().for_each(|image| image.name = name_among_all(&image.project, &image.name));
    }
    cx.output.list(&images)
}
