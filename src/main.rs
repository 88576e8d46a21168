//! The `metier` command: parse, call, exit code.

fn main() {}
