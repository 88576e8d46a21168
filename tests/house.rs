//! The house keeps its shape: who may use whom, which files are how long, where the unsafe rooms are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Room, and the rooms it may name. `lib.rs` and the binary may name all.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("strict_json", &[]),
    ("alloc_counter", &[]),
    ("unicode", &[]),
    ("policy", &["error"]),
    ("host", &["error", "alloc_counter", "policy", "unicode"]),
    ("skill", &["error", "policy"]),
    ("plan", &["error", "strict_json", "policy", "host", "skill"]),
    ("executor", &["error", "policy", "host"]),
    ("registry", &["error", "policy", "host", "skill", "executor", "unicode"]),
    ("runtimes", &["error", "strict_json", "alloc_counter", "policy", "host", "skill", "plan", "executor"]),
    ("engine", &["error", "policy", "host", "skill", "plan", "executor", "registry", "runtimes"]),
    ("cases", &["error", "strict_json", "policy", "host", "skill", "executor", "registry", "engine"]),
];

/// Files that may hold `unsafe`; each says at its top why it must.
const UNSAFE_FILES: &[&str] = &[
    "runtimes/lua/interrupt.rs",
    "runtimes/sandbox/linux/sys.rs",
    "runtimes/wasm/deserialize.rs",
    "src/alloc_counter.rs",
];

/// Lines of a source file beyond which a second noun is hiding inside. Tests may be longer.
const MAX_LINES: usize = 600;

#[test]
fn dependencies_point_one_way() {
    for (file, text) in sources() {
        let Some((room, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(room, _)| belongs_to(&file, room))
        else {
            continue;
        };
        for named in imported_modules(&text) {
            let known = named == *room || allowed.contains(&named.as_str());
            let is_room = ALLOWED_DEPENDENCIES.iter().any(|(other, _)| *other == named);
            assert!(known || !is_room, "{} names crate::{named}, which {room} may not", file.display());
        }
    }
}

#[test]
fn the_command_line_uses_the_public_library_only() {
    for (file, text) in sources().into_iter().filter(|(file, _)| file.starts_with("src/cli")) {
        assert!(!imported_modules(&text).iter().any(|room| room != "cli"), "{}", file.display());
    }
}

#[test]
fn every_file_says_first_what_it_is_for() {
    for (file, text) in sources() {
        let first = text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
        assert!(first.starts_with("//! "), "{} begins with {first:?}", file.display());
    }
}

#[test]
fn a_file_is_one_noun() {
    for (file, text) in sources() {
        let is_test =
            file.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count();
        assert!(is_test || code <= MAX_LINES, "{} has {code} lines before its tests", file.display());
    }
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    for (file, text) in sources() {
        let opens = text.contains("allow(unsafe_code)");
        let is_room = UNSAFE_FILES.iter().any(|room| file == Path::new(room));
        assert_eq!(opens, is_room, "{}", file.display());
    }
}

#[test]
fn features_are_rows_and_not_scattered() {
    // The sandbox chooses there whether this build has one.
    const SANDBOX: &str = "runtimes/sandbox/mod.rs";
    const PLACES: [&str; 4] = ["src/lib.rs", "runtimes/mod.rs", SANDBOX, "src/main.rs"];
    for (file, text) in sources() {
        let conditional = text.lines().any(|line| line.contains("cfg(") && line.contains("feature = "));
        assert!(!conditional || PLACES.iter().any(|place| file == Path::new(place)), "{}", file.display());
    }
}

#[test]
fn nothing_unfinished_is_left_lying_about() {
    for (file, text) in sources() {
        for mark in ["todo!(", "unimplemented!(", "dbg!(", "FIXME", "XXX"] {
            assert!(!text.contains(mark), "{} holds {mark}", file.display());
        }
    }
}

/// The first names after `crate::` in this text, outside `#[cfg(test)]` modules.
fn imported_modules(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let direct = code.split("crate::").skip(1).map(name);
    let grouped = code.split("crate::{").skip(1).flat_map(|rest| {
        let group = rest.split("};").next().unwrap_or_default();
        group.split(',').map(|part| name(part.trim())).collect::<Vec<_>>()
    });
    direct.chain(grouped).filter(|name: &String| !name.is_empty()).collect()
}

fn belongs_to(file: &Path, room: &str) -> bool {
    file.starts_with(format!("src/{room}"))
        || file == Path::new(&format!("src/{room}.rs"))
        || file.starts_with(room)
}

/// Every Rust source of the library and the binary, by its path in the package.
fn sources() -> Vec<(PathBuf, String)> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![package.join("src"), package.join("runtimes")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(package).unwrap().to_owned(), text));
            }
        }
    }
    assert!(files.len() > 20, "the sources were not found");
    files
}
