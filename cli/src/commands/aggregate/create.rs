//! `holm aggregate create`

use holm_api::aggregate::ZONE_KEY;
use holm_api::{Aggregate, CreateAggregate};
use hyper::Method;

use crate::args::aggregate::Create;
use crate::args::value::once;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    let zone = typed.zone.map(|zone| (ZONE_KEY.to_owned(), zone));
    let metadata = once(typed.properties.into_iter().chain(zone))?;
    let body = CreateAggregate { name: typed.name, nodes: typed.nodes, metadata };
    let look = format!("holm aggregate show {}", body.name);
    let aggregate: Aggregate = cx.client.write(Method::POST, "/v1/aggregates", &body, &look).await?;
    cx.output.done(&aggregate, &format!("aggregate {} created", aggregate.name))
}
