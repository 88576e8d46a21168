//! The attacks, by what they are after.

mod devices;
mod endings;
mod files;
mod kernel;
mod links;
mod others;
mod powers;
mod resources;
mod sockets;
mod streams;
mod trees;

use crate::case::Case;

/// Every attack there is.
pub const ALL: &[&[Case]] = &[
    trees::CASES,
    streams::CASES,
    resources::CASES,
    powers::CASES,
    files::CASES,
    links::CASES,
    devices::CASES,
    sockets::CASES,
    others::CASES,
    kernel::CASES,
    endings::CASES,
];

const fn case(number: &'static str, tries: &'static str, run: fn() -> crate::case::Tried) -> Case {
    Case { number, tries, run }
}
