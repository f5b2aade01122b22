//! `holm quota list`

use holm_api::{ListQuery, Quota};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let quotas: Vec<Quota> = cx.client.list("/v1/quotas", &ListQuery::default()).await?;
    cx.output.list(&quotas)
}
