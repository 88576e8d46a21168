//! What tools make of servers that are slow, broken, too busy, too talkative, or that send them elsewhere.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metier::engine::Outcome;
use metier::error::ErrorKind;
use metier::policy::Limits;
use metier::skill::contract::{HttpCall, ProvidedTool};
use serde_json::{Map, Value};

use crate::services::server::{NoService, Redirected, Server, write};
use crate::services::{Services, ToolCase, tool_cases};

/// For each service, a case of a declared call that only reads, if it has any.
fn reading_cases() -> Vec<ToolCase> {
    declared_cases(HttpCall::is_safe)
}

/// For each service, a case of a declared call that changes something, if it has any.
fn writing_cases() -> Vec<ToolCase> {
    declared_cases(|call| !call.is_safe())
}

fn declared_cases(is_meant: fn(&HttpCall) -> bool) -> Vec<ToolCase> {
    let cases = tool_cases();
    let services = Services::new(&cases[0], NoService);
    let mut found: Vec<ToolCase> = Vec::new();
    for case in &cases {
        let contract = services.skill(case.skill).contract().unwrap();
        let call = contract.tool(&case.tool).and_then(ProvidedTool::http);
        let is_first = found.iter().all(|other| other.skill != case.skill);
        if is_first && case.succeeds() && case.requests().len() == 1 && call.is_some_and(is_meant) {
            found.push(case.clone());
        }
    }
    assert!(found.len() >= 3, "{:?}", found.iter().map(ToolCase::title).collect::<Vec<_>>());
    found
}

/// The outcome of a case with a server that behaves so, and how many requests came.
fn run(case: &ToolCase, act: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> (Outcome, usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let server = Server::new(move |_, stream| act(counted.fetch_add(1, Ordering::SeqCst), stream));
    let services = Services::new(case, Redirected::new(server.address));
    let outcome = services.call(case, case.case.get("input").cloned().unwrap_or_default());
    (outcome, count.load(Ordering::SeqCst))
}

fn kind(outcome: &Outcome) -> ErrorKind {
    outcome.result.as_ref().unwrap_err().kind()
}

/// The first answer of a case.
fn first_answer(case: &ToolCase) -> String {
    let answers = case.given("http");
    let answer = answers.values().next().unwrap();
    let answer = answer.as_array().map_or(answer, |all| &all[0]);
    answer
        .get("json")
        .map_or_else(|| answer["body"].as_str().unwrap_or_default().to_owned(), Value::to_string)
}

#[test]
fn a_reading_tool_is_called_again_where_that_may_help_and_a_writing_one_is_not() {
    for case in reading_cases() {
        for status in [429, 502, 503, 504] {
            let body = first_answer(&case);
            let (outcome, count) = run(&case, move |number, stream| {
                let headers = Map::from_iter([("Retry-After".to_owned(), Value::from("0"))]);
                let is_first = number == 0;
                write(
                    stream,
                    if is_first { status } else { 200 },
                    &headers,
                    if is_first { "busy" } else { &body },
                );
            });
            assert!(outcome.result.is_ok(), "{}: {status}: {:?}", case.title(), outcome.result);
            assert_eq!(count, 2, "{}: {status}", case.title());
        }
    }
    for case in writing_cases() {
        let (outcome, count) = run(&case, |_, stream| write(stream, 503, &Map::new(), "busy"));
        assert_eq!(kind(&outcome), ErrorKind::Tool, "{}", case.title());
        let sentence = outcome.result.unwrap_err().message().to_owned();
        assert!(
            sentence.starts_with('[') && sentence.ends_with("busy (HTTP 503)"),
            "{}: {sentence}",
            case.title()
        );
        assert_eq!(count, 1, "{}", case.title());
    }
}

#[test]
fn broken_answers_are_errors_with_the_name_of_the_tool() {
    for case in reading_cases() {
        for body in ["{\"a\": ", "<html>", "\u{1}", "[1, 2", "nul"] {
            let (outcome, _) = run(&case, move |_, stream| write(stream, 200, &Map::new(), body));
            assert_eq!(kind(&outcome), ErrorKind::Tool, "{}: {body:?}", case.title());
        }
        let cut = |_: usize, stream: &mut TcpStream| {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"a\": 1"));
        };
        let (outcome, count) = run(&case, cut);
        assert!(outcome.result.is_err() && count <= 4, "{}", case.title());
    }
}

#[test]
fn a_huge_answer_is_refused_and_takes_no_memory() {
    for case in reading_cases() {
        let (outcome, _) = run(&case, |_, stream| {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n["));
            let part = vec![b' '; 1 << 16];
            // 64 MiB, of which a client that reads to the end would keep all.
            for _ in 0..1024 {
                if stream.write_all(&part).is_err() {
                    return;
                }
            }
        });
        assert!(
            matches!(kind(&outcome), ErrorKind::Output | ErrorKind::Io),
            "{}: {:?}",
            case.title(),
            outcome.result
        );
    }
}

#[test]
fn a_slow_answer_ends_at_the_deadline() {
    let case = reading_cases().remove(0);
    let server = Server::new(|_, stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"));
        for _ in 0..50 {
            if stream.write_all(b" ").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let services = Services::new(&case, Redirected::new(server.address));
    let started = Instant::now();
    let limits = Limits::default().timeout(Duration::from_secs(1));
    let outcome = services.call_within(&case, case.case["input"].clone(), limits);
    assert_eq!(kind(&outcome), ErrorKind::Timeout, "{:?}", outcome.result);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn credentials_are_never_sent_to_another_origin() {
    for case in reading_cases().into_iter().chain(writing_cases()) {
        for status in [301, 302, 303, 307, 308] {
            let other = Server::new(|_, stream| write(stream, 200, &Map::new(), "{}"));
            let place = format!("http://{}/steal", other.address);
            let (outcome, _) = run(&case, move |_, stream| {
                let headers = Map::from_iter([("Location".to_owned(), Value::from(place.clone()))]);
                write(stream, status, &headers, "");
            });
            assert!(outcome.result.is_err(), "{}: {status}", case.title());
            assert!(other.requests().is_empty(), "{}: {status}: {:?}", case.title(), other.requests());
        }
    }
}
