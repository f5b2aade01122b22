//! `holm az …`

use holm_api::{AvailabilityZone, ListQuery};

use super::Context;
use crate::error::Error;

/// `holm az list`
pub async fn list(cx: &Context) -> Result<(), Error> {
    let zones: Vec<AvailabilityZone> =
        cx.client.list("/v1/availability-zones", &ListQuery::default()).await?;
    cx.output.list(&zones)
}
