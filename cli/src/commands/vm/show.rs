//! `holm vm show`

use holm_api::Vm;

use crate::args::vm::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let vm: Vm = cx.client.get(&path::of("vms", &typed.vm, "")?).await?;
    cx.output.one(&vm)
}
