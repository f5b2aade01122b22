//! `holm node …`

mod cordon;
mod describe;
mod drain;
mod list;
mod orphans;
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
        Verb::Label(typed) => describe::label(cx, typed).await,
        Verb::Taint(typed) => describe::taint(cx, &typed).await,
        Verb::Trait(typed) => describe::traits(cx, &typed).await,
        Verb::SetInventory(typed) => describe::set_inventory(cx, &typed).await,
        Verb::Drain(typed) => Box::pin(drain::drain(cx, &typed)).await,
        Verb::Maintenance(typed) => Box::pin(drain::maintenance(cx, &typed)).await,
        Verb::Orphans { node } => orphans::run(cx, node.as_deref()).await,
        Verb::Remove(typed) => remove::run(cx, &typed).await,
    }
}
