//! `holm cluster what-if`

use holm_api::{NPlusOneVerdict, ReadQuery, WhatIf};

use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, lose: &[String], drain: &[String]) -> Result<(), Error> {
    if lose.is_empty() && drain.is_empty() {
        let verdict: NPlusOneVerdict = cx.client.get("/v1/n-plus-one").await?;
        return cx.output.one(&verdict);
    }
    let named = |key: &'static str, nodes: &'_ [String]| -> Vec<(&'static str, String)> {
        nodes.iter().map(|node| (key, node.clone())).collect()
    };
    let nodes: Vec<_> = named("lose", lose).into_iter().chain(named("drain", drain)).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(key, node)| (*key, node.as_str())).collect();
    let target = path::with_query("/v1/what-if", &ReadQuery::default(), &nodes);
    let foreseen: WhatIf = cx.client.get(&target).await?;
    cx.output.one(&foreseen)
}
