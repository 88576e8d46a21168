//! Any bytes as a SKILL.md: parsed or not, and every finding points into the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier::skill::{Place, parse};

fuzz_target!(|source: &[u8]| {
    let parsed = parse(source, Place { directory: "x", file: "SKILL.md" });
    assert_eq!(parsed.loads(), parsed.manifest.is_some());
    assert!(parsed.diagnostics.iter().all(|found| found.span.end <= source.len()));
});
