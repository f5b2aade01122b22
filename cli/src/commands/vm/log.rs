//! `holm vm log`: the guest's own bytes, as they are.

use holm_api::LogQuery;
use http_body_util::BodyExt;

use crate::args::vm::Log;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::print_bytes;

pub async fn run(cx: &Context, typed: &Log) -> Result<(), Error> {
    let query = LogQuery { bytes: Some(typed.bytes), follow: typed.follow };
    let target = path::with_query(&path::of("vms", &typed.vm, "/log")?, &query, &[]);
    let mut body = cx.client.open(&target).await?.into_body();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        match frame {
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    print_bytes(&bytes)?;
                }
            }
            None => return Ok(()),
            Some(Err(error)) => {
                return Err(Error::Unreachable {
                    detail: format!("the log broke off: {error}"),
                    hint: Some(format!("its node may be down; see `holm vm show {}`", typed.vm)),
                });
            }
        }
    }
}
