//! What holds of any bytes that a stranger hands in, a check for each kind of text. The fuzzers hand in what they make up,
//! `tests/corpus.rs` what they start from.

mod definition;
mod journal;
mod openapi;
mod plan;
mod run;
mod schema;
mod skill;
mod words;

/// A name, and what holds of any bytes.
pub type Check = (&'static str, fn(&[u8]));

/// Every check, by the name of its fuzzer and of the folder it starts from.
pub const CHECKS: [Check; 16] = [
    ("case", words::case),
    ("contract", skill::contract),
    ("definition-agentskit", definition::agentskit),
    ("definition-contract", definition::contract),
    ("definition-curia", definition::curia),
    ("definition-sweny", definition::sweny),
    ("definition-synwire", definition::synwire),
    ("frontmatter", skill::frontmatter),
    ("import", definition::import),
    ("journal", journal::journal),
    ("json", words::json),
    ("openapi", openapi::openapi),
    ("reference", plan::reference),
    ("schema", schema::schema),
    ("sequence", plan::sequence),
    ("words", words::words),
];

/// The check of that name.
pub fn check(name: &str, source: &[u8]) {
    let found = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) = found.unwrap_or_else(|| panic!("{name} is not a check"));
    check(source);
}
