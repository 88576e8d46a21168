//! Reading: bounded, never blocking, text unless asked otherwise.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use metier::error::ErrorKind::{InvalidArgument, Io};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

use crate::files::project::{Project, both_ways};
use crate::support::not_run::not_run;

const CAP: u64 = 16 << 20;

fn node(project: &Project, name: &str, kind: FileType, device: u64) -> rustix::io::Result<()> {
    rustix::fs::mknodat(CWD, project.path(name), kind, Mode::from_raw_mode(0o666), device)
}

#[test]
fn f20_a_fifo_or_socket_is_refused_at_once() {
    both_ways(|project| {
        node(project, "fifo", FileType::Fifo, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(project.path("socket")).unwrap();
        project.file("a.txt", "x").link("link", "fifo");
        for path in ["fifo", "link", "socket"] {
            for name in ["read_file", "head", "tail", "asset"] {
                project.refuses(Io, name, json!([path]), "");
            }
            project.refuses(Io, "grep", json!(["x", path]), "");
            project.refuses(Io, "write", json!([path, "x"]), "not a regular file");
            project.refuses(Io, "append", json!([path, "x"]), "not a regular file");
        }
        project.refuses(Io, "read_file", json!(["fifo"]), "failed to read fifo: it is not a regular file");
        project.answers("grep", json!(["x"]), json!([{"file": "a.txt", "line": 1, "content": "x"}]));
    });
}

#[test]
fn f21_devices_are_refused() {
    both_ways(|project| {
        // 1:5 is /dev/zero.
        if let Err(error) = node(project, "zero", FileType::CharacterDevice, rustix::fs::makedev(1, 5)) {
            return not_run("devices", &format!("making a device node takes root ({error})"));
        }
        for name in ["read_file", "head", "tail"] {
            project.refuses(Io, name, json!(["zero"]), "not a regular file");
        }
        project.refuses(Io, "write", json!(["zero", "x"]), "not a regular file");
        project.answers("grep", json!(["x"]), json!([]));
    });
    both_ways(|project| {
        project.link("zero", "/dev/zero");
        project.refuses_everything(metier::error::ErrorKind::OutsideProject, "zero");
    });
}

#[test]
fn f22_files_beyond_the_cap_are_refused_and_their_ends_can_be_read() {
    both_ways(|project| {
        project.file("sparse", "first\nsecond\n");
        let mut sparse = File::options().append(true).open(project.path("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        sparse.write_all(b"\nlast\n").unwrap();
        project.refuses(Io, "read_file", json!(["sparse"]), "read a part of it with head, tail or grep");
        project.answers("head", json!(["sparse", 2]), json!("first\nsecond"));
        project.answers("tail", json!(["sparse", 1]), json!("last"));
        project.refuses(Io, "head", json!(["sparse", 3]), "ask for fewer");
        project.refuses(Io, "tail", json!(["sparse", 2]), "ask for fewer");
        project.answers("grep", json!(["first"]), json!([]));

        project.file("exact", "a".repeat(16 << 20)).file("over", "a".repeat((16 << 20) + 1));
        assert!(project.call("read_file", json!(["exact"])).is_ok());
        project.refuses(Io, "read_file", json!(["over"]), "more than the 16777216 that can be read");
    });
}

#[test]
fn f22_a_file_that_grows_while_it_is_read_stays_bounded() {
    both_ways(|project| {
        project.file("log", "");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let block = vec![b'a'; 1 << 16];
                let mut log = File::options().append(true).open(project.path("log")).unwrap();
                while !done.load(Ordering::Relaxed) {
                    log.write_all(&block).unwrap();
                    if log.metadata().unwrap().len() > 2 * CAP {
                        log.set_len(0).unwrap();
                    }
                }
            });
            for _ in 0..30 {
                if let Ok(text) = project.call("read_file", json!(["log"])) {
                    assert!(text.as_str().unwrap().len() as u64 <= CAP);
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn f25_names_that_are_not_utf8_are_listed_escaped_and_can_be_read() {
    both_ways(|project| {
        let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
        fs::write(project.root().join(name), "latin").unwrap();
        project.file("a\\xFF", "plain");
        project.answers("list_dir", json!(["."]), json!(["a\\x5CxFF", "caf\\xE9.txt"]));
        project.answers("glob", json!(["caf*"]), json!(["caf\\xE9.txt"]));
        project.answers("read_file", json!(["caf\\xE9.txt"]), json!("latin"));
        project.answers("read_file", json!(["a\\x5CxFF"]), json!("plain"));
        project.answers(
            "grep",
            json!(["latin"]),
            json!([{"file": "caf\\xE9.txt", "line": 1, "content": "latin"}]),
        );
        project.refuses(metier::error::ErrorKind::Denied, "read_file", json!([".env"]), "read:.env");
        project.refuses(Io, "read_file", json!([".e\\x6Ev"]), "No such file");
    });
}

#[test]
fn bytes_are_read_as_base64_and_text_must_be_utf8() {
    both_ways(|project| {
        project.file("blob", b"ab\xff\x00").file("text", "\u{feff}h\u{e4}\r\n");
        project.refuses(Io, "read_file", json!(["blob"]), "not UTF-8 text (byte 2)");
        project.refuses(Io, "read_file", json!(["blob"]), r#"{encoding: "base64"}"#);
        project.answers("read_file", json!(["blob", {"encoding": "base64"}]), json!("YWL/AA=="));
        project.answers("read_file", json!(["text"]), json!("\u{feff}h\u{e4}\r\n"));
        project.refuses(InvalidArgument, "read_file", json!(["text", {"encoding": "latin1"}]), "latin1");
        project.refuses(InvalidArgument, "read_file", json!(["text", {"encodign": "base64"}]), "encodign");
    });
}

#[test]
fn head_and_tail_count_lines_as_people_do() {
    both_ways(|project| {
        let lines: Vec<String> = (0..50_000).map(|line| format!("line {line}")).collect();
        project
            .file("long", lines.join("\n") + "\n")
            .file("open", "a\nb")
            .file("empty", "")
            .file("crlf", "a\r\nb\r\n");
        project.answers("head", json!(["long", 20_000]), json!(lines[..20_000].join("\n")));
        project.answers("tail", json!(["long", 20_000]), json!(lines[30_000..].join("\n")));
        project.answers("tail", json!(["long"]), json!(lines[49_990..].join("\n")));
        for (name, path, count, expected) in [
            ("tail", "open", 1, "b"),
            ("tail", "open", 9, "a\nb"),
            ("head", "open", 9, "a\nb"),
            ("head", "open", 0, ""),
            ("tail", "open", 0, ""),
            ("head", "empty", 1, ""),
            ("tail", "empty", 1, ""),
            ("head", "crlf", 2, "a\nb"),
            ("tail", "crlf", 1, "b"),
        ] {
            project.answers(name, json!([path, count]), json!(expected));
        }
        for name in ["head", "tail"] {
            project.refuses(InvalidArgument, name, json!(["open", -1]), "a whole number, zero or more");
            project.refuses(InvalidArgument, name, json!(["open", 1.5]), "a whole number");
        }
    });
}

#[test]
fn stat_tells_the_change_time_when_asked() {
    both_ways(|project| {
        project.file("a", "abc");
        let facts = project.call("stat", json!(["a", {"modified": true}])).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let modified = u128::from(facts["modified"].as_u64().unwrap());
        assert!(now.abs_diff(modified) < 60_000, "{modified} is not about {now}");
        assert_eq!(project.call("stat", json!(["."])).unwrap()["is_dir"], true);
    });
}
