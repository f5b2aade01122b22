//! `holm aggregate show`

use holm_api::Aggregate;

use crate::args::aggregate::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let aggregate: Aggregate = cx.client.get(&path::of("aggregates", &typed.aggregate, "")?).await?;
    cx.output.one(&aggregate)
}
