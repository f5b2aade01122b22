//! `holm flavor show`

use holm_api::Flavor;

use crate::args::flavor::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let flavor: Flavor = cx.client.get(&path::of("flavors", &typed.flavor, "")?).await?;
    cx.output.one(&flavor)
}
