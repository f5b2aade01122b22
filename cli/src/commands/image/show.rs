//! `holm image show`

use holm_api::Image;

use crate::args::image::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let image: Image = cx.client.get(&path::of("images", &typed.image, "")?).await?;
    cx.output.one(&image)
}
