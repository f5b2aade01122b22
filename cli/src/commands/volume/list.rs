//! `holm volume list`

use holm_api::{ProjectListQuery, Volume};

use crate::args::Format;
use crate::args::volume::List;
use crate::commands::Context;
use crate::error::Error;
use crate::output::record::name_among_all;

pub async fn run(cx: &Context, typed: &List) -> Result<(), Error> {
    let query = ProjectListQuery { all_projects: typed.all_projects, ..ProjectListQuery::default() };
    let mut volumes: Vec<Volume> = cx.client.list("/v1/volumes", &query).await?;
    if typed.all_projects && cx.output.format == Format::Table {
        volumes.iter_mut().for_each(|volume| volume.name = name_among_all(&volume.project, &volume.name));
    }
    cx.output.list(&volumes)
}
