//! `holm aggregate add-node` and `holm aggregate remove-node`

use holm_api::PatchAggregate;

use super::set::patch;
use crate::args::aggregate::Nodes;
use crate::commands::Context;
use crate::error::Error;

pub async fn add(cx: &Context, typed: Nodes) -> Result<(), Error> {
    let body = PatchAggregate { add_nodes: typed.nodes, ..PatchAggregate::default() };
    patch(cx, &typed.aggregate, &body).await
}

pub async fn remove(cx: &Context, typed: Nodes) -> Result<(), Error> {
    let body = PatchAggregate { remove_nodes: typed.nodes, ..PatchAggregate::default() };
    patch(cx, &typed.aggregate, &body).await
}
