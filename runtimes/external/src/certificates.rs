//! The certificates that the programs of one run trust: those of the system, and the authority by which the host program opens their
//! connections to hosts of secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use metier_core::host::RunAuthority;
use metier_sandbox::LaunchRequest;

/// Where systems have the certificates that programs trust, in one file.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ca-certificates/extracted/tls-ca-bundle.pem",
];

/// The variables by which programs find such a file: OpenSSL with Python, Go, Ruby and PHP, curl, the Python library requests, pip, Node,
/// Deno, git, AWS's tools, cargo, and the Perl library LWP.
const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "PERL_LWP_SSL_CA_FILE",
];

/// Writes the file into a folder of the run.
pub(super) fn write_file(folder: &Path, authority: &RunAuthority) -> io::Result<PathBuf> {
    let system = SYSTEM_FILES.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let path = folder.join("certificates.pem");
    fs::write(&path, format!("{}\n{system}", authority.pem()))?;
    Ok(path)
}

/// Lets the programs of a run trust what is in the file.
pub(super) fn add_to_request(request: &mut LaunchRequest, file: &Path) {
    request.sandbox.files.read.push(file.into());
    request.environment.retain(|(name, _)| !VARIABLES.iter().any(|known| name == *known));
    request.environment.extend(VARIABLES.map(|name| (name.into(), file.into())));
}
