//! The process that compiles WebAssembly modules, taken over by an attacker: what it reaches and what it may use up, in both levels
//! and as an ordinary user.
#![cfg(feature = "wasm-runtime")]

use std::fs;
use std::io::ErrorKind as Io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, SkillError};

use crate::sandbox::case::LEVELS;
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::{attackers, ordinary, survivors};
use crate::support::not_run::not_run;

/// As long as a loaded machine may take to kill a process.
const MOMENT: Duration = Duration::from_secs(5);

/// Runs a test in each level that this machine has.
fn for_each_level(test: impl Fn()) {
    for (level, name) in [LEVELS[0], LEVELS[1]] {
        let what = format!("the compiler process in the level {name}");
        if fixture::helper().is_none() {
            return not_run(&what, "the command line is not built in");
        }
        match fixture::check_level(level) {
            Ok(()) => test(),
            Err(reason) => not_run(&what, &reason),
        }
    }
}

/// What comes of a module that is compiled by an attacker who tries this.
fn compile(attack: &str, deadline: Duration) -> Option<SkillError> {
    let attacker = match attackers::program("compiler") {
        Ok(attacker) => attacker,
        Err(reason) => {
            not_run("the compiler process", &format!("{reason:?}"));
            return None;
        }
    };
    // No other test has compiled this module, so it is in no cache.
    let fixture = Fixture::new("main.wat", "").deadline(deadline.as_millis().try_into().unwrap());
    let module = format!(r#"(module (func (export "run"))) ;; {}"#, fixture.mark());
    fixture.write("skills/x/scripts/main.wat", module);
    let name = format!("compiler-{attack}");
    // A program that was just copied may still be open in another test's child, and cannot be started then.
    fs::hard_link(attacker, fixture.at(&name)).unwrap();
    fs::hard_link(fixture::helper().unwrap(), fixture.at(&format!("{name}.real")))
        .or_else(|_| symlink(fixture::helper().unwrap(), fixture.at(&format!("{name}.real"))))
        .unwrap();
    let outcome = fixture.builder().helper(fixture.at(&name)).build().unwrap().run(fixture.invocation());
    survivors::assert_none(fixture.mark());
    for path in ["project/new", "outside/new", "new"] {
        assert!(!fixture.at(path).exists(), "{path} was written");
    }
    Some(outcome.result.unwrap_err())
}

/// What the attacker says it got through with.
fn done(attack: &str) -> Option<String> {
    let error = compile(attack, MOMENT * 12)?;
    assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error}");
    let (_, done) = error.message().split_once("(done:").unwrap_or_else(|| panic!("{error}"));
    Some(done.trim_end_matches(')').trim().to_owned())
}

#[test]
fn the_compiler_process_opens_no_file() {
    for_each_level(|| {
        if let Some(done) = done("files") {
            assert_eq!(done, "");
        }
    });
}

#[test]
fn the_compiler_process_has_no_network() {
    for_each_level(|| {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = stream.local_addr().unwrap();
        let packets = UdpSocket::bind(address).unwrap();
        let name = format!("metier-compiler-{}", address.port());
        let local = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        packets.set_nonblocking(true).unwrap();
        local.set_nonblocking(true).unwrap();
        let Some(done) = done(&format!("network{}", address.port())) else { return };
        assert_eq!(done, "");
        assert_eq!(stream.accept().unwrap_err().kind(), Io::WouldBlock);
        assert_eq!(packets.recv(&mut [0]).unwrap_err().kind(), Io::WouldBlock);
        assert_eq!(local.accept().unwrap_err().kind(), Io::WouldBlock);
    });
}

#[test]
fn the_compiler_process_has_a_gibibyte_of_memory_and_so_has_its_tree() {
    for_each_level(|| {
        for attack in ["memory", "tree"] {
            let Some(error) = compile(attack, MOMENT * 12) else { return };
            assert_eq!(error.kind(), ErrorKind::Memory, "{attack}: {error}");
            assert!(error.message().contains("more than 1024 MiB"), "{attack}: {error}");
        }
    });
}

#[test]
fn the_compiler_process_has_little_processor_time_and_few_files_and_processes() {
    for_each_level(|| {
        let Some(limits) = done("limits") else { return };
        // A second more than the limit, at which it is killed whatever it does with the signal.
        assert_eq!(limits, "seconds 121 file 0 open 64");
        if Fixture::bash("true").run().sandbox().process_count {
            let processes = done("processes").unwrap();
            let count: u32 = processes.strip_suffix(" processes").unwrap().parse().unwrap();
            // The first 300 numbers of a namespace are only used once.
            assert!(count <= 64 + 300, "{processes}");
        }
    });
}

#[test]
fn the_compiler_process_knows_nothing_of_the_host() {
    for_each_level(|| {
        if let Some(names) = done("environment") {
            assert_eq!(names, "RAYON_NUM_THREADS RUST_MIN_STACK");
        }
    });
}

#[test]
fn the_compiler_process_ends_with_its_run_and_leaves_no_other() {
    for_each_level(|| {
        let began = Instant::now();
        let Some(error) = compile("spin", Duration::from_millis(500)) else { return };
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(began.elapsed() < MOMENT * 2, "{:?}", began.elapsed());
        assert_eq!(done("leave").as_deref(), Some(""));
    });
}

#[test]
fn an_answer_of_the_compiler_process_has_a_bound() {
    for_each_level(|| {
        let Some(error) = compile("flood", MOMENT * 12) else { return };
        assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error}");
        assert!(error.message().contains("more than 192 MiB of machine code"), "{error}");
    });
}

#[test]
fn the_compiler_process_of_an_ordinary_user_is_restricted_as_well() {
    for test in [
        "the_compiler_process_opens_no_file",
        "the_compiler_process_has_no_network",
        "the_compiler_process_has_a_gibibyte_of_memory_and_so_has_its_tree",
        "the_compiler_process_has_little_processor_time_and_few_files_and_processes",
        "the_compiler_process_ends_with_its_run_and_leaves_no_other",
    ] {
        ordinary::run_as_nobody(&format!("sandbox::compiler::{test}"));
    }
}
