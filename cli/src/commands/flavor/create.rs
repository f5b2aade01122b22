//! `holm flavor create`

use holm_api::{CreateFlavor, Flavor};
use hyper::Method;

use crate::args::flavor::Create;
use crate::args::value::once;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    path::of("flavors", &typed.name, "")?;
    let body = CreateFlavor {
        name: typed.name,
        vcpus: typed.vcpus,
        memory_mib: typed.memory_mib,
        disk_gib: typed.disk_gib,
        extra_specs: once(typed.extra_specs)?,
    };
    let look = format!("holm flavor show {}", body.name);
    let flavor: Flavor = cx.client.write(Method::POST, "/v1/flavors", &body, &look).await?;
    cx.output.done(&flavor, &format!("flavor {} created", flavor.name))
}
