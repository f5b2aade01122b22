//! `holm az …`

use holm_api::{AvailabilityZone, ListQuery};

use super::Context;
use crate::client::path;
use crate::error::Error;

/// `holm az list`
pub async fn list(cx: &Context) -> Result<(), Error> {
    let zones: Vec<AvailabilityZone> =
        cx.client.list("/v1/availability-zones", &ListQuery::default()).await?;
    cx.output.list(&zones)
}

/// `holm az show`
pub async fn show(cx: &Context, zone: &str) -> Result<(), Error> {
    let zone: AvailabilityZone = cx.client.get(&path::of("availability-zones", zone, "")?).await?;
    cx.output.one(&zone)
}
