//! `holm vm delete`: accepted for each VM first, then the wait until all are gone.

use std::time::Instant;

use holm_api::{Deleted, Vm};
use hyper::Method;

use super::wait;
use crate::args::vm::Delete;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Delete) -> Result<(), Error> {
    let start = Instant::now();
    let mut accepted: Vec<(&str, Deleted)> = Vec::new();
    for name in &typed.vms {
        let target = path::of("vms", name, "")?;
        let look = format!("holm vm show {name}");
        let deleted: Deleted = cx.client.write(Method::DELETE, &target, &(), &look).await?;
        if typed.wait.limit().is_none() {
            cx.output.done(&deleted, &format!("VM {name}: delete accepted"))?;
        }
        accepted.push((name, deleted));
    }
    let Some(limit) = typed.wait.limit() else { return Ok(()) };
    for (name, deleted) in accepted {
        // By id: another VM may bear the name by now.
        if let Some(vm) = cx.client.find::<Vm>(&path::of("vms", &deleted.id, "")?).await? {
            wait::until_gone(cx, vm, limit.saturating_sub(start.elapsed())).await?;
        }
        cx.output.done(&deleted, &format!("VM {name} deleted"))?;
    }
    Ok(())
}
