//! `holm vm explain`

use holm_api::Explanation;

use crate::args::vm::Explain;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::record::explain::InFull;

pub async fn run(cx: &Context, typed: &Explain) -> Result<(), Error> {
    let explanation: Explanation = cx.client.get(&path::of("vms", &typed.vm, "/explain")?).await?;
    if typed.all { cx.output.one(&InFull(&explanation)) } else { cx.output.one(&explanation) }
}
