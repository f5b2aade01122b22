//! `holm aggregate list`

use holm_api::{Aggregate, ListQuery};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let aggregates: Vec<Aggregate> = cx.client.list("/v1/aggregates", &ListQuery::default()).await?;
    cx.output.list(&aggregates)
}
