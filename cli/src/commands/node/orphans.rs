//! `holm node orphans`

use holm_api::{ListQuery, Node};

use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::record::orphan::OrphanOn;

pub async fn run(cx: &Context, node: Option<&str>) -> Result<(), Error> {
    let nodes: Vec<Node> = match node {
        Some(node) => vec![cx.client.get(&path::of("nodes", node, "")?).await?],
        None => cx.client.list("/v1/nodes", &ListQuery::default()).await?,
    };
    let of = |node: Node| {
        let name = node.name;
        node.orphans.into_iter().map(move |orphan| OrphanOn { node: name.clone(), orphan })
    };
    let orphans: Vec<_> = nodes.into_iter().flat_map(of).collect();
    cx.output.list(&orphans)
}
