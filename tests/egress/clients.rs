//! The clients that people use, without any help from them: no variable for a proxy, no certificate of ours between them and the
//! server.

use crate::fixture::Fixture;
use crate::not_run::{find_program, not_run};
use crate::servers;

#[test]
fn curl_reaches_a_granted_host_and_no_other() {
    if find_program("curl").is_none() {
        return not_run("curl reaches a granted host", "curl is not installed");
    }
    let (server, received) = servers::http("hello");
    let run = Fixture::bash(
        "curl -sS http://api.test/a
        echo
        curl -sS --max-time 5 http://other.test/ 2>&1 || echo \"code $?\"",
    )
    .host("api.test", server)
    .lookup("other.test", server)
    .run();
    run.assert_stdout("hello\ncurl: (6) Could not resolve host: other.test\ncode 6\n");
    assert!(received.text().starts_with("GET /a HTTP/1.1\r\nHost: api.test\r\n"), "{}", received.text());
    assert_eq!(run.refusals(), ["other.test net:other.test"]);
    let network = run.network();
    assert_eq!(network.connections, 1);
    assert_eq!(network.sent_bytes, received.text().len() as u64);
    assert_eq!(network.received_bytes, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".len() as u64);
}
