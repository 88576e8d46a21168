//! The ratios, from what criterion measured in this run or the last one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::previews;

/// What we want to be true of a side and its floor.
#[derive(Clone, Copy)]
enum Goal {
    /// At most so many times the floor.
    Times(f64),
    /// At most so many microseconds more than the floor, for each of so many parts.
    AddedMicros(f64, u32),
    /// It is only shown.
    Informational,
}

use Goal::{AddedMicros, Informational, Times};

/// What is claimed: a name, ours, the floor it is held against, the goal.
const CLAIMS: &[(&str, &str, &str, Goal)] = &[
    (
        "Lua small call, fresh environment and limits / raw mlua, cached function",
        "lua/metier",
        "lua/raw",
        Times(1.25),
    ),
    (
        "Lua tight loop, 1,000,000 rounds under a deadline / raw mlua",
        "lua-loop/metier",
        "lua-loop/raw",
        Times(1.05),
    ),
    (
        "Lua small call by an engine, in a worker process / in this one",
        "lua_engine/worker",
        "lua_engine/in_process",
        Informational,
    ),
    (
        "WebAssembly small call by an engine, in a worker process / in this one",
        "wasm_engine/worker",
        "wasm_engine/in_process",
        Informational,
    ),
    (
        "Lua small call by an engine, with an observer that does nothing / that nobody observes",
        "events/observed",
        "events/unobserved",
        Informational,
    ),
    (
        "Lua small call by an engine, with an extension and an approver that it does not use / without",
        "events/with_extension_and_approver",
        "events/unobserved",
        AddedMicros(1.0, 1),
    ),
    (
        "a text of 1 MB as the value of a run, for a model (at least 200 MB/s) / for a person",
        "sanitizer/for_model",
        "sanitizer/for_person",
        AddedMicros(5_000.0, 1),
    ),
    (
        "the configuration from two files and the environment / reading the bytes of both files",
        "configuration/metier",
        "configuration/read",
        AddedMicros(150.0, 1),
    ),
    (
        "a call of a tool, on a thread of its own / the same call from Rust",
        "tool/metier",
        "tool/direct",
        AddedMicros(100.0, 1),
    ),
    ("Rhai small call, limits / raw engine, cached AST, rhai's serde", "rhai/metier", "rhai/raw", Times(1.3)),
    ("Rhai 20,000 pushes, limits / no limits", "rhai_pushes/metier", "rhai_pushes/unlimited", Times(2.0)),
    (
        "Rhai 20,000 pushes, Rhai's own size limits / no limits",
        "rhai_pushes/own_limits",
        "rhai_pushes/unlimited",
        Informational,
    ),
    (
        "sequence of 1,000 steps / the same calls from Rust",
        "sequence/metier",
        "sequence/calls",
        AddedMicros(5.0, 1000),
    ),
    (
        "two steps of 100 ms side by side / one sleep of 100 ms",
        "side_by_side/metier",
        "side_by_side/sleep",
        Times(1.15),
    ),
    (
        "WebAssembly call, fresh instance and limits / bare wasmtime, pooled, linked once",
        "wasm/metier",
        "wasm/bare",
        Times(1.5),
    ),
    (
        "WebAssembly module of 160 KB from the disk / compiled anew",
        "wasm_load/realistic/from_disk",
        "wasm_load/realistic/compiled_anew",
        Times(0.02),
    ),
    (
        "WebAssembly module of 2,000 small functions from the disk / compiled anew",
        "wasm_load/uniform/from_disk",
        "wasm_load/uniform/compiled_anew",
        Times(0.02),
    ),
    (
        "contract of ten fields: defaults, input and value held, dispatch / bare executor",
        "contract/held",
        "contract/bare",
        AddedMicros(5.0, 1),
    ),
    (
        "Engine::run with that contract / without one",
        "contract_run/with",
        "contract_run/without",
        AddedMicros(5.0, 1),
    ),
    (
        "import of a definition of the article / reading and parsing the file",
        "import/article/metier",
        "import/article/parse",
        Informational,
    ),
    (
        "import of a Curia manifest / reading and parsing the file",
        "import/curia/metier",
        "import/curia/parse",
        Informational,
    ),
    (
        "import of a SWEny skill object / reading and parsing the file",
        "import/sweny/metier",
        "import/sweny/parse",
        Informational,
    ),
    (
        "import of an AgentsKit skill / reading and parsing the file",
        "import/agentskit/metier",
        "import/agentskit/parse",
        Informational,
    ),
    (
        "import of a SKILL.md of Synwire / reading and parsing the file",
        "import/synwire/metier",
        "import/synwire/parse",
        Informational,
    ),
    ("ctx.read_file of 8.8 KB / std::fs::read", "read_file/metier", "read_file/std", Times(1.3)),
    ("grep in 20,000 files / ripgrep's crates, one thread", "grep/metier", "grep/ripgrep", Times(1.1)),
    ("scan of 1,000 skills / open and read", "scan/1000/metier", "scan/1000/floor", Times(3.0)),
    ("scan of 10,000 skills / open and read", "scan/10000/metier", "scan/10000/floor", Times(3.0)),
    (
        "availability of 1,000 skills, with dependencies and settings / their discovery",
        "availability/metier",
        "availability/discovery",
        Times(1.2),
    ),
    (
        "list of 1,000 trusted skills for a model / walking and reading their files",
        "listing/1000/metier",
        "listing/1000/floor",
        Times(5.0),
    ),
    (
        "list of 10,000 trusted skills for a model / walking and reading their files",
        "listing/10000/metier",
        "listing/10000/floor",
        Times(5.0),
    ),
    (
        "digest of a skill of 1,000 files / reading them",
        "trust_digest/metier",
        "trust_digest/read",
        Times(3.0),
    ),
    (
        "the same again, when nothing has changed / reading them",
        "trust_digest/unchanged",
        "trust_digest/read",
        Informational,
    ),
    (
        "run of a skill of five files, with trust and a remembered grant / without",
        "trust_run/with",
        "trust_run/without",
        AddedMicros(200.0, 1),
    ),
    (
        "the same in a fresh engine, which reads all files / without trust",
        "trust_run/fresh_with",
        "trust_run/fresh_without",
        AddedMicros(200.0, 1),
    ),
    (
        "configuration, engine and run of that skill, with trust and a grant / engine and run without them",
        "trust_run/command_with",
        "trust_run/command_without",
        AddedMicros(200.0, 1),
    ),
    (
        "a line of the audit log / writing the same bytes",
        "audit/line",
        "audit/plain_write",
        AddedMicros(30.0, 1),
    ),
    (
        "run of a Lua skill that the audit log records, by two lines / without the log",
        "audit/run_with",
        "audit/run_without",
        AddedMicros(30.0, 2),
    ),
    (
        "a run of a Lua skill for a model, with an autonomy that it has / without one",
        "gates/open",
        "gates/none",
        AddedMicros(3.0, 1),
    ),
    (
        "the same with an authorizer that answers at once / without one",
        "gates/authorizer",
        "gates/none",
        AddedMicros(3.0, 1),
    ),
    (
        "the same with an authorizer that may block, on a thread of its own / without one",
        "gates/authorizer that may block",
        "gates/none",
        Informational,
    ),
    (
        "a tool that is a declared HTTP call, on loopback / the bare request",
        "http_call/tool",
        "http_call/bare",
        AddedMicros(100.0, 1),
    ),
    ("a value that is used again / a copy of it", "cache/hit", "cache/copy", AddedMicros(20.0, 1)),
    (
        "`metier exec -- true` in a copy of the project / in the project",
        "scripts/command_in_copy",
        "scripts/command",
        AddedMicros(1500.0, 1),
    ),
    ("`metier exec -- true`, watched / not", "scripts/command_watched", "scripts/command", Informational),
    (
        "a file that a watched shell opens / that another one opens",
        "scripts/opens_watched",
        "scripts/opens",
        AddedMicros(10.0, previews::FILES),
    ),
    (
        "`metier exec -- true` in a project of 200,000 files, ten folders changed / in an empty one",
        "scripts/walk_large_command",
        "scripts/walk_empty_command",
        AddedMicros(40_000.0, 1),
    ),
    (
        "the same in a host that is up / in an empty project",
        "scripts/walk_large_host",
        "scripts/walk_empty_host",
        AddedMicros(5_000.0, 1),
    ),
    (
        "`metier exec -- true` in a project of 200,000 files, ten folders changed / `find` in it",
        "scripts/walk_large_command",
        "scripts/walk_find",
        Informational,
    ),
    (
        "`metier changes apply` of 2,000 new files, whole command / `cp -r` of them",
        "scripts/apply",
        "scripts/copy",
        Times(1.43),
    ),
    ("cold `metier run` of a Lua skill / `true`", "cold/metier", "cold/true", Informational),
    (
        "three lines of Python, whole `metier run` / the interpreter alone",
        "scripts/python3_command",
        "scripts/python3_alone",
        Times(1.15),
    ),
    (
        "three lines of Python, in a host that is up / the interpreter alone",
        "scripts/python3_host",
        "scripts/python3_alone",
        Times(1.08),
    ),
    (
        "three lines of Node, whole `metier run` / the interpreter alone",
        "scripts/node_command",
        "scripts/node_alone",
        Times(1.15),
    ),
    (
        "three lines of Node, in a host that is up / the interpreter alone",
        "scripts/node_host",
        "scripts/node_alone",
        Times(1.08),
    ),
    (
        "a round trip of one byte, of a script with `net:HOST` / without a sandbox",
        "scripts/round_trip_granted",
        "scripts/round_trip_alone",
        Informational,
    ),
    (
        "a connection, of a script with `net:HOST` / without a sandbox",
        "scripts/connection_granted",
        "scripts/connection_alone",
        Informational,
    ),
    (
        "64 MB, of a script with `net:HOST` / without a sandbox",
        "scripts/download_granted",
        "scripts/download_alone",
        Informational,
    ),
    (
        "a request into which a secret is put, on a connection of its own / over TLS of the script",
        "scripts/secret_connection_put_in",
        "scripts/secret_connection_granted",
        AddedMicros(300.0, 1),
    ),
    (
        "a request into which a secret is put, on a connection that is up / over TLS of the script",
        "scripts/secret_request_put_in",
        "scripts/secret_request_granted",
        AddedMicros(300.0, 1),
    ),
    (
        "a request into which a secret is put, over TLS that is opened / over TLS of the script",
        "scripts/secret_request_opened",
        "scripts/secret_request_granted",
        Informational,
    ),
    ("`true`, sandboxed by Landlock / alone", "sandbox/true_landlock", "sandbox/true", Times(2.6)),
    ("`true`, sandboxed in namespaces / alone", "sandbox/true_namespaces", "sandbox/true", Times(3.5)),
    (
        "`true`, by Landlock, in a host of 500 MB / of few",
        "sandbox/true_landlock_large",
        "sandbox/true_landlock",
        Times(1.25),
    ),
    (
        "`true`, in namespaces, in a host of 500 MB / of few",
        "sandbox/true_namespaces_large",
        "sandbox/true_namespaces",
        Times(1.25),
    ),
    (
        "a whole run of an empty shell script, by Landlock / alone",
        "sandbox/landlock",
        "sandbox/spawn",
        Informational,
    ),
    (
        "a whole run of an empty shell script, in namespaces / alone",
        "sandbox/namespaces",
        "sandbox/spawn",
        Informational,
    ),
    (
        "an empty shell script, by Landlock, in a host of 500 MB / of few",
        "sandbox/landlock_large",
        "sandbox/landlock",
        Times(1.25),
    ),
    (
        "an empty shell script, in namespaces, in a host of 500 MB / of few",
        "sandbox/namespaces_large",
        "sandbox/namespaces",
        Times(1.25),
    ),
    (
        "an empty shell script, in namespaces, in a project of 200,000 files / of few",
        "sandbox/namespaces_in_200000_files",
        "sandbox/namespaces",
        Informational,
    ),
    (
        "a call of a trivial Lua skill over the Model Context Protocol / a bare server that returns the arguments",
        "mcp/metier",
        "mcp/echo",
        Times(1.5),
    ),
    (
        "start, handshake and first call of `metier mcp` with 100 skills / of the bare server",
        "mcp_start/metier",
        "mcp_start/echo",
        AddedMicros(30_000.0, 1),
    ),
    (
        "the list of 100 skills as tools / of as many of the bare server",
        "mcp_list/metier",
        "mcp_list/echo",
        Informational,
    ),
    (
        "an empty shell script, by Landlock / in bubblewrap, equal binds",
        "sandbox/landlock",
        "sandbox/bwrap",
        Times(0.5),
    ),
    (
        "an empty shell script, in namespaces / in bubblewrap, equal binds",
        "sandbox/namespaces",
        "sandbox/bwrap",
        Times(0.5),
    ),
];

/// Prints a line for each claim whose two sides were measured.
pub fn print() {
    println!("\n| what | ours | floor | ratio | goal |\n|---|---|---|---|---|");
    for (name, ours, floor, goal) in CLAIMS {
        match (median(ours), median(floor)) {
            (Some(ours), Some(floor)) => {
                let ratio = ours / floor;
                let missed = if goal.is_met(ours, floor) { "" } else { ", missed" };
                let (ours, floor) = (format_duration(ours), format_duration(floor));
                println!("| {name} | {ours} | {floor} | {ratio:.2}× | {goal}{missed} |");
            }
            // Criterion measures both sides or none; other sides may not be had on a machine.
            (None, None) => {}
            _ => println!("| {name} | - | - | not measured | {goal} |"),
        }
    }
}

impl Goal {
    /// Whether it is met by these nanoseconds.
    fn is_met(self, ours: f64, floor: f64) -> bool {
        match self {
            Times(most) => ours / floor <= most,
            AddedMicros(most, parts) => (ours - floor) / f64::from(parts) <= most * 1e3,
            Informational => true,
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Times(most) => write!(f, "≤ {most}×"),
            AddedMicros(most, 1) => write!(f, "≤ {most} µs more"),
            AddedMicros(most, parts) => write!(f, "≤ {most} µs more for each of {parts}"),
            Informational => f.write_str("-"),
        }
    }
}

/// The median in nanoseconds, as criterion keeps it.
fn median(id: &str) -> Option<f64> {
    let text = std::fs::read_to_string(median_path(id)?).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["median"]["point_estimate"].as_f64()
}

/// Keeps a median that criterion did not measure where it keeps its own; without one, forgets that of the last run.
pub fn store_median(id: &str, median: Option<Duration>) {
    let Some(place) = median_path(id) else { return };
    match median {
        Some(median) => {
            let text = json!({"median": {"point_estimate": median.as_secs_f64() * 1e9}}).to_string();
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
            std::fs::write(place, text).expect("a file");
        }
        None => drop(std::fs::remove_file(place)),
    }
}

fn median_path(id: &str) -> Option<PathBuf> {
    let (group, name) = id.rsplit_once('/')?;
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("criterion").join(group.replace('/', "_"));
    Some(folder.join(name).join("new/estimates.json"))
}

fn format_duration(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e4 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}
