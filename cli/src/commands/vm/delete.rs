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
    let limit = typed.wait.limit();
    let mut accepted: Vec<(&str, Deleted)> = Vec::new();
    let mut refused = None;
    // One that is not deleted does not keep the others: its error is told, the last one at the end.
    let mut refuse = |error: Error| {
        if let Some(earlier) = refused.replace(error) {
            Error::print(&earlier, cx.output.format);
        }
    };
    for name in &typed.vms {
        match ask(cx, name).await {
            Ok(deleted) if limit.is_none() => {
                cx.output.done(&deleted, &format!("VM {name}: delete accepted"))?
            }
            Ok(deleted) => accepted.push((name, deleted)),
            Err(error) => refuse(error),
        }
    }
    for (name, deleted) in accepted {
        // By id: another VM may bear the name by now.
        if let Some(vm) = cx.client.find::<Vm>(&path::of("vms", &deleted.id, "")?).await? {
            let left = limit.unwrap_or_default().saturating_sub(start.elapsed());
            if let Err(error) = wait::until_gone(cx, vm, left).await {
                refuse(error);
                continue;
            }
        }
        cx.output.done(&deleted, &format!("VM {name} deleted"))?;
    }
    refused.map_or(Ok(()), Err)
}

async fn ask(cx: &Context, name: &str) -> Result<Deleted, Error> {
    let look = format!("holm vm show {name}");
    cx.client.write(Method::DELETE, &path::of("vms", name, "")?, &(), &look).await
}
