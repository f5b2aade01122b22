//! `holm node …`

mod cordon;
mod list;
mod remove;
mod show;

use super::Context;
use crate::args::node::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::List => list::run(cx).await,
        Verb::Show(typed) => show::run(cx, &typed).await,
        Verb::Cordon(typed) => cordon::run(cx, &typed.node, false, typed.reason).await,
        Verb::Uncordon(typed) => cordon::run(cx, &typed.node, true, None).await,
        Verb::Remove(typed) => remove::run(cx, &typed).await,
    }
}
