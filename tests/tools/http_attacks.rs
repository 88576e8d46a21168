//! Attacks on declared calls: no input leaves its segment, its parameter or its header, and no response leads to another host.

use metier::error::ErrorKind;
use serde_json::{Value, json};

use crate::support::engine::{kind, sentence};
use crate::tools::http::{Recorder, call_with, send};

#[test]
fn no_text_leaves_its_segment_of_the_path() {
    // SW-T14, SW-W11
    let long = "a".repeat(20_000);
    let refused = [
        "",
        ".",
        "..",
        "/",
        "a/b",
        "/etc/passwd",
        "../admin",
        "..\\admin",
        "a\\b",
        "%2e%2e",
        "%2E%2E",
        ".%2e",
        "%2f",
        "a%2Fb",
        "..%2fadmin",
        "%5c",
        "%252f",
        "%252e%252e",
        "%2e",
        "a\nb",
        "a\r\nHost: evil.test",
        "a\0b",
        "\u{7f}",
        "\u{85}",
        "/../../meta",
        "//evil.test",
        "x/../y",
        "%2e%2e%2f",
        "..%5c..",
        "./",
        "a%00/b",
        &long,
    ];
    assert!(refused.len() >= 30);
    for text in refused {
        for http in ["path: /repos/$inputs.a/issues", "path: /repos/$inputs.a"] {
            let (outcome, requests) = send(http, json!({"a": text}));
            assert_eq!(kind(&outcome), ErrorKind::InvalidInput, "{text:?}");
            assert!(requests.is_empty(), "SW-T14: zero requests for {text:?}");
        }
    }
    for (text, segment) in [
        ("a?b=c", "a%3Fb%3Dc"),
        ("a#b", "a%23b"),
        ("user@evil.test", "user%40evil.test"),
        ("evil.test:80", "evil.test%3A80"),
        ("a;b=c", "a%3Bb%3Dc"),
        ("a&b", "a%26b"),
        ("a b", "a%20b"),
        ("a+b", "a%2Bb"),
        ("100%", "100%25"),
        ("%zz", "%25zz"),
        ("...", "..."),
        ("..a", "..a"),
        ("$inputs.b", "%24inputs.b"),
        ("${secrets.token}", "%24%7Bsecrets.token%7D"),
        ("ü\u{202e}", "%C3%BC%E2%80%AE"),
        ("\u{ff0f}", "%EF%BC%8F"),
        ("\u{2024}\u{2024}", "%E2%80%A4%E2%80%A4"),
    ] {
        let (outcome, requests) = send("path: /repos/$inputs.a/issues", json!({"a": text}));
        assert!(outcome.result.is_ok(), "{text:?}: {:?}", outcome.result);
        assert_eq!(requests[0].url, format!("https://api.test/v1/repos/{segment}/issues"), "{text:?}");
    }
}

#[test]
fn only_texts_and_numbers_are_segments() {
    for value in [Value::Null, json!([]), json!(["..", "x"]), json!({"a": 1}), json!([["a"]])] {
        let (outcome, requests) = send("path: /repos/$inputs.a", json!({"a": value}));
        assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0), "{value}");
    }
    for (value, segment) in [(json!(5), "5"), (json!(-1.5), "-1.5"), (json!(true), "true")] {
        assert_eq!(
            send("path: /$inputs.a", json!({"a": value})).1[0].url,
            format!("https://api.test/v1/{segment}")
        );
    }
}

#[test]
fn harmless_parts_are_no_step_up_together() {
    for (http, a, b) in [
        ("path: /x/${inputs.a}${inputs.b}/y", ".", "."),
        ("path: /x/.${inputs.a}/y", ".", ""),
        ("path: /x/${inputs.a}.", ".", ""),
        ("path: /x/${inputs.a}${inputs.b}", "%2", "fadmin"),
        ("path: /x/${inputs.a}f", "%2", ""),
        ("path: /x/${inputs.a}${inputs.b}", "%25", "2fadmin"),
    ] {
        let (outcome, requests) = send(http, json!({"a": a, "b": b}));
        assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0), "{http}");
    }
}

#[test]
fn an_input_of_several_segments_is_checked_segment_by_segment() {
    let http = "path: /files/$inputs.a/raw\nmulti_segment: [a]";
    let (_, requests) = send(http, json!({"a": "src/a b.ts?x=1"}));
    assert_eq!(requests[0].url, "https://api.test/v1/files/src/a%20b.ts%3Fx%3D1/raw");
    for text in [
        "../../meta",
        "a/../b",
        "a//b",
        "/a",
        "a/",
        "a/%2e%2e/b",
        "a/./b",
        "",
        "a\\..\\b",
        "a/%2f/b",
        "a/..%2f",
    ] {
        let (outcome, requests) = send(http, json!({"a": text}));
        assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0), "{text}");
    }
}

#[test]
fn no_text_leaves_its_parameter() {
    for (text, encoded) in [
        ("a&admin=true", "a%26admin%3Dtrue"),
        ("a#b", "a%23b"),
        ("a=b", "a%3Db"),
        ("a\r\nX: y", "a%0D%0AX%3A%20y"),
        ("", ""),
        ("../..", "..%2F.."),
        ("select=*", "select%3D%2A"),
    ] {
        let (outcome, requests) = send("path: /x\nquery: {q: $inputs.q}", json!({"q": text}));
        assert!(outcome.result.is_ok(), "{text:?}");
        assert_eq!(requests[0].url, format!("https://api.test/v1/x?q={encoded}"), "{text:?}");
    }
    for value in [json!({"a": 1}), json!([[1]]), json!([{"a": 1}])] {
        let (outcome, requests) = send("path: /x\nquery: {q: $inputs.q}", json!({"q": value}));
        assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0), "{value}");
    }
}

#[test]
fn no_text_becomes_another_header() {
    for text in ["a\r\nX-Admin: 1", "a\nb", "a\rb", "a\0", "\u{7f}", "gr\u{fc}n", "a\u{2028}b", "\t"] {
        for http in ["path: /x\nheaders: {X-A: $inputs.a}", "path: /x\nheaders: {X-A: 'v ${inputs.a}'}"] {
            let (outcome, requests) = send(http, json!({"a": text}));
            assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0), "{text:?}");
            assert!(!sentence(&outcome).contains("X-Admin"), "{outcome:?}");
        }
    }
    let (outcome, requests) = send("path: /x\nheaders: {X-A: $inputs.a}", json!({"a": ["a"]}));
    assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0));
}

#[test]
fn a_response_from_elsewhere_is_no_response() {
    for url in [
        "https://evil.test/v1/x",
        "http://api.test/v1/x",
        "https://api.test:8443/v1/x",
        "https://api.test/admin",
        "https://api.test/v1/../admin",
        "https://api.test/v10/x",
    ] {
        let client = Recorder::new(200, "{}").at_url(url);
        let outcome = call_with("path: /x", &client, json!({}));
        assert_eq!(kind(&outcome), ErrorKind::Denied, "{url}: {:?}", outcome.result);
    }
}

#[test]
fn no_name_leaves_its_brackets() {
    let http = "method: POST\npath: /x\nform: {a: $inputs.a}\ndeep_object: [a]";
    for name in ["", "b]", "b][c", "[", "b]&admin[", "b\r\n", "\0"] {
        for value in [json!({name: 1}), json!([{"x": {name: 1}}])] {
            let (outcome, requests) = send(http, json!({"a": value}));
            assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0), "{name:?}");
        }
    }
    let (_, requests) = send(http, json!({"a": {"b&admin": "c=d", "e%5Df": 1}}));
    assert_eq!(
        requests[0].body.as_deref(),
        Some(&b"a%5Bb%26admin%5D=c%3Dd&a%5Be%255Df%5D=1"[..]),
        "what a server decodes once"
    );
    let deep = (0..40).fold(json!(1), |inner, _| json!({"b": inner}));
    let (outcome, requests) = send(http, json!({"a": deep}));
    assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0));
    // The long name is written again for each item.
    let long = json!({"n".repeat(100_000): (0..2_000).collect::<Vec<_>>()});
    let (outcome, requests) = send(http, json!({"a": long}));
    assert_eq!((kind(&outcome), requests.len()), (ErrorKind::Output, 0));
    let query = "path: /x\nquery: {a: $inputs.a}\ndeep_object: [a]";
    let (outcome, requests) = send(query, json!({"a": {"n".repeat(100_000): [1, 2]}}));
    assert_eq!((kind(&outcome), requests.len()), (ErrorKind::InvalidInput, 0));
}

#[test]
fn a_request_and_a_value_are_bounded() {
    let big = "a".repeat(2 << 20);
    let list: Vec<String> = (0..40).map(|at| format!("a{at}: $inputs.a")).collect();
    let http = format!("method: POST\npath: /x\nbody: {{{}}}", list.join(", "));
    let (outcome, requests) = send(&http, json!({"a": big}));
    assert_eq!((kind(&outcome), requests.len()), (ErrorKind::Output, 0));
    let (outcome, requests) = send("path: /x\nquery: {a: $inputs.a}", json!({"a": big}));
    assert!(matches!(kind(&outcome), ErrorKind::Output | ErrorKind::InvalidInput) && requests.is_empty());
}
