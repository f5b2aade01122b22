//! `holm volume create`

use holm_api::{CreateVolume, Volume, VolumeLock};
use hyper::Method;

use crate::args::volume::{Create, Lock};
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    let lock = match typed.lock {
        Lock::None => VolumeLock::None,
        Lock::PersistentReservation => VolumeLock::PersistentReservation,
    };
    let body = CreateVolume { name: typed.name, path: typed.path, read_only: typed.read_only, lock };
    let look = format!("holm volume show {}", body.name);
    let volume: Volume = cx.client.write(Method::POST, "/v1/volumes", &body, &look).await?;
    cx.output.done(&volume, &format!("volume {} created: {}, lock {}", volume.name, volume.path, volume.lock))
}
