//! A pair in memory and in a folder, in one process: `cargo xtask bench micro`.

mod embedded;

fn main() {
    divan::main();
}
