//! `holm aggregate set` and `holm aggregate set-inventory`

use holm_api::aggregate::ZONE_KEY;
use holm_api::{Aggregate, PatchAggregate};
use hyper::Method;

use crate::args::aggregate::{Set, SetInventory};
use crate::args::value::once;
use crate::client::path;
use crate::commands::{Context, inventory};
use crate::error::Error;

pub async fn run(cx: &Context, typed: Set) -> Result<(), Error> {
    let zone = typed.zone.map(|zone| (ZONE_KEY.to_owned(), Some(zone)));
    let metadata = once(typed.properties.into_iter().chain(zone))?;
    patch(cx, &typed.aggregate, &PatchAggregate { name: typed.name, metadata, ..PatchAggregate::default() })
        .await
}

pub async fn inventory(cx: &Context, typed: &SetInventory) -> Result<(), Error> {
    let inventory = inventory::change(&typed.inventory);
    patch(cx, &typed.aggregate, &PatchAggregate { inventory, ..PatchAggregate::default() }).await
}

/// Makes a change, and says what the aggregate is now.
pub async fn patch(cx: &Context, aggregate: &str, body: &PatchAggregate) -> Result<(), Error> {
    let target = path::of("aggregates", aggregate, "")?;
    let look = format!("holm aggregate show {aggregate}");
    let aggregate: Aggregate = cx.client.write(Method::PATCH, &target, body, &look).await?;
    cx.output.done(&aggregate, &format!("aggregate {} changed", aggregate.name))
}
