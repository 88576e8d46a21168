//! The definitions of other systems: each is read to the one contract, runs by it, and is refused where nothing could run it.

mod activation;
mod agentskit;
#[cfg(feature = "cli")]
mod commands;
mod curia;
mod definitions;
mod exports;
#[cfg(feature = "sandboxed")]
mod handlers;
mod hostile;
#[cfg(feature = "cli")]
mod openapi;
mod sweny;
mod sweny_frontmatter;
mod synwire;
mod synwire_cases;
mod verdicts;
#[cfg(feature = "cli")]
mod web_imports;
mod yaml;

use metier::formats::parse;
use metier::skill::contract::Contract;

/// The contract in a file of that name.
#[track_caller]
fn contract(file: &str, source: &str) -> Contract {
    let parsed = parse(file, source.as_bytes(), None);
    parsed.contract.unwrap_or_else(|| panic!("{source}: {:?}", parsed.diagnostics))
}

/// The codes and messages of what blocks the definition.
#[track_caller]
fn refusals(file: &str, source: &str) -> Vec<String> {
    let parsed = parse(file, source.as_bytes(), None);
    assert!(parsed.contract.is_none(), "{source} is accepted");
    let blocking = parsed.diagnostics.iter().filter(|found| found.blocks);
    blocking.map(|found| format!("{}: {}", found.code, found.message)).collect()
}

/// Refuses the definition, and says why in these words.
#[track_caller]
fn refused(file: &str, source: &str, words: &str) {
    let found = refusals(file, source);
    assert!(found.iter().any(|found| found.contains(words)), "{source}: {found:?} has no {words:?}");
}
