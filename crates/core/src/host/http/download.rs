//! Downloads a file that a person names, outside of any run.

use std::net::IpAddr;
use std::time::Duration;

use super::client::{DEFAULT_CLIENT, missing_client_error};
use super::url::WebUrl;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HttpClient, HttpRequest, HttpResponse, SkillContext};
use crate::policy::{Limits, PathProtection, Permission, Permissions, RequestedPermissions};

/// The time for the lookup, the connection, all redirects and the whole file.
const TIMEOUT: Duration = Duration::from_secs(20);
const WAY_OUT: &str = "download the file and use it from the disk";

/// The file at a URL, of at most so many bytes, within 20 seconds. Nothing of it is run or unpacked.
///
/// The URL is `https`, or names this machine, such as `localhost`, `127.0.0.1` or `[::1]`. Private, link-local and other special
/// addresses are `denied`, also behind a name or a redirect; no redirect leads from `https` to `http`, and none from this machine
/// elsewhere. `invalid-argument`
/// for what is no URL, `io` if the server does not answer with status 200, `output` for a file that is larger, `unavailable` in a build
/// without an HTTP client.
pub fn download(url: &str, max_bytes: u64) -> Result<HttpResponse> {
    let parsed = WebUrl::parse(url)?;
    let Some(client) = DEFAULT_CLIENT else {
        let help = format!("build metier with the Cargo feature `http`, or {WAY_OUT}");
        return Err(missing_client_error(parsed.host()).with_help(help));
    };
    download_by(client().as_ref(), &parsed, max_bytes)
}

fn download_by(client: &dyn HttpClient, url: &WebUrl, max_bytes: u64) -> Result<HttpResponse> {
    let (host, is_local) = (url.host(), is_this_machine(url));
    if !url.is_encrypted() && !is_local {
        let sentence = format!("failed to download from {host}: http can be read and changed on the way");
        return Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help(format!("use the https address, or {WAY_OUT}")));
    }
    // What a server on this machine answers leads to no other service.
    let granted = match url.literal_address() {
        _ if !is_local => "net".to_owned(),
        Some(IpAddr::V6(address)) => format!("net:[{address}]:{}", url.port()),
        _ => format!("net:{host}:{}", url.port()),
    };
    let granted: Permission = granted.parse()?;
    let ctx = SkillContext::builder("download")
        .permissions(Permissions::new(RequestedPermissions::All, [granted], PathProtection::default()))
        .limits(Limits::default().timeout(TIMEOUT))
        .build();
    let mut request = HttpRequest::new("GET", url.uri().to_string(), max_bytes);
    request.timeout = Some(TIMEOUT);
    let response = client.send(&ctx, request).map_err(|error| error.with_help(WAY_OUT).with_hint(None))?;
    if response.status == 200 {
        return Ok(response);
    }
    let sentence = format!("failed to download from {host}: it answers with status {}", response.status);
    Err(SkillError::new(ErrorKind::Io, sentence).with_help("check the address"))
}

fn is_this_machine(url: &WebUrl) -> bool {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    url.host() == "localhost" || url.literal_address().is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Access, RunPermissions};

    /// Answers with what the permissions of the request reach among these.
    struct Reach;

    const PLACES: [(&str, u16); 6] = [
        ("example.com", 443),
        ("a.test", 8443),
        ("localhost", 80),
        ("127.0.0.1", 80),
        ("::1", 80),
        ("127.0.0.1", 81),
    ];

    impl HttpClient for Reach {
        fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
            assert!(request.timeout.is_some_and(|timeout| timeout <= TIMEOUT) && request.max_bytes == 9);
            let reached = PLACES
                .iter()
                .filter(|(host, port)| ctx.permissions().scoped_only().allows(&Access::url(*host, *port)));
            let reached: Vec<String> = reached.map(|(host, port)| format!("{host} {port}")).collect();
            Ok(HttpResponse::new(200, request.url, reached.join(",")))
        }
    }

    #[test]
    fn a_download_reaches_the_web_or_the_one_service_that_was_named() {
        // What is public needs no address of its own among the permissions; what is not is reached by its own alone.
        for (url, reached) in [
            ("https://example.com/a", ""),
            ("https://10.0.0.1/a", ""),
            ("http://127.0.0.1/a", "127.0.0.1 80"),
            ("http://localhost/a", "localhost 80"),
            ("http://[::1]/a", "::1 80"),
            ("https://127.0.0.1:81/a", "127.0.0.1 81"),
        ] {
            let response = download_by(&Reach, &WebUrl::parse(url).unwrap(), 9).unwrap();
            assert_eq!(String::from_utf8(response.body).unwrap(), reached, "{url}");
        }
        for url in ["http://example.com/a", "http://10.0.0.1/a", "http://localhost.example.com/"] {
            let refused = download_by(&Reach, &WebUrl::parse(url).unwrap(), 9).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Denied, "{url}: {refused}");
        }
        for url in ["ftp://a/b", "https://me:pw@a/b", "https://", "file:///etc/passwd"] {
            assert_eq!(download(url, 9).unwrap_err().kind(), ErrorKind::InvalidArgument, "{url}");
        }
    }
}
