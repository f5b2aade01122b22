//! `holm image delete`

use holm_api::Deleted;
use hyper::Method;

use crate::args::image::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("images", &typed.image, "")?;
    let look = format!("holm image show {}", typed.image);
    let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
    cx.output.done(&deleted, &format!("image {} deleted", typed.image))
}
