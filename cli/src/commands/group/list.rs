//! `holm group list`

use holm_api::{ProjectListQuery, ServerGroup};

use crate::args::Format;
use crate::args::group::List;
use crate::commands::Context;
use crate::error::Error;
use crate::output::record::name_among_all;

pub async fn run(cx: &Context, typed: &List) -> Result<(), Error> {
    let query = ProjectListQuery { all_projects: typed.all_projects, ..ProjectListQuery::default() };
    let mut groups: Vec<ServerGroup> = cx.client.list("/v1/server-groups", &query).await?;
    if typed.all_projects && cx.output.format == Format::Table {
        groups.iter_mut().for_each(|group| group.name = name_among_all(&group.project, &group.name));
    }
    cx.output.list(&groups)
}
