//! `holm group list`

use holm_api::{ListQuery, ServerGroup};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let groups: Vec<ServerGroup> = cx.client.list("/v1/server-groups", &ListQuery::default()).await?;
    cx.output.list(&groups)
}
