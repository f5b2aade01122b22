//! `holm node show`

use holm_api::Node;

use crate::args::node::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let node: Node = cx.client.get(&path::of("nodes", &typed.node, "")?).await?;
    cx.output.one(&node)
}
