//! `holm image list`

use holm_api::{Image, ListQuery};

use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context) -> Result<(), Error> {
    let images: Vec<Image> = cx.client.list("/v1/images", &ListQuery::default()).await?;
    cx.output.list(&images)
}
