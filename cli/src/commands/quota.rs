//! `holm quota …`

mod set;
mod show;

use super::Context;
use crate::args::quota::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Show(typed) => show::run(cx, &typed).await,
        Verb::Set(typed) => set::run(cx, typed).await,
    }
}
