//! `holm volume list`

use holm_api::{ListQuery, Volume};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let volumes: Vec<Volume> = cx.client.list("/v1/volumes", &ListQuery::default()).await?;
    cx.output.list(&volumes)
}
