//! The shim as a program of its own, for this crate's tests. The product runs it as `holmd shim`.

fn main() {
    #[cfg(feature = "planted")]
    plant_from_environment();
    holm_vmm::shim::main(std::env::args_os().skip(1))
}

/// `HOLM_PLANT=shim-ignores-lease` breaks the promise of that name.
#[cfg(feature = "planted")]
fn plant_from_environment() {
    use holm_model::planted::{Plant, plant};
    if let Ok(name) = std::env::var("HOLM_PLANT") {
        plant(vec![Plant::named(&name).expect("HOLM_PLANT names a bug that there is")]);
    }
}
