//! The plug-ins in tests/plugins and tests/oracle/plugins are what their sources say, and the one for the conformance suite leaves
//! no function out.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, Script, SkillInput};
use metier::host::{Files, HostFunction, SkillContext, functions};
use metier::policy::{Permissions, RequestedPermissions};
use metier_core::policy::PathProtection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::not_run::{find_program, not_run};

/// A plug-in, and the compiler that made the module in the repository. By another version of it the bytes may differ; then
/// both modules must give the same answers.
struct PlugIn {
    source: &'static str,
    module: &'static str,
    compiler: fn() -> Option<PathBuf>,
    version: &'static str,
    /// What follows the compiler's name, before the source.
    options: &'static [&'static str],
    /// What stands before the path of the module.
    output: &'static str,
    /// Function and input.
    calls: fn() -> Vec<(&'static str, Value)>,
}

const PLUG_INS: [PlugIn; 2] = [
    PlugIn {
        source: "conformance.c",
        module: "conformance.wasm",
        compiler: clang,
        version: "clang version 14.0.6",
        options: &[
            "--target=wasm32-unknown-unknown",
            "-O2",
            "-nostdlib",
            "-ffreestanding",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wl,--no-entry",
            "-Wl,--strip-all",
        ],
        output: "-o",
        calls: || {
            vec![
                ("echo", json!({"a": [1, "ü"]})),
                ("handled", json!({})),
                ("call", json!({"name": "read_file", "args": ["a.txt"]})),
                ("call", json!({"name": "write", "args": ["a.txt", "x"]})),
                ("call", json!({"name": "head", "args": ["a.txt", 1, null]})),
                ("call", json!({"name": "fly", "args": []})),
            ]
        },
    },
    PlugIn {
        source: "words.ts",
        module: "words.wasm",
        compiler: asc,
        version: "Version 0.28.20",
        options: &["--runtime", "stub", "--use", "abort=words/gaveUp", "-O3"],
        output: "--outFile",
        calls: || ["a.txt", "missing.txt", "../a.txt"].map(|path| ("run", json!({"path": path}))).to_vec(),
    },
];

/// The modules of the oracle, and everything that they are built from.
const ORACLE_FILES: &[&str] = &[
    "assemblyscript.wasm",
    "assemblyscript/calls.ts",
    "assemblyscript/package-lock.json",
    "assemblyscript/package.json",
    "rust.wasm",
    "rust/Cargo.lock",
    "rust/Cargo.toml",
    "rust/src/lib.rs",
];

fn oracle_folder() -> PathBuf {
    package().join("tests/oracle/plugins")
}

fn clang() -> Option<PathBuf> {
    find_program("wasm-ld").and(find_program("clang"))
}

/// Where `.ci/run` puts it, or the user's own.
fn asc() -> Option<PathBuf> {
    let installed = package().join("target/asc/node_modules/.bin/asc");
    if installed.is_file() { Some(installed) } else { find_program("asc") }
}

#[test]
fn each_module_is_what_its_source_says() {
    for plug_in in &PLUG_INS {
        let Some(compiler) = (plug_in.compiler)() else {
            not_run(plug_in.source, "its compiler is not here");
            continue;
        };
        let kept = std::fs::read(folder().join(plug_in.module)).unwrap();
        let made = compiled(plug_in, &compiler);
        let version = output(Command::new(&compiler).arg("--version"));
        if version.contains(plug_in.version) {
            assert!(made == kept, "{} is not what {} says; compile it anew", plug_in.module, plug_in.source);
        }
        for (function, input) in (plug_in.calls)() {
            let answer = |module: &[u8]| spelled(run(module, function, input.clone()));
            assert_eq!(answer(&made), answer(&kept), "{function} of {} for {input}", plug_in.source);
        }
    }
}

/// Of the one in Rust only this is checked: it takes another target of the compiler to build it.
#[test]
fn the_modules_of_the_oracle_were_built_from_the_sources_beside_them() {
    let folder = oracle_folder();
    let recorded = std::fs::read_to_string(folder.join("digests.txt")).unwrap();
    let recorded: Vec<&str> = recorded.lines().filter(|line| !line.starts_with('#')).collect();
    let mut present = Vec::new();
    for path in ORACLE_FILES {
        let digest = Sha256::digest(std::fs::read(folder.join(path)).unwrap());
        let mut line = String::new();
        digest.iter().for_each(|byte| write!(line, "{byte:02x}").unwrap());
        present.push(format!("{line}  {path}"));
    }
    let lines = present.join("\n");
    assert!(
        recorded == present,
        "a source or a module in tests/oracle/plugins changed: build the module anew, as tests/oracle/README.md says, and then \
         put these lines into digests.txt:\n{lines}"
    );
}

#[cfg(unix)]
#[test]
fn the_assemblyscript_plug_in_of_the_oracle_is_what_its_source_says() {
    let packages = package().join("target/oracle-asc/node_modules");
    let compiler = packages.join(".bin/asc");
    if !compiler.is_file() {
        not_run("tests/oracle/plugins/assemblyscript", "its compiler and Extism's kit are not here");
        return;
    }
    let temp_dir = tempfile::tempdir().unwrap();
    let work = temp_dir.path();
    // The compiler looks for the kit beside the source.
    std::os::unix::fs::symlink(&packages, work.join("node_modules")).unwrap();
    std::fs::copy(oracle_folder().join("assemblyscript/calls.ts"), work.join("calls.ts")).unwrap();
    let options = ["calls.ts", "--outFile", "calls.wasm", "--use", "abort=calls/gaveUp", "-O3"];
    output(Command::new(&compiler).args(options).current_dir(work));
    let built = std::fs::read(work.join("calls.wasm")).unwrap();
    let kept = std::fs::read(oracle_folder().join("assemblyscript.wasm")).unwrap();
    assert!(built == kept, "assemblyscript.wasm is not what calls.ts says; compile it anew");
}

#[test]
fn the_conformance_plug_in_imports_every_function_with_all_its_parameters() {
    let source = std::fs::read_to_string(folder().join("conformance.c")).unwrap();
    let row = |function: &&HostFunction| format!("F({}, {})", function.name, function.params.len());
    let missing: Vec<String> = functions().iter().map(row).filter(|row| !source.contains(row)).collect();
    assert!(missing.is_empty(), "conformance.c lacks {missing:?}; add them and compile the module anew");
}

#[test]
fn a_plug_in_in_assemblyscript_counts_the_words_of_a_file() {
    let module = std::fs::read(folder().join("words.wasm")).unwrap();
    let count = |path: &str| run(&module, "run", json!({"path": path}));
    assert_eq!(count("a.txt").unwrap(), json!({"path": "a.txt", "words": 5}));
    assert_eq!(count("missing.txt").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(count("../a.txt").unwrap_err().kind(), ErrorKind::OutsideProject);
    let error = run(&module, "run", json!({})).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Script, "the input needs a `path`"));
}

fn compiled(plug_in: &PlugIn, compiler: &Path) -> Vec<u8> {
    let made = tempfile::tempdir().unwrap();
    let module = made.path().join(plug_in.module);
    let arguments = plug_in.options.iter().map(OsStr::new);
    let files = [OsStr::new(plug_in.output), module.as_os_str(), OsStr::new(plug_in.source)];
    output(Command::new(compiler).args(arguments.chain(files)).current_dir(folder()));
    std::fs::read(module).unwrap()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a plug-in in a project with one file, nothing granted.
fn run(module: &[u8], function: &str, input: Value) -> Result<Value> {
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("a.txt"), "one  two\n\tgrüße \"four\"\r\nfive").unwrap();
    let context = SkillContext::builder("plugins")
        .project(Files::open(project.path()).unwrap())
        .permissions(Permissions::new(RequestedPermissions::All, [], PathProtection::default()))
        .build();
    let mut script = Script::new("plugins", "scripts/main.wasm", module);
    script.function = Some(function.into());
    let executor = metier::ScriptLoader::new().compile_in_process(true).load(RuntimeId::WASM, &script)?;
    Ok(executor.execute_with_context(SkillInput::from(input), Some(&context))?.value)
}

fn spelled(answer: Result<Value>) -> String {
    answer.map_or_else(|error| format!("{}: {error}", error.kind()), |value| value.to_string())
}

fn folder() -> PathBuf {
    package().join("tests/plugins")
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
