//! Requests that plug-ins send with Extism's `http_request`, to a server on this machine.

use super::Agreement::{Differs, Failure, Output};
use super::kits::KITS;
use super::{Agreement, Case, disagreement, hold, server};

/// A method, a path, a body.
const REQUESTS: &[(Agreement, &str)] = &[
    (Output, "GET /echo"),
    (Output, "get /echo"),
    (Output, "HEAD /echo"),
    (Output, "DELETE /echo"),
    (Output, "POST /echo text"),
    (Output, "POST /echo #00017f80feff"),
    (Output, "POST /echo @200000"),
    (Output, "PUT /echo text"),
    (Output, "PATCH /echo text"),
    (Output, "GET /status/404"),
    (Output, "GET /status/500"),
    (Output, "GET /binary"),
    (Output, "GET /bytes/0"),
    (Output, "GET /bytes/1000000"),
    (Output, "GET /to/echo"),
    (
        Differs("no answer may have more bytes than the output limit of the run, nor more than 8 MiB"),
        "GET /bytes/9000000",
    ),
    (Failure, "BREW /echo"),
];

#[test]
fn requests_are_sent_as_there() {
    let address = server::start();
    hold(KITS.iter().flat_map(|kit| REQUESTS.iter().map(move |row| (kit, row))).map(
        |((kit, module), (agreement, request))| {
            let (method, rest) = request.split_once(' ').unwrap_or_default();
            let input = format!("http {method} http://{address}{rest}");
            let server = Some(address.as_str());
            let case = Case { input: input.into(), host: Some("127.0.0.1"), server, ..Case::new(module) };
            (format!("{kit}: {request}"), disagreement(&case, *agreement))
        },
    ));
}

#[test]
fn what_is_not_permitted_is_not_reached() {
    let address = server::start();
    let urls = [
        format!("http://localhost:{}/echo", &address[10..]),
        "http://example.com/".into(),
        "ftp://127.0.0.1/".into(),
        "file:///etc/passwd".into(),
        "nothing".into(),
    ];
    hold(KITS.iter().flat_map(|kit| urls.iter().map(move |url| (kit, url))).map(|((kit, module), url)| {
        let (input, server) = (format!("http GET {url}").into(), Some(&address[10..]));
        let case = Case { input, host: Some("127.0.0.1"), server, ..Case::new(module) };
        (format!("{kit}: {url}"), disagreement(&case, Failure))
    }));
}
