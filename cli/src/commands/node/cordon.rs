//! `holm node cordon` and `holm node uncordon`: whether new VMs may be placed on a node.

use holm_api::{Node, PatchNode};
use hyper::Method;

use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, node: &str, enabled: bool, reason: Option<String>) -> Result<(), Error> {
    let target = path::of("nodes", node, "")?;
    let look = format!("holm node show {node}");
    let patch = PatchNode { enabled: Some(enabled), reason, ..PatchNode::default() };
    let node: Node = cx.client.write(Method::PATCH, &target, &patch, &look).await?;
    let sentence = match enabled {
        true => format!("node {} takes new VMs again", node.name),
        false => format!("node {} is cordoned: what runs there goes on, nothing new is placed", node.name),
    };
    cx.output.done(&node, &sentence)
}
