//! The shim as a program of its own, for this crate's tests. The product runs it as `holmd shim`.

fn main() {
    holm_vmm::shim::main(std::env::args_os().skip(1))
}
