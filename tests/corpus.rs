//! What the fuzzers start from and what they found, read without one: each file whole, and cut short at every place.

use std::path::Path;

#[path = "../fuzz/checks/mod.rs"]
mod checks;

#[test]
fn what_fuzzers_start_from_and_found_holds() {
    for (name, _) in checks::CHECKS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        let mut files = 0;
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            files += 1;
            (0..=bytes.len()).for_each(|cut| checks::check(name, &bytes[..cut]));
        }
        assert!(files > 0, "{name} is empty");
    }
}

#[test]
fn each_check_has_its_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let crate_file = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, _) in checks::CHECKS {
        let target = std::fs::read_to_string(folder.join("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(target.contains(&format!("checks::check(\"{name}\", source)")), "{name}");
        assert!(crate_file.contains(&format!("name = \"{name}\"\n")), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.join("fuzz_targets")).unwrap().count(), checks::CHECKS.len());
}
