//! The cache on disk: used where it is the user's own, and nowhere else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use std::time::{Duration, Instant};

use super::super::cache::prepared;
use super::super::engine::Machine;
use super::super::executor;
use super::{module, source};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn it_is_made_for_the_user_alone() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("cache \"quoted\"");
    let settings = prepared(&base).unwrap();
    assert_eq!(
        (mode(&base.join("metier")), mode(settings.parent().unwrap()), mode(&settings)),
        (0o700, 0o700, 0o600)
    );
    assert_eq!(prepared(&base).unwrap(), settings, "and found again");
    let cache = wasmtime::Cache::from_file(Some(&settings)).unwrap();
    assert!(cache.directory().ends_with("metier/wasm/compiled"));
}

#[test]
fn what_was_compiled_once_is_not_compiled_again() {
    let home = tempfile::tempdir().unwrap();
    let settings = prepared(&home.path().join("cache")).unwrap();
    let function =
        "(func (param i32) (result i32) (i32.mul (i32.add (local.get 0) (i32.const 7)) (i32.const 3)))";
    let functions = function.repeat(600);
    let plug_in = executor::prepared(&source(module(&format!("{functions} {}", super::ECHO)))).unwrap();
    let timed = || -> Duration {
        let started = Instant::now();
        Machine::new(&plug_in, None, Some(&settings)).unwrap();
        started.elapsed()
    };
    // Beside the modules lie wasmtime's own notes, whose names have an ending.
    let kept = || {
        let files = walkdir::WalkDir::new(settings.parent().unwrap().join("compiled")).into_iter().flatten();
        files.filter(|file| file.file_type().is_file() && file.path().extension().is_none()).count()
    };
    let first = timed();
    let files = kept();
    assert_eq!(files, 2, "the plug-in and Extism's own module lie there");
    let again = (0..3).map(|_| timed()).min().unwrap();
    assert!(again * 3 < first, "{again:?} after {first:?}");
    assert_eq!(kept(), files, "nothing new was compiled");
    assert!(settings.is_file(), "what wasmtime tidies away is not its settings");
}

#[test]
fn what_others_could_write_to_is_not_used() {
    let refused = |lay_out: &dyn Fn(&std::path::Path), reason: &str| {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join("cache");
        fs::create_dir(&base).unwrap();
        lay_out(&base);
        let found = prepared(&base).unwrap_err();
        assert!(found.contains(reason), "{found}");
    };
    let open =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    refused(
        &|base| {
            fs::create_dir_all(base.join("metier/wasm")).unwrap();
            open(&base.join("metier/wasm"), 0o777);
        },
        "can be written by others",
    );
    refused(
        &|base| {
            fs::create_dir_all(base.join("metier/wasm")).unwrap();
            open(&base.join("metier"), 0o770);
        },
        "can be written by others",
    );
    refused(&|base| open(base, 0o777), "can be written by others");
    refused(&|base| fs::write(base.join("metier"), "").unwrap(), "metier");
    refused(
        &|base| {
            fs::create_dir(base.join("elsewhere")).unwrap();
            symlink("elsewhere", base.join("metier")).unwrap();
        },
        "is no directory of its own",
    );
    refused(
        &|base| {
            fs::create_dir_all(base.join("metier")).unwrap();
            fs::create_dir_all(base.join("elsewhere")).unwrap();
            symlink("../elsewhere", base.join("metier/wasm")).unwrap();
        },
        "is no directory of its own",
    );
}

#[test]
fn where_nothing_can_be_made_nothing_is_kept() {
    assert!(prepared(std::path::Path::new("/proc/metier")).is_err());
    assert!(prepared(std::path::Path::new("/dev/null/cache")).is_err());
}
