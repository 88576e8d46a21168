//! Runs agent skills: folders with a `SKILL.md` and scripts.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod skill;
