//! `holmd`, the Holm daemon.

fn main() -> std::process::ExitCode {
    holm_node::program::main()
}
