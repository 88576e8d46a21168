//! Downloads without a run: what is reached, how far a redirect leads, how large a file is.

use metier::error::ErrorKind::{Denied, InvalidArgument, Io, Output};
use metier::host::download;

use crate::http::server::{Server, answer, redirect};

#[test]
fn a_file_of_this_machine_is_downloaded_whole_or_not_at_all() {
    let server = Server::with_answers(|request| match request.split(' ').nth(1) {
        Some("/skill.json") => answer("200 OK", &["content-type: application/json"], "{\"a\": 1}"),
        Some("/moved") => redirect(302, "/skill.json"),
        _ => answer("404 Not Found", &[], "nothing"),
    });
    for path in ["/skill.json", "/moved"] {
        let file = download(&server.url("127.0.0.1", path), 8).unwrap();
        assert_eq!((file.body, file.url), (b"{\"a\": 1}".to_vec(), server.url("127.0.0.1", "/skill.json")));
    }
    let refused = |path, max| download(&server.url("127.0.0.1", path), max).unwrap_err();
    assert_eq!(refused("/skill.json", 7).kind(), Output);
    let missing = refused("/other", 8);
    assert!(missing.kind() == Io && missing.message().contains("status 404"), "{missing}");
}

#[test]
fn no_download_reaches_another_service_or_a_private_address() {
    for to in [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/",
        "https://example.test/",
        "http://localhost/",
        "http://127.0.0.1:1/",
        "http://[::1]/",
    ] {
        let server = Server::with_answer(redirect(302, to));
        let error = download(&server.url("127.0.0.1", "/skill.json"), 100).unwrap_err();
        assert!(
            error.kind() == Denied && error.help() == Some("download the file and use it from the disk"),
            "{to}: {error:?}"
        );
        assert_eq!(server.requests().len(), 1, "{to}");
    }
    for url in [
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "https://[fd00::1]/",
        "https://0.0.0.0/",
        "https://[::ffff:10.0.0.1]/",
    ] {
        let error = download(url, 100).unwrap_err();
        assert!(error.kind() == Denied && error.hint().is_none(), "{url}: {error:?}");
    }
    for url in ["http://example.com/", "http://10.0.0.1/"] {
        assert_eq!(download(url, 100).unwrap_err().kind(), Denied, "{url}");
    }
    for url in ["file:///etc/passwd", "https://a:b@127.0.0.1/", "skill.json"] {
        assert_eq!(download(url, 100).unwrap_err().kind(), InvalidArgument, "{url}");
    }
}
