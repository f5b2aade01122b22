//! `holm vm …`

mod console;
mod create;
mod delete;
mod evacuate;
mod explain;
mod list;
mod log;
mod power;
mod replay;
mod set;
mod show;
pub mod wait;

pub use self::power::seconds;
use super::Context;
use crate::args::vm::Verb;
use crate::error::Error;

pub async fn run(cx: &Context, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Create(typed) => Box::pin(create::run(cx, *typed)).await,
        Verb::List(typed) => Box::pin(list::run(cx, &typed)).await,
        Verb::Show(typed) => show::run(cx, &typed).await,
        Verb::Start(typed) => Box::pin(power::start(cx, &typed)).await,
        Verb::Stop(typed) => Box::pin(power::stop(cx, &typed)).await,
        Verb::Reboot(typed) => Box::pin(power::reboot(cx, &typed)).await,
        Verb::Delete(typed) => Box::pin(delete::run(cx, &typed)).await,
        Verb::Log(typed) => log::run(cx, &typed).await,
        Verb::Console(typed) => Box::pin(console::run(cx, &typed)).await,
        Verb::Explain(typed) => explain::run(cx, &typed).await,
        Verb::Replay(typed) => replay::run(cx, &typed).await,
        Verb::Set(typed) => set::run(cx, &typed).await,
        Verb::Evacuate(typed) => Box::pin(evacuate::run(cx, &typed)).await,
        Verb::ResetState(typed) => evacuate::reset_state(cx, &typed).await,
    }
}
