//! The sandbox under attack: programs that try everything to get out, to see more, to take too much, or to stay.
//!
//! The attackers lie in `attackers/`, the cases in `cases/`: each says what it tries and what must come of it. All of them run in
//! every sandbox level, as whoever runs the tests, and, where that is root, once more as an ordinary user.
#![allow(clippy::unnecessary_wraps, reason = "every case may be one that a machine cannot run")]

mod attackers;
mod case;
mod cases;
mod churn;
mod clocks;
mod compiler;
mod containers;
mod denials;
mod filesystems;
mod fixture;
mod honesty;
mod identities;
mod interpreters;
mod ordinary;
mod spread_dir;
mod survivors;
mod unchanged_folders;
mod without_openat2;
mod workers;

#[test]
fn every_attack_is_held() {
    case::run_all(cases::cases_for);
}

#[test]
fn every_attack_of_an_ordinary_user_is_held() {
    ordinary::run_as_nobody("sandbox::every_attack_is_held");
}
