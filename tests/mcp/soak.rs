//! Thousands of calls of one client: what the server holds does not grow with them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cli::Project;

/// Calls, unless the variable asks for more.
const CALLS: usize = 1_500;
const CALLS_VARIABLE: &str = "METIER_SOAK_CALLS";
/// After so many, everything that is kept has been made.
const WARM_UP: usize = 500;
/// How much may come on top of it: allocators keep what was freed.
const MAX_GROWTH_KB: usize = 16 << 10;

/// What a process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    resident_kb: usize,
    threads: usize,
}

impl Held {
    fn by(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Self {
            descriptors: std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count(),
            resident_kb: number("VmRSS:"),
            threads: number("Threads:"),
        }
    }
}

fn project() -> Project {
    Project::new()
        .lua("double", "ctx.progress('half', 1, 2) return {n = input.n * 2}")
        .lua("fails", "error('on purpose')")
        .lua("large", "return string.rep('x', 50000)")
        .trusted()
}

/// Calls by `call`, which takes a tool and its arguments and returns the result, and looks at the process in between.
fn soak(process: u32, mut call: impl FnMut(&str, Value) -> Value) {
    let calls = std::env::var(CALLS_VARIABLE).map_or(CALLS, |calls| calls.parse().unwrap());
    let mut warm = None;
    for number in 0..calls {
        let result = call("double", json!({"input": {"n": number}}));
        assert_eq!(result["structuredContent"]["n"], number * 2, "{result}");
        if number % 100 == 0 {
            assert_eq!(call("fails", json!({}))["isError"], true);
            assert_eq!(call("large", json!({}))["content"].as_array().unwrap().len(), 3);
        }
        if number == WARM_UP {
            warm = Some(Held::by(process));
        }
    }
    std::thread::sleep(Duration::from_millis(200));
    let (warm, end) = (warm.unwrap(), Held::by(process));
    println!("after {WARM_UP} calls {warm:?}, after {calls} {end:?}");
    assert!(end.descriptors <= warm.descriptors + 2, "{warm:?} {end:?}");
    assert!(end.threads <= warm.threads + 4, "{warm:?} {end:?}");
    // The results that can be read by their links are kept, 50 KB for each hundred calls, up to their bound.
    let kept = ((calls - WARM_UP) / 100 * 50).min(64 << 10);
    assert!(end.resident_kb <= warm.resident_kb + MAX_GROWTH_KB + kept, "{warm:?} {end:?}");
}

#[test]
fn calls_over_standard_streams_leave_nothing() {
    let project = project();
    let mut client = project.client(&[]);
    let process = client.child.id();
    soak(process, |tool, arguments| {
        client.messages.clear();
        client.call(tool, arguments)
    });
}

#[test]
fn calls_of_a_session_over_http_leave_nothing() {
    let project = project();
    let server = project.http_server(&[]);
    let mut session = server.session("2025-11-25");
    soak(server.child.id(), |tool, arguments| session.call(tool, arguments));
}

#[test]
fn calls_without_a_session_over_http_leave_nothing() {
    let project = project();
    let server = project.http_server(&[]);
    soak(server.child.id(), |tool, arguments| server.call(tool, arguments));
}

#[test]
fn sessions_that_come_and_go_leave_nothing() {
    let project = project();
    let server = project.http_server(&[]);
    let visit = || {
        let mut session = server.session("2025-11-25");
        assert_eq!(session.result("ping", json!({})), json!({}));
        assert_eq!(session.end().status, 204);
    };
    (0..100).for_each(|_| visit());
    let warm = Held::by(server.child.id());
    (0..400).for_each(|_| visit());
    std::thread::sleep(Duration::from_millis(200));
    let end = Held::by(server.child.id());
    assert!(end.descriptors <= warm.descriptors + 2, "{warm:?} {end:?}");
    assert!(end.resident_kb <= warm.resident_kb + MAX_GROWTH_KB, "{warm:?} {end:?}");
}
