//! `holm dev status`

use std::time::Duration;

use futures::future::join_all;

use super::directory;
use super::record::{DevCluster, DevNode, DevStatus};
use crate::args::dev::Dir;
use crate::client::health;
use crate::error::Error;
use crate::output::Output;

const LIMIT: Duration = Duration::from_secs(2);

pub async fn run(output: &Output, typed: &Dir) -> Result<(), Error> {
    let dir = directory(typed)?;
    let cluster = DevCluster::expect(&dir)?;
    let statuses = join_all(cluster.nodes.iter().map(of)).await;
    output.list(&statuses)?;
    super::say(output, &format!("export HOLM_ENDPOINTS={}", cluster.endpoints()))
}

async fn of(node: &DevNode) -> DevStatus {
    let health = match health::of(&node.endpoint(), LIMIT).await {
        Ok(report) if report.health.ready => "ready".into(),
        Ok(report) => format!("not ready: {}", report.health.reason.unwrap_or_default()),
        Err(why) => why,
    };
    DevStatus { running: node.is_running(), node: node.clone(), health }
}
