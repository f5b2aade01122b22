//! `holmd` with bugs on demand: `HOLM_PLANT=local-read` breaks the promise of that name (a comma between several).
//! For the test suites only. `holmd` itself neither reads the variable nor can break anything.

use std::process::ExitCode;

use holm_model::planted::{Plant, plant};

fn main() -> ExitCode {
    let names = std::env::var("HOLM_PLANT").unwrap_or_default();
    let named = |name: &str| Plant::named(name).ok_or_else(|| name.to_owned());
    match names.split(',').filter(|name| !name.is_empty()).map(named).collect() {
        Ok(chosen) => plant(chosen),
        Err(name) => {
            eprintln!("holmd-planted: HOLM_PLANT: there is no bug `{name}`");
            return ExitCode::from(2);
        }
    }
    holm_node::program::main()
}
