//! `holm cluster candidates`

use holm_api::{AllocationCandidates, CandidatesQuery};

use crate::args::candidates::Candidates;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Candidates) -> Result<(), Error> {
    let query = CandidatesQuery {
        flavor: typed.flavor.clone(),
        resources: typed.resources.clone(),
        limit: typed.limit,
        ..CandidatesQuery::default()
    };
    let required = typed.required.iter().map(|value| ("required", value.as_str()));
    let member_of = typed.member_of.iter().map(|value| ("member_of", value.as_str()));
    let demands: Vec<_> = required.chain(member_of).collect();
    let target = path::with_query("/v1/allocation-candidates", &query, &demands);
    let candidates: AllocationCandidates = cx.client.get(&target).await?;
    cx.output.one(&candidates)
}
