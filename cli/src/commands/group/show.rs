//! `holm group show`

use holm_api::ServerGroup;

use crate::args::group::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let group: ServerGroup = cx.client.get(&path::of("server-groups", &typed.group, "")?).await?;
    cx.output.one(&group)
}
