//! Tests of each WASI function: its type, its results, and its handling of invalid addresses.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use wasmtime::{Engine, Instance, InstancePre, Module, Store, Val};

use super::wasi::permissions;
use super::{PRELUDE, loaded};
use crate::budget::PluginBudget;
use crate::engine::on_demand_engine;
use crate::imports::ResolvedImport;
use crate::linker::{StoreData, build_linker};
use crate::run_state::RunState;
use crate::wasi::I32Exit;
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::{CancelToken, Limits, Watchdog};

/// All of `wasi_snapshot_preview1`: `i` is an `i32`, `I` an `i64`.
const SIGNATURES: &[(&str, &str)] = &[
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("sched_yield", ""),
    ("random_get", "ii"),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// The imports of all functions, and an export for each that calls it.
fn imports_and_exports() -> (String, String) {
    let (mut imports, mut exports) = (String::new(), String::new());
    for (name, signature) in SIGNATURES {
        let kinds = signature.chars().map(|kind| if kind == 'i' { " i32" } else { " i64" });
        let params: String = kinds.collect();
        let args: Vec<_> = (0..signature.len()).map(|index| format!("(local.get {index})")).collect();
        let args = args.join(" ");
        let result = if *name == "proc_exit" { "" } else { "(result i32)" };
        let ty = format!("(param{params}) {result}");
        writeln!(imports, r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} {ty}))"#).unwrap();
        writeln!(exports, r#"(func (export "{name}") {ty} (call ${name} {args}))"#).unwrap();
    }
    (imports, exports)
}

static LINKED: LazyLock<(Engine, InstancePre<StoreData>)> = LazyLock::new(|| {
    let engine = on_demand_engine(false).unwrap();
    let (imports, exports) = imports_and_exports();
    let text = format!(r#"(module {imports} (memory (export "memory") 1) {exports})"#);
    let buffer = wast::parser::ParseBuffer::new(&text).unwrap();
    let binary = wast::parser::parse::<wast::Wat>(&buffer).unwrap().encode().unwrap();
    let module = Module::new(&engine, binary).unwrap();
    let linked = build_linker(&engine, &[ResolvedImport::Wasi]).unwrap().instantiate_pre(&module).unwrap();
    (engine, linked)
});

/// Bytes of its memory.
const SIZE: i64 = 65_536;

struct Plugin {
    store: Store<StoreData>,
    instance: Instance,
}

impl Plugin {
    fn new() -> Self {
        let (engine, linked) = &*LINKED;
        let context = SkillContext::builder("test").build();
        let budget = PluginBudget::new(1 << 20, 0, context.cancel()).unwrap();
        let mut store = Store::new(
            engine,
            StoreData::new(RunState::new(&context, budget, "null".into(), Arc::default())),
        );
        store.set_epoch_deadline(1);
        let instance = linked.instantiate(&mut store).unwrap();
        Self { store, instance }
    }

    /// The error number that a function answers with, or why it ended the run.
    #[allow(clippy::cast_possible_truncation)] // the lower half is what a narrow parameter is
    fn call(&mut self, name: &str, args: &[i64]) -> wasmtime::Result<i32> {
        let signature = SIGNATURES.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!(signature.len(), args.len(), "{name}");
        let value =
            |(kind, arg): (char, &i64)| if kind == 'i' { Val::I32(*arg as i32) } else { Val::I64(*arg) };
        let args: Vec<Val> = signature.chars().zip(args).map(value).collect();
        let function = self.instance.get_func(&mut self.store, name).unwrap();
        let mut answer = [Val::I32(0)];
        let count = usize::from(name != "proc_exit");
        function.call(&mut self.store, &args, &mut answer[..count])?;
        Ok(answer[0].unwrap_i32())
    }

    fn answers(&mut self, name: &str, args: &[i64], errno: i32) {
        let answer = self.call(name, args);
        assert_eq!(
            answer.unwrap_or_else(|error| panic!("{name} {args:?}: {error:?}")),
            errno,
            "{name} {args:?}"
        );
    }

    /// The function ends the run with an error that holds this.
    fn traps(&mut self, name: &str, args: &[i64], sentence: &str) {
        let error = self.call(name, args).expect_err(name).root_cause().to_string();
        assert!(error.contains(name) && error.contains(sentence), "{name} {args:?}: {error}");
    }

    fn memory(&mut self) -> &mut [u8] {
        self.instance.get_memory(&mut self.store, "memory").unwrap().data_mut(&mut self.store)
    }

    fn number(&mut self, at: usize) -> u64 {
        u64::from_le_bytes(self.memory()[at..at + 8].try_into().unwrap())
    }

    /// Writes an array of buffers, each an address and a length.
    fn set_buffers(&mut self, at: usize, buffers: &[(u32, u32)]) {
        let words =
            buffers.iter().flat_map(|(address, length)| [address.to_le_bytes(), length.to_le_bytes()]);
        for (place, word) in self.memory()[at..].chunks_mut(4).zip(words) {
            place.copy_from_slice(&word);
        }
    }
}

#[test]
fn a_plug_in_may_import_every_function_by_its_type() {
    let (imports, _) = imports_and_exports();
    let executor = loaded(format!(r#"(module {imports} {PRELUDE} (func (export "run") (call $fine)))"#));
    let context = SkillContext::builder("test").permissions(permissions(&["wasi"], &["wasi"])).build();
    let output = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap();
    assert_eq!(output.value, json!("fine"));
    assert_eq!(SIGNATURES.len(), 46);
}

#[test]
fn another_type_than_a_function_has_is_a_fault_of_the_module() {
    for (name, signature) in SIGNATURES {
        let ty = if *signature == "i" { "(param i64)" } else { "(param i32) (result i64)" };
        let import = format!(r#"(import "wasi_snapshot_preview1" "{name}" (func {ty}))"#);
        super::invalid(&super::source(format!(r#"(module {import} (func (export "run")))"#)), name);
    }
}

/// Error numbers.
const BADF: i32 = 8;
const INVAL: i32 = 28;
const NOTDIR: i32 = 54;
const NOTSUP: i32 = 58;
const OVERFLOW: i32 = 61;

/// What is neither a file nor a directory nor a socket answers, whatever the descriptor.
const ALIKE: &[(&str, &[i64], i32)] = &[
    ("fd_advise", &[0, 0, 5], BADF),
    ("fd_fdstat_set_flags", &[31], BADF),
    ("fd_filestat_set_size", &[5], BADF),
    ("fd_filestat_set_times", &[1, 1, 0b0101], BADF),
    ("fd_filestat_set_times", &[1, 1, 0b0011], INVAL),
    ("fd_filestat_set_times", &[1, 1, 0b1100], INVAL),
    ("fd_pread", &[0, 1, 0, 8], BADF),
    ("fd_prestat_get", &[8], BADF),
    ("fd_prestat_dir_name", &[8, 8], NOTDIR),
    ("fd_pwrite", &[0, 1, 0, 8], BADF),
    ("fd_readdir", &[0, 8, 0, 8], BADF),
    ("fd_seek", &[0, 2, 8], BADF),
    ("fd_seek", &[-1, 1, 8], BADF),
    ("fd_seek", &[-1, 0, 8], INVAL),
    ("fd_tell", &[8], BADF),
    ("path_create_directory", &[0, 1], BADF),
    ("path_filestat_get", &[1, 0, 1, 8], BADF),
    ("path_filestat_set_times", &[1, 0, 1, 0, 0, 0b0101], BADF),
    ("path_filestat_set_times", &[1, 0, 1, 0, 0, 0b1100], INVAL),
    ("path_link", &[1, 0, 1, 0, 0, 1], BADF),
    ("path_readlink", &[0, 1, 0, 1, 8], BADF),
    ("path_remove_directory", &[0, 1], BADF),
    ("path_rename", &[0, 1, 0, 0, 1], BADF),
    ("path_unlink_file", &[0, 1], BADF),
    ("sock_accept", &[0, 8], BADF),
    ("sock_recv", &[0, 1, 3, 8, 8], BADF),
    ("sock_send", &[0, 1, 0, 8], BADF),
    ("sock_shutdown", &[3], BADF),
];

/// What a stream answers; anything else is not open.
const STREAMS: &[(&str, &[i64], i32)] = &[
    ("fd_allocate", &[0, 1], NOTSUP),
    ("fd_datasync", &[], 0),
    ("fd_fdstat_get", &[8], 0),
    ("fd_fdstat_set_rights", &[1, 1], NOTSUP),
    ("fd_filestat_get", &[8], 0),
    ("fd_sync", &[], 0),
    ("path_open", &[1, 0, 1, 15, 2, 2, 31, 8], NOTDIR),
    ("fd_close", &[], 0),
];

#[test]
fn there_are_three_streams_and_nothing_else() {
    for descriptor in [0, 1, 2, 3, 4, 100, -1, i64::from(i32::MIN)] {
        let mut plugin = Plugin::new();
        let of = |args: &[i64]| [&[descriptor], args].concat();
        for (name, args, errno) in ALIKE {
            plugin.answers(name, &of(args), *errno);
        }
        let is_open = (0..3).contains(&descriptor);
        for (name, args, errno) in STREAMS {
            plugin.answers(name, &of(args), if is_open { *errno } else { BADF });
        }
        // The last of them closed it.
        for (name, args, _) in STREAMS {
            plugin.answers(name, &of(args), BADF);
        }
        plugin.answers("path_symlink", &[0, 1, descriptor, 0, 1], BADF);
    }
}

#[test]
fn a_stream_says_what_it_is() {
    let mut plugin = Plugin::new();
    for (descriptor, flags, rights) in [(0, 0, 2), (1, 1, 64), (2, 1, 64)] {
        plugin.memory().fill(0xFF);
        plugin.answers("fd_fdstat_get", &[descriptor, 64], 0);
        assert_eq!((plugin.memory()[64], &plugin.memory()[66..68]), (0, &[flags, 0][..]));
        assert_eq!((plugin.number(72), plugin.number(80), plugin.number(88)), (rights, 0, u64::MAX));
        plugin.answers("fd_filestat_get", &[descriptor, 128], 0);
        assert_eq!(
            [128, 136, 152, 160, 168, 176, 184, 192].map(|at| plugin.number(at)),
            [0, 0, 0, 0, 0, 0, 0, u64::MAX]
        );
        assert_eq!(plugin.memory()[144..152], [0, 255, 255, 255, 255, 255, 255, 255]);
    }
}

#[test]
fn input_is_at_its_end_and_output_goes_nowhere() {
    let mut plugin = Plugin::new();
    plugin.set_buffers(64, &[(0, 5), (8, 3), (0, 0)]);
    for (descriptor, read, written) in [(0, 0, BADF), (1, BADF, 0), (2, BADF, 0), (3, BADF, BADF)] {
        plugin.answers("fd_read", &[descriptor, 64, 3, 128], read);
        plugin.answers("fd_write", &[descriptor, 64, 3, 136], written);
    }
    assert_eq!((plugin.number(128), plugin.number(136)), (0, 8));
    plugin.set_buffers(64, &[(0, u32::MAX)]);
    Plugin::new().traps("fd_write", &[1, SIZE - 4, 1, 0], "outside of the plug-in's memory");
    plugin.traps("fd_write", &[1, 64, 1, 0], "outside of the plug-in's memory");
    plugin.traps("fd_read", &[0, 64, 1, 0], "outside of the plug-in's memory");
    let full = vec![(0, 1 << 16); 1 << 16 >> 3];
    plugin.set_buffers(0, &full);
    plugin.answers("fd_write", &[1, 0, 8191, 8], 0);
}

#[test]
fn descriptors_can_change_places() {
    let mut plugin = Plugin::new();
    plugin.answers("fd_renumber", &[1, 3], BADF);
    plugin.answers("fd_renumber", &[3, 1], BADF);
    plugin.answers("fd_renumber", &[2, 2], 0);
    plugin.answers("fd_renumber", &[0, 1], 0);
    plugin.answers("fd_sync", &[0], BADF);
    plugin.answers("fd_fdstat_get", &[1, 64], 0);
    assert_eq!(plugin.number(72), 2, "what was standard input can be read");
    plugin.answers("fd_renumber", &[1, 0], BADF);
    plugin.answers("fd_close", &[1], 0);
    plugin.answers("fd_close", &[1], BADF);
    plugin.answers("fd_close", &[2], 0);
}

#[test]
fn there_are_no_arguments_and_no_environment() {
    for (get, sizes) in [("args_get", "args_sizes_get"), ("environ_get", "environ_sizes_get")] {
        let mut plugin = Plugin::new();
        plugin.memory().fill(0xFF);
        plugin.answers(get, &[0, 0], 0);
        plugin.answers(get, &[-1, -1], 0);
        assert!(plugin.memory().iter().all(|byte| *byte == 0xFF));
        plugin.answers(sizes, &[8, 12], 0);
        assert_eq!((plugin.number(0), plugin.number(8), plugin.number(16)), (u64::MAX, 0, u64::MAX));
    }
}

#[test]
fn clocks_move() {
    let mut plugin = Plugin::new();
    let mut now = |clock| {
        plugin.answers("clock_time_get", &[clock, 0, 8], 0);
        plugin.number(8)
    };
    let (started, real, monotonic) = (Instant::now(), now(0), now(1));
    let expected = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    assert!(expected.abs_diff(real.into()) < Duration::from_mins(1).as_nanos());
    std::thread::sleep(Duration::from_millis(20));
    let (first, second) = (now(1), now(1));
    assert!(first >= monotonic + 20_000_000 && second >= first, "{monotonic} {first} {second}");
    assert!(u128::from(second - monotonic) <= started.elapsed().as_nanos());
    for clock in [0, 1] {
        plugin.answers("clock_res_get", &[clock, 16], 0);
        assert_eq!(plugin.number(16), 1);
    }
    for clock in [2, 3] {
        plugin.answers("clock_res_get", &[clock, 16], BADF);
        plugin.answers("clock_time_get", &[clock, 0, 16], BADF);
    }
}

#[test]
fn random_numbers_differ_and_stay_in_their_place() {
    let numbers = || {
        let mut plugin = Plugin::new();
        plugin.answers("random_get", &[64, 64], 0);
        assert_eq!((plugin.number(56), plugin.number(128)), (0, 0));
        plugin.memory()[64..128].to_vec()
    };
    let (one, other) = (numbers(), numbers());
    assert_ne!(one, other);
    assert_ne!(one[..32], one[32..]);
    let mut plugin = Plugin::new();
    for args in [[0, SIZE], [SIZE, 0], [SIZE - 1, 1]] {
        plugin.answers("random_get", &args, 0);
    }
    let half = i64::from(i32::MIN);
    for args in [[1, SIZE], [SIZE + 1, 0], [0, -1], [-1, -1], [-1, 1], [half, half]] {
        let mut plugin = Plugin::new();
        plugin.traps("random_get", &args, "outside of the plug-in's memory");
        assert!(plugin.memory().iter().all(|byte| *byte == 0));
    }
}

#[test]
fn nothing_sleeps() {
    let mut plugin = Plugin::new();
    let started = Instant::now();
    // Subscriptions to all clocks, and to nothing.
    for clock in 0..4 {
        plugin.memory()[16..20].copy_from_slice(&u32::to_le_bytes(clock));
        plugin.memory()[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        plugin.answers("poll_oneoff", &[0, 128, 1, 256], NOTSUP);
    }
    plugin.answers("poll_oneoff", &[0, 0, 0, 0], INVAL);
    plugin.answers("poll_oneoff", &[-1, -1, -1, -1], NOTSUP);
    plugin.answers("sched_yield", &[], 0);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_exit_code_is_what_wasi_allows() {
    for code in [0, 7, 125] {
        let error = Plugin::new().call("proc_exit", &[code]).unwrap_err();
        assert_eq!(error.downcast_ref::<I32Exit>().map(|exit| i64::from(exit.0)), Some(code));
    }
    for code in [126, 255, -1, i64::from(i32::MIN)] {
        let error = Plugin::new().call("proc_exit", &[code]).unwrap_err();
        assert!(error.downcast_ref::<I32Exit>().is_none());
        assert!(error.root_cause().to_string().contains("at most 125"), "{error:?}");
    }
    Plugin::new().traps("proc_raise", &[6], "not offered");
}

/// Functions that write, with an address in place of the first `None`.
const WRITING: &[(&str, &[Option<i64>], i64, i64)] = &[
    ("args_sizes_get", &[None, Some(0)], 4, 4),
    ("args_sizes_get", &[Some(0), None], 4, 4),
    ("environ_sizes_get", &[None, Some(0)], 4, 4),
    ("environ_sizes_get", &[Some(0), None], 4, 4),
    ("clock_res_get", &[Some(0), None], 8, 8),
    ("clock_time_get", &[Some(1), Some(0), None], 8, 8),
    ("fd_fdstat_get", &[Some(0), None], 24, 8),
    ("fd_filestat_get", &[Some(2), None], 64, 8),
    ("sock_recv", &[Some(0), None, Some(1), Some(0), Some(0), Some(0)], 8, 4),
    ("sock_send", &[Some(0), None, Some(1), Some(0), Some(0)], 8, 4),
];

#[test]
fn an_address_outside_of_the_memory_ends_the_run() {
    for (name, args, bytes, alignment) in WRITING {
        let with = |address: i64| args.iter().map(|arg| arg.unwrap_or(address)).collect::<Vec<_>>();
        let mut plugin = Plugin::new();
        plugin.call(name, &with(SIZE - bytes)).unwrap();
        for address in [
            SIZE - bytes + alignment,
            SIZE,
            -alignment,
            i64::from(i32::MIN),
            i64::from(i32::MAX) + 1 - alignment,
        ] {
            Plugin::new().traps(name, &with(address), "outside of the plug-in's memory");
        }
        for address in [1, alignment / 2] {
            Plugin::new().traps(name, &with(address), "not a multiple");
        }
    }
}

#[test]
fn buffers_are_looked_at_before_a_socket_is_refused() {
    let size = u32::try_from(SIZE).unwrap();
    let inside = [(0, 8), (size, 0), (8, 0)];
    let outside = [(size, 1), (u32::MAX, u32::MAX), (0, size + 1), (size + 4, 0)];
    let mut plugin = Plugin::new();
    plugin.set_buffers(64, &inside);
    plugin.answers("sock_send", &[1, 64, 3, 0, 0], BADF);
    plugin.answers("sock_recv", &[1, 64, 3, 0, 0, 0], BADF);
    for buffer in outside {
        let mut plugin = Plugin::new();
        plugin.set_buffers(64, &[(0, 0), buffer]);
        plugin.answers("sock_send", &[3, 64, 2, 0, 0], BADF);
        plugin.traps("sock_send", &[1, 64, 2, 0, 0], "outside of the plug-in's memory");
        if buffer.1 > 0 {
            plugin.traps("sock_recv", &[1, 64, 2, 0, 0, 0], "outside of the plug-in's memory");
        }
    }
    // As many as there can be numbers of.
    Plugin::new().traps("sock_send", &[0, 0, -1, 0, 0], "outside of the plug-in's memory");
    Plugin::new().traps("sock_recv", &[0, 0, -1, 0, 0, 0], "outside of the plug-in's memory");
}

#[test]
fn a_number_that_wasi_does_not_define_ends_the_run() {
    let cases: &[(&str, &[i64])] = &[
        ("clock_res_get", &[4, 0]),
        ("clock_time_get", &[-1, 0, 0]),
        ("fd_advise", &[0, 0, 0, 6]),
        ("fd_fdstat_set_flags", &[0, 32]),
        ("fd_fdstat_set_rights", &[0, 1 << 30, 0]),
        ("fd_fdstat_set_rights", &[0, 0, -1]),
        ("fd_filestat_set_times", &[0, 0, 0, 16]),
        ("fd_seek", &[0, 0, 3, 0]),
        ("path_filestat_get", &[0, 2, 0, 0, 0]),
        ("path_filestat_set_times", &[0, 0, 0, 0, 0, 0, 16]),
        ("path_link", &[0, 2, 0, 0, 0, 0, 0]),
        ("path_open", &[0, 0, 0, 0, 16, 0, 0, 0, 0]),
        ("path_open", &[0, 0, 0, 0, 0, 0, i64::MIN, 0, 0]),
        ("path_open", &[0, 0, 0, 0, 0, 0, 0, 32, 0]),
        ("proc_raise", &[31]),
        ("sock_accept", &[0, 32, 0]),
        ("sock_recv", &[0, 0, 0, 4, 0, 0]),
        ("sock_send", &[0, 0, 0, 65_536, 0]),
        ("sock_shutdown", &[0, 4]),
    ];
    for (name, args) in cases {
        Plugin::new().traps(name, args, "a number that WASI does not define");
    }
}

#[test]
fn no_arguments_of_any_function_make_the_host_panic() {
    let odd = [
        0,
        1,
        2,
        3,
        7,
        8,
        SIZE - 8,
        SIZE - 4,
        SIZE - 1,
        SIZE,
        i64::from(i32::MAX),
        -1,
        -4,
        -8,
        i64::MIN,
        i64::MAX,
    ];
    for (name, signature) in SIGNATURES {
        for fill in [0, 1, 0xFF] {
            let mut plugin = Plugin::new();
            for round in 0..odd.len() * odd.len() {
                plugin.memory().fill(fill);
                let args: Vec<i64> = (0..signature.len())
                    .map(|index| {
                        odd[(round / odd.len().pow(u32::from(index % 2 == 1)) + index * (1 + round % 5))
                            % odd.len()]
                    })
                    .collect();
                if let Ok(errno) = plugin.call(name, &args) {
                    assert!(
                        [0, BADF, INVAL, NOTDIR, NOTSUP, OVERFLOW].contains(&errno),
                        "{name} {args:?}: {errno}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_goes_through_much_memory_is_behind_the_deadline() {
    let deadline = Duration::from_millis(200);
    // 512 MiB of memory; an array of as many empty buffers as there is room for.
    let all = 8192_u32 << 16;
    for body in [
        format!("(loop $again (drop (call $random_get (i32.const 0) (i32.const {all}))) (br $again))"),
        format!(
            "(loop $again (drop (call $sock_send (i32.const 1) (i32.const 0) (i32.const {}) (i32.const 0) (i32.const 0))) (br $again))",
            all / 8
        ),
        "(loop $again (drop (call $sched_yield)) (br $again))".to_owned(),
        "(loop $again (drop (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 0))) (br $again))".to_owned(),
    ] {
        let memory = PRELUDE
            .replace(r#"(memory (export "memory") 1)"#, r#"(memory (export "memory") 8192)"#)
            .replace(r#"(data (i32.const 65528) "\22fine\22")"#, "");
        let (imports, _) = imports_and_exports();
        let executor = loaded(format!(r#"(module {imports} {memory} (func (export "run") {body}))"#));
        let (watchdog, token) = (Watchdog::new(), CancelToken::new());
        let context = SkillContext::builder("test")
            .permissions(permissions(&["wasi"], &["wasi"]))
            .limits(Limits::default().memory(1 << 30))
            .cancel(token.clone())
            .build();
        let started = Instant::now();
        let _armed = watchdog.arm(started + deadline, &token);
        let error = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{body}: {error:?}");
        let late = Duration::from_secs(if cfg!(debug_assertions) { 3 } else { 1 });
        assert!(started.elapsed() < deadline + late, "{:?}: {body}", started.elapsed());
    }
}
