//! What is read from the upper folder of an overlay mount.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use metier_changes::{ChangeKind, EntryType, ReadLimits};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::{Bench, kinds, link, make_opaque, refusals, set_attribute, set_mode, whiteout, write};

#[test]
fn every_kind_of_change_is_read() {
    let bench = Bench::new(&[
        ("changed", "old"),
        ("same", "same"),
        ("mode", "mode"),
        ("gone", "gone"),
        ("d/moved", "moved content"),
        ("d/stays", "stays"),
    ]);
    link(&bench.project, "link", "same");
    set_mode(&bench.project, "mode", 0o644);
    let upper = &bench.upper;
    write(upper, "changed", "new content");
    write(upper, "same", "same");
    write(upper, "mode", "mode");
    set_mode(upper, "mode", 0o755);
    whiteout(upper, "gone");
    whiteout(upper, "d/moved");
    write(upper, "new/moved", "moved content");
    link(upper, "link", "changed");
    link(upper, "new/link", "../same");
    let set = bench.read();
    assert_eq!(
        kinds(&set),
        [
            "changed changed",
            "deleted gone",
            "link link",
            "mode mode",
            "created new",
            "created new/link",
            "renamed d/moved => new/moved"
        ]
    );
    assert!(set.refused.is_empty());
    let changed = &set.changes[0];
    let (before, after) = (changed.before.as_ref().unwrap(), changed.after.as_ref().unwrap());
    assert_eq!((before.size, after.size), (3, 11));
    assert_eq!(
        before.digest.as_deref(),
        Some("cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4")
    );
    assert_eq!(set.id.len(), 32);
    let text = serde_json::to_string(&set).unwrap();
    assert_eq!(serde_json::from_str::<metier_changes::ChangeSet>(&text).unwrap(), set);
}

#[test]
fn every_path_of_a_deleted_folder_is_listed() {
    let bench = Bench::new(&[("d/a", "1"), ("d/e/b", "2"), ("d/e/f/c", "3"), ("x", "4")]);
    whiteout(&bench.upper, "d");
    assert_eq!(
        kinds(&bench.read()),
        ["deleted d", "deleted d/a", "deleted d/e", "deleted d/e/b", "deleted d/e/f", "deleted d/e/f/c"]
    );
}

#[test]
fn an_opaque_folder_has_nothing_of_the_one_below_it() {
    let bench = Bench::new(&[("d/a", "1"), ("d/e/b", "2"), ("d/e/same", "3"), ("d/f/c", "4")]);
    make_opaque(&bench.upper, "d");
    write(&bench.upper, "d/e/same", "3");
    write(&bench.upper, "d/new", "5");
    assert_eq!(
        kinds(&bench.read()),
        ["deleted d/a", "deleted d/e/b", "deleted d/f", "deleted d/f/c", "created d/new"]
    );
}

#[test]
fn a_change_of_type_lists_what_was_below() {
    let bench = Bench::new(&[("folder/a", "1"), ("folder/b/c", "2"), ("file", "3")]);
    write(&bench.upper, "folder", "a file now");
    make_opaque(&bench.upper, "file");
    write(&bench.upper, "file/inner", "4");
    let set = bench.read();
    assert_eq!(
        kinds(&set),
        [
            "changed file",
            "created file/inner",
            "changed folder",
            "deleted folder/a",
            "deleted folder/b",
            "deleted folder/b/c"
        ]
    );
    assert_eq!(set.changes[0].before.as_ref().unwrap().entry_type, EntryType::File);
    assert_eq!(set.changes[0].after.as_ref().unwrap().entry_type, EntryType::Folder);
}

#[test]
fn whiteouts_of_newer_kernels_are_understood_in_their_folders_only() {
    let bench = Bench::new(&[("d/gone", "1"), ("e/emptied", "2")]);
    write(&bench.upper, "d/gone", "");
    set_attribute(&bench.upper, "d/gone", "user.overlay.whiteout", b"y");
    set_attribute(&bench.upper, "d", "user.overlay.opaque", b"x");
    write(&bench.upper, "e/emptied", "");
    set_attribute(&bench.upper, "e/emptied", "user.overlay.whiteout", b"y");
    assert_eq!(kinds(&bench.read()), ["deleted d/gone", "changed e/emptied"]);
}

#[test]
fn what_nobody_can_apply_is_refused_by_its_name() {
    let bench = Bench::new(&[(".git/config", "1"), ("d/.git/config", "2"), ("d/x", "3")]);
    let upper = &bench.upper;
    write(upper, ".git/hooks/pre-commit", "#!/bin/sh");
    whiteout(upper, "d");
    write(upper, "e/.GIT", "gitdir: elsewhere");
    let _socket = UnixListener::bind(upper.join("socket")).unwrap();
    mknodat(CWD, upper.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    link(upper, "absolute", "/etc/passwd");
    link(upper, "above", "../outside");
    link(upper, "e/tricky", "x/../../..");
    write(upper, "e/metacopy", "");
    set_attribute(upper, "e/metacopy", "user.overlay.metacopy", b"");
    fs::create_dir(upper.join("redirected")).unwrap();
    set_attribute(upper, "redirected", "user.overlay.redirect", b"/elsewhere");
    let set = bench.read();
    assert_eq!(kinds(&set), ["deleted d", "deleted d/x", "created e", "created redirected"]);
    assert_eq!(
        refusals(&set),
        [
            ".git: a repository is never changed",
            "above: it is a link that leads out of the project",
            "absolute: it is a link that leads out of the project",
            "d/.git: a repository is never changed",
            "e/.GIT: a repository is never changed",
            "e/metacopy: its content is not in the copy",
            "e/tricky: it is a link that leads out of the project",
            "pipe: it is a pipe",
            "redirected: it is a folder of another path, which no overlay of metier makes",
            "socket: it is a socket",
        ]
    );
}

#[test]
fn what_the_project_changed_during_the_run_is_a_conflict_from_the_beginning() {
    let bench = Bench::new(&[("early", "1"), ("late", "2"), ("late-gone", "3")]);
    let started = SystemTime::now();
    let settled = || {
        write(&bench.project, "probe", "");
        bench.project.join("probe").metadata().unwrap().modified().unwrap()
            > started + Duration::from_millis(20)
    };
    while !settled() {
        std::thread::yield_now();
    }
    write(&bench.project, "late", "the user's");
    write(&bench.project, "late-gone", "the user's");
    write(&bench.upper, "early", "script");
    write(&bench.upper, "late", "script");
    whiteout(&bench.upper, "late-gone");
    let set = bench.try_read(started, &ReadLimits::default()).unwrap();
    let late: Vec<_> = set.changes.iter().map(|change| (&*change.path, change.conflict.is_some())).collect();
    assert_eq!(late, [("early", false), ("late", true), ("late-gone", true)]);
    let id = bench.keep(&set).set.id;
    let report = bench.apply(&id, None, false);
    assert_eq!(report.applied, ["early"]);
    assert_eq!(
        support::conflicts(&report),
        ["late", "late-gone"]
            .map(|path| format!("{path}: it was changed in the project while the run took place"))
    );
    assert_eq!(fs::read_to_string(bench.project.join("late")).unwrap(), "the user's");
}

#[test]
fn a_run_that_changed_too_much_has_no_change_set() {
    let bench = Bench::new(&[]);
    for number in 0..50 {
        write(&bench.upper, &format!("d/{number}"), "12345678");
    }
    let now = SystemTime::now();
    let error = |limits| bench.try_read(now, &limits).unwrap_err().to_string();
    let limits = ReadLimits { paths: 40, ..ReadLimits::default() };
    assert!(error(limits).contains("more than 40 paths"), "{}", error(limits));
    let limits = ReadLimits { bytes: 100, ..ReadLimits::default() };
    assert!(error(limits).contains("more than 100 bytes"), "{}", error(limits));
    assert!(bench.try_read(now, &ReadLimits { paths: 51, bytes: 400 }).is_ok());
}

#[test]
fn a_large_sparse_file_is_refused_before_it_is_read() {
    let bench = Bench::new(&[]);
    fs::File::create(bench.upper.join("huge")).unwrap().set_len(1 << 42).unwrap();
    let error = bench.try_read(SystemTime::now(), &ReadLimits::default()).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn folders_nested_too_deep_for_a_path_are_refused() {
    let bench = Bench::new(&[]);
    let mut dir: std::os::fd::OwnedFd = fs::File::open(&bench.upper).unwrap().into();
    let name = "d".repeat(200);
    for _ in 0..60 {
        rustix::fs::mkdirat(&dir, &*name, Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        dir = rustix::fs::openat(&dir, &*name, flags, Mode::empty()).unwrap();
    }
    let set = bench.read();
    assert_eq!(set.changes.len(), 18);
    assert_eq!(set.refused.len(), 1);
    assert_eq!(set.refused[0].reason, "its path is too long");
    metier_core::host::DirCleaner::open(&bench.upper).unwrap().remove_entries(usize::MAX).unwrap();
}

#[test]
fn names_that_are_no_text_are_read_and_written_back() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(&[]);
    let names: [&[u8]; 5] = [b"\xff\xfe", b"a\nb", b"\x1b[2J", b"\\xFF", b"-rf *"];
    for name in names {
        fs::write(bench.upper.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let set = bench.read();
    assert!(set.changes.iter().all(|change| change.kind == ChangeKind::Created));
    let id = bench.keep(&set).set.id;
    assert_eq!(bench.apply(&id, None, false).applied.len(), names.len());
    for name in names {
        assert_eq!(fs::read(bench.project.join(std::ffi::OsStr::from_bytes(name))).unwrap(), name);
    }
}

#[test]
fn what_the_caller_refuses_is_no_change_with_all_below_it() {
    let bench = Bench::new(&[("secret/a", "1"), ("other/secret", "2")]);
    write(&bench.upper, "secret/b", "2");
    write(&bench.upper, "fine", "3");
    whiteout(&bench.upper, "other");
    let refuse = |path: &str| path.ends_with("secret").then(|| "it is protected".to_owned());
    let rules = metier_changes::ReadRules { refuse: &refuse, ..metier_changes::ReadRules::default() };
    let set = bench.read_by(SystemTime::now(), &ReadLimits::default(), &rules).unwrap();
    assert_eq!(kinds(&set), ["created fine", "deleted other"]);
    assert_eq!(refusals(&set), ["other/secret: it is protected", "secret: it is protected"]);
}

#[test]
fn reading_ends_when_the_caller_says_so() {
    use metier_core::error::{ErrorKind, SkillError};
    let bench = Bench::new(&[]);
    write(&bench.upper, "a", "1");
    let check = || Err(SkillError::new(ErrorKind::Timeout, "too late"));
    let rules = metier_changes::ReadRules { check: &check, ..metier_changes::ReadRules::default() };
    let error = bench.read_by(SystemTime::now(), &ReadLimits::default(), &rules).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn equal_changes_have_one_digest_and_others_another() {
    let set = |content: &str| {
        let bench = Bench::new(&[("a", "old")]);
        write(&bench.upper, "a", content);
        bench.read()
    };
    let (mut one, mut other) = (set("new"), set("new"));
    (one.project, other.project) = ("/p".to_owned(), "/p".to_owned());
    assert_ne!(one.id, other.id);
    assert_eq!(one.digest(), other.digest());
    other.project = "/q".to_owned();
    assert_ne!(one.digest(), other.digest());
    other = set("neW");
    other.project = "/p".to_owned();
    assert_ne!(one.digest(), other.digest());
}
