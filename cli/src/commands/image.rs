//! `holm image …`

mod delete;
mod import;
mod kind;
mod list;
mod show;

use super::Context;
use crate::args::image::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Import(typed) => import::run(cx, &typed).await,
        Verb::List(typed) => list::run(cx, &typed).await,
        Verb::Show(typed) => show::run(cx, &typed).await,
        Verb::Delete(typed) => delete::run(cx, &typed).await,
    }
}
