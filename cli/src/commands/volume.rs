//! `holm volume …`

mod create;
mod delete;
mod list;
mod show;

use super::Context;
use crate::args::volume::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Create(typed) => create::run(cx, typed).await,
        Verb::List(typed) => list::run(cx, &typed).await,
        Verb::Show(typed) => show::run(cx, &typed).await,
        Verb::Delete(typed) => delete::run(cx, &typed).await,
    }
}
