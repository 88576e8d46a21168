//! The cache on disk: used where it is the user's own, and nowhere else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::cache::prepared;

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
    assert!(cache.directory().ends_with("metier/wasm"));
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
