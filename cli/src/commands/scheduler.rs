//! `holm scheduler …`

mod reset;
mod set;
mod show;

use super::Context;
use crate::args::scheduler::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Show => show::run(cx).await,
        Verb::Set(typed) => set::run(cx, &typed).await,
        Verb::Reset => reset::run(cx).await,
    }
}
