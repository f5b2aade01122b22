//! `holm flavor candidates`

use holm_api::{AllocationCandidates, ReadQuery};

use crate::args::flavor::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let flavor = [("flavor", typed.flavor.as_str())];
    let target = path::with_query("/v1/allocation-candidates", &ReadQuery::default(), &flavor);
    let candidates: AllocationCandidates = cx.client.get(&target).await?;
    cx.output.one(&candidates)
}
