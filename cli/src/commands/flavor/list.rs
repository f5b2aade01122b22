//! `holm flavor list`

use holm_api::{Flavor, ListQuery};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let flavors: Vec<Flavor> = cx.client.list("/v1/flavors", &ListQuery::default()).await?;
    cx.output.list(&flavors)
}
