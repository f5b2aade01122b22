//! `holm vm explain`

use holm_api::Explanation;

use crate::args::vm::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let explanation: Explanation = cx.client.get(&path::of("vms", &typed.vm, "/explain")?).await?;
    cx.output.one(&explanation)
}
