//! `holm cluster status`: the cluster's own record, or, when there is no leader to ask, what a node knows.

use holm_api::Cluster;

use crate::args::Format;
use crate::commands::Context;
use crate::error::Error;
use crate::output::note;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let cluster: Cluster = match cx.client.get("/v1/cluster").await {
        Ok(cluster) => cluster,
        Err(error @ Error::Unreachable { .. }) => {
            // Without a quorum a node still knows what it has applied; that must not look like the truth.
            let Ok(mut known) = cx.client.get::<Cluster>("/v1/cluster?consistency=stale").await else {
                return Err(error);
            };
            if cx.output.format == Format::Table {
                // Whom this node heard last is no leader now.
                known.leader = None;
            }
            cx.output.one(&known)?;
            note(&format!("the above may be out of date: it is what {} has applied", known.node.name));
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    cx.output.one(&cluster)
}
