//! The layout of the sources: which module may use which, how long a file may be, where `unsafe` and features may stand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A module, and the modules that it may name. `lib.rs` and the binary may name all.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("hint", &[]),
    ("error", &["hint"]),
    ("strict_json", &[]),
    ("alloc_counter", &[]),
    ("unicode", &[]),
    ("percent_encoding", &[]),
    ("suggestion", &[]),
    ("excerpt", &[]),
    ("template", &[]),
    ("policy", &["error", "excerpt", "suggestion", "alloc_counter"]),
    ("host", &["error", "excerpt", "suggestion", "alloc_counter", "policy", "percent_encoding", "unicode"]),
    ("skill", &["error", "excerpt", "suggestion", "percent_encoding", "policy", "template", "unicode"]),
    ("formats", &["error", "excerpt", "suggestion", "policy", "skill", "unicode"]),
    ("plan", &["error", "excerpt", "suggestion", "strict_json", "policy", "host", "skill", "template"]),
    ("executor", &["error", "suggestion", "policy", "host"]),
    (
        "registry",
        &["error", "excerpt", "suggestion", "policy", "host", "skill", "formats", "executor", "unicode"],
    ),
    ("trust", &["error", "policy", "host", "registry"]),
    ("state", &["error", "policy", "host"]),
    ("config", &["error", "suggestion", "policy", "host", "registry"]),
    ("packages", &["error", "excerpt", "policy", "host", "config"]),
    (
        "runtimes",
        &[
            "error",
            "excerpt",
            "suggestion",
            "strict_json",
            "alloc_counter",
            "percent_encoding",
            "policy",
            "host",
            "skill",
            "template",
            "plan",
            "executor",
            "state",
            "packages",
        ],
    ),
    (
        "engine",
        &[
            "error",
            "excerpt",
            "strict_json",
            "suggestion",
            "policy",
            "host",
            "skill",
            "plan",
            "executor",
            "registry",
            "trust",
            "state",
            "config",
            "packages",
            "runtimes",
        ],
    ),
    (
        "mcp",
        &[
            "error",
            "excerpt",
            "percent_encoding",
            "strict_json",
            "unicode",
            "policy",
            "host",
            "skill",
            "plan",
            "executor",
            "registry",
            "config",
            "engine",
        ],
    ),
    (
        "cases",
        &[
            "error",
            "strict_json",
            "suggestion",
            "policy",
            "host",
            "skill",
            "executor",
            "registry",
            "state",
            "config",
            "engine",
        ],
    ),
];

/// Files that may hold `unsafe`; each says at its top why it must.
const UNSAFE_FILES: &[&str] = &[
    "runtimes/lua/interrupt.rs",
    "runtimes/sandbox/src/linux/sys.rs",
    "runtimes/wasm/deserialize.rs",
    "src/alloc_counter.rs",
];

#[test]
fn dependencies_point_one_way() {
    for (file, text) in sources() {
        let Some((module, allowed)) =
            ALLOWED_DEPENDENCIES.iter().find(|(module, _)| belongs_to(&file, module))
        else {
            continue;
        };
        for named in imported_modules(&text) {
            let known = named == *module || allowed.contains(&named.as_str());
            let is_module = ALLOWED_DEPENDENCIES.iter().any(|(other, _)| *other == named);
            assert!(known || !is_module, "{} names crate::{named}, which {module} may not", file.display());
        }
    }
}

#[test]
fn the_command_line_uses_the_public_library_only() {
    for (file, text) in sources().into_iter().filter(|(file, _)| file.starts_with("src/cli")) {
        assert!(!imported_modules(&text).iter().any(|module| module != "cli"), "{}", file.display());
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
fn unsafe_code_stays_in_its_files() {
    for (file, text) in sources() {
        let opens = text.contains("allow(unsafe_code)");
        let is_listed = UNSAFE_FILES.iter().any(|listed| file == Path::new(listed));
        assert_eq!(opens, is_listed, "{}", file.display());
    }
}

#[test]
fn features_are_rows_and_not_scattered() {
    // The sandbox chooses there whether this build has one.
    const SANDBOX: &str = "runtimes/sandbox/src/lib.rs";
    const PLACES: [&str; 4] = ["src/lib.rs", "runtimes/mod.rs", SANDBOX, "src/main.rs"];
    // A module of the library that a feature switches is declared in its own folder, where no row of another file can reach it.
    // There a condition stands before a module or what is exported from it, and nowhere else.
    const SWITCHES: [&str; 7] = [
        "src/cli/mod.rs",
        "src/config/mod.rs",
        "src/host/mod.rs",
        "src/host/http/mod.rs",
        "src/packages/mod.rs",
        "src/skill/contract/mod.rs",
        "src/skill/contract/schema/mod.rs",
    ];
    for (file, text) in sources() {
        let is_one_of = |places: &[&str]| places.iter().any(|place| file == Path::new(place));
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let is_condition =
                line.contains("cfg(") || (line.contains("cfg_attr(") && line.contains("path = "));
            if !(is_condition && line.contains("feature = ")) || is_one_of(&PLACES) {
                continue;
            }
            let next = lines.peek().copied().unwrap_or_default();
            let is_switch =
                line.starts_with("#[cfg") && (next.starts_with("mod ") || next.starts_with("pub use "));
            assert!(is_one_of(&SWITCHES) && is_switch, "{}: {line}", file.display());
        }
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

fn belongs_to(file: &Path, module: &str) -> bool {
    file.starts_with(format!("src/{module}"))
        || file == Path::new(&format!("src/{module}.rs"))
        || file.starts_with(module)
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
