//! Redirects: where they may lead, how often, and what goes along.

use metier::error::ErrorKind::{Denied, Io};
use metier::host::HttpClient;

use crate::http::server::{Server, answer, redirect};
use crate::http::{HOME, get, header, post, refused, run, send, web, with};

#[test]
fn a_redirect_is_followed_and_the_answer_says_where_it_came_from() {
    let server = Server::with_answers(|request| match request.split(' ').nth(1) {
        Some("/a/b") => redirect(302, "../c?d#e"),
        _ => answer("200 OK", &[], "there"),
    });
    let response = send(get(server.url("127.0.0.1", "/a/b"))).unwrap();
    assert_eq!((response.url, response.body), (server.url("127.0.0.1", "/c?d"), b"there".to_vec()));
}

#[test]
fn a_redirect_to_the_inside_is_refused() {
    for inside in
        ["http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://10.0.0.1/", "//0.0.0.0/"]
    {
        let server = Server::with_answer(redirect(302, inside));
        refused(
            web(&[]).send(&run(&["net", HOME[0]]), get(server.url("127.0.0.1", "/"))),
            Denied,
            &["address"],
        );
    }
}

#[test]
fn a_redirect_to_a_host_that_was_not_granted_names_it_and_the_permission() {
    let server = Server::with_answer(redirect(307, "https://evil.test/?stolen=hunter2"));
    let result = send(get(server.url("127.0.0.1", "/")));
    let error = refused(
        result,
        Denied,
        &["failed to follow the redirect of 127.0.0.1 to evil.test", "not permitted"],
    );
    assert_eq!(error.help(), Some("grant net:evil.test"));
    assert!(!error.message().contains("hunter2"));
}

#[test]
fn a_redirect_stays_below_the_base_url() {
    // AK-07
    for (location, is_below) in [
        ("/v1/b", true),
        ("b/../c", true),
        ("/v2/b", false),
        ("/", false),
        ("/v10", false),
        ("../x", false),
        ("/v1/%2e%2e/x", false),
        ("http://localhost/v1/b", false),
    ] {
        let server = Server::with_answers(move |request| match request.split(' ').nth(1) {
            Some("/v1/a") => redirect(302, location),
            _ => answer("200 OK", &[], "there"),
        });
        let base = server.url("127.0.0.1", "/v1");
        let request = with(get(server.url("127.0.0.1", "/v1/a")), |request| request.base_url = Some(base));
        let result = web(&[("localhost", "127.0.0.1")]).send(&run(&[HOME[0], "net:localhost"]), request);
        if is_below {
            assert_eq!(result.unwrap().status, 200, "{location}");
        } else {
            refused(result, Denied, &["leads out of the base URL at 127.0.0.1"]);
            assert_eq!(server.requests().len(), 1, "{location}: nothing is sent there");
        }
    }
}

#[test]
fn a_redirect_without_end_ends() {
    let server = Server::with_answer(redirect(302, "/again"));
    refused(send(get(server.url("127.0.0.1", "/"))), Io, &["6th in a row"]);
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn a_redirect_that_leads_nowhere_is_an_error_or_an_answer_but_never_a_panic() {
    for location in
        ["file:///etc/passwd", "http://", "http://me:pw@127.0.0.1/", "http://a\\b/", "gr\u{fc}n", "::"]
    {
        let server = Server::with_answer(redirect(302, location));
        let error = send(get(server.url("127.0.0.1", "/"))).unwrap_err();
        assert_eq!(error.kind(), Io, "{location}: {error}");
    }
    for (status, headers) in
        [("302 Found", &[][..]), ("304 Not Modified", &["location: /x"]), ("300 Choose", &[])]
    {
        let server = Server::with_answer(answer(status, headers, ""));
        assert_eq!(send(get(server.url("127.0.0.1", "/"))).unwrap().status.to_string(), status[..3]);
    }
}

#[test]
fn what_may_be_a_credential_stays_at_its_origin() {
    let there = Server::with_answer(answer("200 OK", &[], "x"));
    let elsewhere = there.url("127.0.0.1", "/");
    let here = Server::with_answers(move |request| match request.split(' ').nth(1) {
        Some("/away") => redirect(307, &elsewhere),
        Some("/home") => redirect(307, "/here"),
        _ => answer("200 OK", &[], "x"),
    });
    let with_secrets = |path| {
        with(get(here.url("127.0.0.1", path)), |request| {
            request.headers = vec![
                header("Authorization", "Bearer hunter2"),
                header("Cookie", "session=hunter2"),
                header("X-Api-Key", "hunter2"),
                header("Accept", "text/plain"),
            ];
        })
    };
    send(with_secrets("/away")).unwrap();
    let arrived = there.requests().pop().unwrap();
    assert!(!arrived.contains("hunter2") && arrived.contains("accept: text/plain"), "{arrived}");
    send(with_secrets("/home")).unwrap();
    let kept = here.requests().pop().unwrap();
    assert_eq!((kept.starts_with("GET /here "), kept.matches("hunter2").count()), (true, 3), "{kept}");
}

#[test]
fn a_body_follows_only_where_the_standard_says_so() {
    for (status, method, has_body) in
        [(301, "GET", false), (303, "GET", false), (307, "POST", true), (308, "POST", true)]
    {
        let server = Server::with_answers(move |request| match request.split(' ').nth(1) {
            Some("/first") => redirect(status, "/next"),
            _ => answer("200 OK", &[], "x"),
        });
        send(post(server.url("127.0.0.1", "/first"), "a body")).unwrap();
        let next = server.requests().pop().unwrap();
        assert!(next.starts_with(&format!("{method} /next ")), "{status}: {next}");
        assert_eq!(next.ends_with("a body"), has_body, "{status}: {next}");
    }
}
