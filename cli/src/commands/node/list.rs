//! `holm node list`

use holm_api::{ListQuery, Node};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let nodes: Vec<Node> = cx.client.list("/v1/nodes", &ListQuery::default()).await?;
    cx.output.list(&nodes)
}
