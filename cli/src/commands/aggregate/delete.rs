//! `holm aggregate delete`

use holm_api::Deleted;
use hyper::Method;

use crate::args::aggregate::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("aggregates", &typed.aggregate, "")?;
    let look = format!("holm aggregate show {}", typed.aggregate);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("aggregate {} deleted", typed.aggregate))
}
