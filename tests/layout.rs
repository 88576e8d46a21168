//! The layout of the sources: which module may use which, how long a file may be, where `unsafe` and features may stand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A module of the package `metier`, and the modules that it may name; between packages, Cargo sees to it. `lib.rs` and the binary may
/// name all.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("runtimes", &[]),
    ("registry", &[]),
    ("audit", &[]),
    ("trust", &["registry", "audit"]),
    ("config", &["registry"]),
    ("engine", &["registry", "audit", "trust", "config", "runtimes"]),
    ("mcp", &["registry", "audit", "config", "engine"]),
    ("cases", &["registry", "config", "engine"]),
];

/// Files that may hold `unsafe`; each says at its top why it must.
const UNSAFE_FILES: &[&str] = &[
    "crates/core/src/alloc_counter.rs",
    "runtimes/lua/src/interrupt.rs",
    "runtimes/sandbox/src/linux/sys.rs",
    "runtimes/wasm/src/deserialize.rs",
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
    const PLACES: [&str; 2] = ["src/runtimes/mod.rs", "src/main.rs"];
    // A module of the library that a feature switches is declared in its own folder, where no row of another file can reach it.
    // There a condition stands before a module or what is exported from it, and nowhere else.
    const SWITCHES: [&str; 10] = [
        "crates/core/src/host/mod.rs",
        "crates/core/src/host/http/mod.rs",
        "crates/skill/src/comparison/mod.rs",
        "crates/skill/src/contract/mod.rs",
        "crates/skill/src/contract/schema/mod.rs",
        "crates/skill/src/openapi/mod.rs",
        "runtimes/external/src/protected/mod.rs",
        "src/cli/mod.rs",
        "src/config/mod.rs",
        "src/host.rs",
    ];
    for (file, text) in sources() {
        let is_one_of = |places: &[&str]| places.iter().any(|place| file == Path::new(place));
        let is_root = file.ends_with("src/lib.rs");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let is_condition =
                line.contains("cfg(") || (line.contains("cfg_attr(") && line.contains("path = "));
            if !(is_condition && line.contains("feature = "))
                || line.contains("\"testing\"")
                || is_root
                || is_one_of(&PLACES)
            {
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

#[test]
fn every_file_in_tests_belongs_to_a_program() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(package.join(path)).unwrap();
    let mut modules = BTreeSet::new();
    for program in read("Cargo.toml").split("[[test]]\nname = \"").skip(1) {
        let name = program.split('"').next().unwrap();
        let text = read(&format!("tests/{name}.rs"));
        let declared = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        modules.extend(declared.chain([name]).map(str::to_owned));
    }
    assert!(modules.len() > 20, "the programs were not found");
    for entry in package.join("tests").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let is_module = path.extension().is_some_and(|ending| ending == "rs") || path.join("mod.rs").exists();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(!is_module || modules.contains(name), "no program of tests has {}", path.display());
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
    file.starts_with(format!("src/{module}")) || file == Path::new(&format!("src/{module}.rs"))
}

/// Every Rust source of the library and the binary, by its path in the package.
fn sources() -> Vec<(PathBuf, String)> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![package.join("src"), package.join("crates"), package.join("runtimes")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // What is built, and what a package shows of itself.
                if !(path.ends_with("target") || path.ends_with("examples")) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(package).unwrap().to_owned(), text));
            }
        }
    }
    assert!(files.len() > 20, "the sources were not found");
    files
}
