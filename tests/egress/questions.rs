//! Hosts that nobody granted, about which a person is asked while the script waits.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use metier::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
use metier::policy::{Approval, ArgumentPattern, GrantOrigin};

use crate::egress::fixture::{Fixture, Run};
use crate::egress::servers;

/// The answer about a host.
type AnswerFn = dyn Fn(&SkillContext, &str) -> bool + Send + Sync;

/// Answers each question by its host, and remembers what it was asked.
struct Person {
    asked: Arc<Mutex<Vec<String>>>,
    answer: Box<AnswerFn>,
}

impl Approver for Person {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> metier::error::Result<Approval> {
        let ApprovalNeed::Permission { permission, .. } = &request.need else {
            panic!("{:?}", request.need);
        };
        self.asked.lock().unwrap().push(permission.to_string());
        let is_yes = (self.answer)(ctx, permission.scope().unwrap());
        Ok(if is_yes { Approval::Always(ArgumentPattern::any()) } else { Approval::No })
    }
}

/// The run in which this person answers, and what it was asked.
fn run_with(
    fixture: &Fixture,
    is_for_model: bool,
    answer: impl Fn(&SkillContext, &str) -> bool + Send + Sync + 'static,
) -> (Run, Vec<String>) {
    let asked = Arc::new(Mutex::default());
    let person = Person { asked: asked.clone(), answer: Box::new(answer) };
    let engine = fixture.builder().approver(person).build().unwrap();
    let invocation = fixture.invocation().ask_about_hosts();
    let run = Run(engine.run(if is_for_model { invocation.for_model() } else { invocation }));
    let asked = asked.lock().unwrap().clone();
    (run, asked)
}

const GETS: &str = "
import sys, urllib.request
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=20).read().decode())
    except OSError: print('failed')
";

#[test]
fn a_host_is_asked_about_once_and_before_its_first_byte() {
    let (address, received) = servers::http("hello");
    let fixture = Fixture::python(GETS)
        .arg("http://first.test/a")
        .arg("http://other.test/secret")
        .arg("http://first.test/b")
        .arg("http://other.test/again")
        .serve("first.test", address)
        .lookup("other.test", address);
    let before = received.clone();
    let (run, asked) = run_with(&fixture, false, move |_, host| {
        let text = before.text();
        assert!(!text.contains("secret") && (host != "first.test" || text.is_empty()), "{text}");
        thread::sleep(Duration::from_millis(200));
        host == "first.test"
    });
    run.assert_stdout("hello\nfailed\nhello\nfailed\n");
    assert_eq!(asked, ["net:first.test", "net:other.test"]);
    assert_eq!(run.refusals(), ["other.test:80 net:other.test", "other.test net:other.test"]);
    assert!(!received.text().contains("secret") && received.text().contains("/b"), "{}", received.text());
    let approved = run.0.grants.iter().filter(|grant| grant.origin == GrantOrigin::Approver);
    assert_eq!(approved.map(|grant| grant.permission.to_string()).collect::<Vec<_>>(), ["net:first.test"]);
    assert!(run.network().hosts.contains(&"first.test".to_owned()), "{run:?}");
}

#[test]
fn a_yes_opens_no_address_of_this_machine_and_other_ports_are_no_question() {
    let (address, received) = servers::http("hello");
    let fixture = Fixture::python(GETS)
        .arg("http://near.test/")
        .arg(format!("http://{address}/"))
        .arg("http://localhost/")
        .arg("http://near.test:8080/")
        .lookup("near.test", address);
    let (run, asked) = run_with(&fixture, false, |_, _| true);
    assert_eq!(asked, ["net:near.test"]);
    assert_eq!(run.stdout().matches("failed").count(), 4, "{run:?}");
    assert!(received.text().is_empty());
    assert!(run.refusals().iter().any(|line| line.contains("near.test:80")), "{:?}", run.refusals());
}

#[test]
fn nobody_is_asked_in_the_run_of_a_model_or_without_the_option() {
    let (address, received) = servers::http("hello");
    let fixture = Fixture::python(GETS).arg("http://first.test/").serve("first.test", address);
    let (run, asked) = run_with(&fixture, true, |_, _| true);
    assert!(asked.is_empty() && run.stdout() == "failed\n", "{asked:?} {run:?}");
    let person = Person { asked: Arc::default(), answer: Box::new(|_, _| panic!("it is asked")) };
    let run = Run(fixture.builder().approver(person).build().unwrap().run(fixture.invocation()));
    run.assert_stdout("failed\n");
    assert!(received.text().is_empty());
}

#[test]
fn a_script_that_ends_takes_its_question_back() {
    let script = "
import os, socket
s = socket.create_connection(('slow.test', 443))
print('done', flush=True)
os._exit(0)";
    let withdrawn = Arc::new(Mutex::new(false));
    let seen = withdrawn.clone();
    let began = Instant::now();
    let (run, asked) = run_with(&Fixture::python(script), false, move |ctx, _| {
        while !ctx.cancel().is_cancelled() && began.elapsed() < Duration::from_secs(50) {
            thread::sleep(Duration::from_millis(10));
        }
        *seen.lock().unwrap() = ctx.cancel().is_cancelled();
        true
    });
    run.assert_stdout("done\n");
    assert!(asked.len() <= 1, "{asked:?}");
    // The script may have ended before the question stood.
    while !asked.is_empty() && !*withdrawn.lock().unwrap() {
        assert!(began.elapsed() < Duration::from_secs(50), "the question stands");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_person_is_asked_about_a_bounded_number_of_hosts() {
    let script = "
import socket
for number in range(200):
    try:
        s = socket.create_connection((f'h{number}.test', 443), timeout=20)
        s.sendall(b'no greeting of TLS')
        s.recv(1)
    except OSError: pass
print('done')";
    for answer in [true, false] {
        let (run, asked) = run_with(&Fixture::python(script), false, move |_, _| answer);
        run.assert_stdout("done\n");
        assert!((1..=32).contains(&asked.len()), "{}", asked.len());
    }
}
