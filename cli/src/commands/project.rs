//! `holm project …`

mod create;
mod delete;
mod list;
mod set;
mod show;

use super::Context;
use crate::args::project::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Create(typed) => create::run(cx, typed).await,
        Verb::List => list::run(cx).await,
        Verb::Show(typed) => show::run(cx, &typed).await,
        Verb::Set(typed) => set::run(cx, typed).await,
        Verb::Delete(typed) => delete::run(cx, &typed).await,
    }
}
