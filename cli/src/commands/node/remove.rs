//! `holm node remove`

use holm_api::{Deleted, RemoveNodeQuery};
use hyper::Method;

use crate::args::node::Remove;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Remove) -> Result<(), Error> {
    let query = RemoveNodeQuery { confirm_node_off: typed.confirm_node_off };
    let target = path::with_query(&path::of("nodes", &typed.node, "")?, &query, &[]);
    let look = format!("holm node show {}", typed.node);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("node {} removed", typed.node))
}
