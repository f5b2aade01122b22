//! `holm vm replay`

use holm_api::Replay;

use crate::args::vm::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let replay: Replay = cx.client.get(&path::of("vms", &typed.vm, "/replay")?).await?;
    cx.output.one(&replay)?;
    if replay.same {
        return Ok(());
    }
    let detail = format!("the decision about `{}`, made again, is another", typed.vm);
    let hint = "one that another version of holmd made may differ, as the changelog says; between equal versions the states \
                of nodes may differ: `holm check`";
    Err(Error::Failed { detail, hint: Some(hint.into()) })
}
