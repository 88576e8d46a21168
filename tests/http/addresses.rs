//! Which addresses a name may lead to.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metier::error::ErrorKind::{Denied, Io};
use metier::host::{HttpClient, WebClient};

use crate::http::server::{Server, answer, redirect};
use crate::http::{get, refused, run, web};

#[test]
fn the_inside_opens_only_to_a_grant_that_names_the_address() {
    let server = Server::with_answer(answer("200 OK", &[], "inside"));
    let names = web(&[("a.test", "127.0.0.1")]);
    for (grants, host) in [
        (&["net"][..], "127.0.0.1"),
        (&["net", "net:a.test"], "a.test"),
        (&["net", "net:127.0.0.2"], "127.0.0.1"),
        (&["net", "net:localhost"], "a.test"),
        (&["net", "net:localhost"], "127.0.0.1"),
    ] {
        let error =
            refused(names.send(&run(grants), get(server.url(host, "/"))), Denied, &["a loopback address"]);
        assert_eq!(error.help(), Some("grant net:127.0.0.1"));
    }
    assert!(server.requests().is_empty(), "nothing was connected to");
    for (grants, host) in
        [(&["net:127.0.0.1"][..], "127.0.0.1"), (&["net:a.test", "net:127.0.0.1"], "a.test")]
    {
        assert_eq!(names.send(&run(grants), get(server.url(host, "/"))).unwrap().body, b"inside");
    }
}

#[test]
fn localhost_opens_to_its_own_name_as_far_as_it_is_this_machine() {
    let server = Server::with_answer(answer("200 OK", &[], "home"));
    let home = web(&[("localhost", "127.0.0.1")]);
    let answer = home.send(&run(&["net:localhost"]), get(server.url("LocalHost", "/")));
    assert_eq!(answer.unwrap().body, b"home");
    let address = home.send(&run(&["net", "net:127.0.0.1"]), get(server.url("localhost", "/")));
    assert_eq!(address.unwrap().body, b"home");
    let plain = home.send(&run(&["net"]), get(server.url("localhost", "/")));
    assert_eq!(refused(plain, Denied, &[]).help(), Some("grant net:localhost"));
    let lies = web(&[("localhost", "10.0.0.1")]);
    refused(
        lies.send(&run(&["net:localhost"]), get("http://localhost/")),
        Denied,
        &["10.0.0.1", "a private address"],
    );
}

#[test]
fn every_special_address_is_refused_however_it_is_written() {
    let client = WebClient::new();
    for (host, what) in [
        ("169.254.169.254", "a link-local address"),
        ("10.0.0.1", "a private address"),
        ("100.64.0.1", "a shared address of a carrier"),
        ("0.0.0.0", "an unspecified address"),
        ("224.0.0.1", "a multicast address"),
        ("[::1]", "a loopback address"),
        ("[::ffff:127.0.0.1]", "a loopback address"),
        ("[::ffff:a9fe:a9fe]", "a link-local address"),
        ("[64:ff9b::7f00:1]", "a loopback address"),
        ("[2002:7f00:1::]", "a loopback address"),
        ("[fd00:ec2::254]", "a private address"),
        ("[fe80::1]", "a link-local address"),
    ] {
        refused(client.send(&run(&["net"]), get(format!("http://{host}/"))), Denied, &[what]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_number_in_disguise_is_the_address_it_resolves_to() {
    // As the system reads them: in hexadecimal, as one number, in octal, with parts left out.
    for host in ["0x7f.1", "2130706433", "0177.0.0.1", "127.1", "0x7f000001"] {
        let error = refused(
            WebClient::new().send(&run(&["net"]), get(format!("http://{host}/"))),
            Denied,
            &["127.0.0.1"],
        );
        assert_eq!(error.help(), Some("grant net:127.0.0.1"), "{host}");
    }
}

#[test]
fn a_name_with_one_bad_address_is_not_reached_at_its_good_ones() {
    let server = Server::with_answer(answer("200 OK", &[], "x"));
    let mixed = web(&[("mixed.test", "127.0.0.1"), ("mixed.test", "10.0.0.1")]);
    let grants = run(&["net", "net:127.0.0.1"]);
    refused(mixed.send(&grants, get(server.url("mixed.test", "/"))), Denied, &["mixed.test at 10.0.0.1"]);
    assert!(server.requests().is_empty());
}

#[test]
fn a_name_that_changes_its_mind_gains_nothing() {
    let server = Server::with_answer(answer("200 OK", &[], "x"));
    let grants = ["net", "net:127.0.0.1"];
    // What was judged is what is connected to.
    let (client, asked) = changing_resolver_client(&["127.0.0.1", "10.0.0.1"]);
    assert_eq!(client.send(&run(&grants), get(server.url("a.test", "/"))).unwrap().status, 200);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Where nobody listens first, this machine afterwards: the machine is not reached.
    let (client, asked) = changing_resolver_client(&["127.0.0.2", "127.0.0.1"]);
    let result = client.send(&run(&["net", "net:127.0.0.2"]), get(server.url("a.test", "/")));
    refused(result, Io, &["failed to reach a.test"]);
    assert_eq!((asked.load(Ordering::SeqCst), server.requests().len()), (1, 1));
}

#[test]
fn a_redirect_to_the_same_name_is_judged_again() {
    let server = Server::with_answer(redirect(302, "/again"));
    let (client, asked) = changing_resolver_client(&["127.0.0.1", "127.0.0.2"]);
    let result = client.send(&run(&["net", "net:127.0.0.1"]), get(server.url("a.test", "/")));
    refused(result, Denied, &["a.test at 127.0.0.2"]);
    assert_eq!((asked.load(Ordering::SeqCst), server.requests().len()), (2, 1));
}

#[test]
fn a_name_without_an_address_is_a_sentence() {
    let result = web(&[]).send(&run(&["net"]), get("http://nowhere.test/?token=hunter2"));
    let error = refused(result, Io, &["failed to reach nowhere.test"]);
    assert!(!error.message().contains("hunter2"));
    let broken = WebClient::new().resolver(|_| Err(std::io::Error::other("the resolver is on fire")));
    refused(broken.send(&run(&["net"]), get("http://a.test/")), Io, &["a.test: the resolver is on fire"]);
}

#[test]
fn a_host_that_was_not_granted_is_not_even_looked_up() {
    let (client, asked) = changing_resolver_client(&["127.0.0.1"]);
    let error =
        refused(client.send(&run(&["net:b.test"]), get("http://a.test/?token=hunter2")), Denied, &["a.test"]);
    assert_eq!(error.help(), Some("grant net:a.test"));
    assert!(!error.message().contains("hunter2"));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// A client whose every name means another address each time it is looked up, and how often that was.
fn changing_resolver_client(addresses: &'static [&str]) -> (WebClient, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let client = WebClient::new().resolver(move |_| {
        let at = counter.fetch_add(1, Ordering::SeqCst).min(addresses.len() - 1);
        Ok(vec![addresses[at].parse::<IpAddr>().unwrap()])
    });
    (client, asked)
}
