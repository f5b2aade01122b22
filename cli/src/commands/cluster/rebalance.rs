//! `holm cluster rebalance`: the plan, or, with `--apply`, its beginning.

use holm_api::{Rebalance, RebalanceQuery, StartRebalance};
use hyper::Method;

use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::text;

const TARGET: &str = "/v1/rebalance";

pub async fn run(cx: &Context, apply: bool, max_moves: u32, min_gain: f64) -> Result<(), Error> {
    let (max_moves, min_gain) = (Some(max_moves), Some(min_gain));
    if !apply {
        let query = RebalanceQuery { max_moves, min_gain, ..RebalanceQuery::default() };
        let plan: Rebalance = cx.client.get(&path::with_query(TARGET, &query, &[])).await?;
        return cx.output.one(&plan);
    }
    let body = StartRebalance { max_moves, min_gain };
    let begun: Rebalance = cx.client.write(Method::POST, TARGET, &body, "holm vm list").await?;
    cx.output.one(&begun)?;
    if begun.refused.is_empty() {
        return Ok(());
    }
    let mut detail = format!("no longer possible: {}", text::count(begun.refused.len(), "move"));
    for refused in &begun.refused {
        detail += &format!("\n  {}: {}", refused.vm, refused.detail);
    }
    Err(Error::Failed { detail, hint: Some("plan again".into()) })
}
