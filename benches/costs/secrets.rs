//! What it costs to put a secret into a request of a script, against the same request over the script's own TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use metier::engine::{Engine, Invocation};
use metier::host::{SecretProvider, SkillContext};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::scripts::{project, store};

const AUTHORITY: &str = include_str!("../../tests/http/certificates/authority.pem");
const CERTIFICATE: &str = include_str!("../../tests/http/certificates/server.pem");
const KEY: &str = include_str!("../../tests/http/certificates/server.key.pem");

/// Prints the seconds of a request on a connection of its own, and of one on a connection that is up.
const CLIENT: &str = "
import http.client, os, ssl, sys, time
way = sys.argv[1]
if way == 'granted':
    trust = ssl.create_default_context(cadata=sys.argv[2])
elif way == 'opened':
    trust = ssl.create_default_context()
def connect():
    if way == 'put_in':
        return http.client.HTTPConnection('secure.test')
    return http.client.HTTPSConnection('secure.test', context=trust)
def ask(connection):
    connection.request('GET', '/', headers={'Authorization': 'Bearer ' + os.environ['TOKEN']})
    return connection.getresponse().read()
ask(connect())
started = time.perf_counter()
for _ in range(50): ask(connect())
print((time.perf_counter() - started) / 50)
connection = connect()
ask(connection)
started = time.perf_counter()
for _ in range(500): ask(connection)
print((time.perf_counter() - started) / 500)
";

const WAYS: [&str; 3] = ["granted", "put_in", "opened"];
const MEASURED: [&str; 2] = ["secret_connection", "secret_request"];

struct Token;

impl SecretProvider for Token {
    fn secret(&self, _: &SkillContext, _: &str) -> metier::error::Result<Option<String>> {
        Ok(Some("ghp_0123456789abcdefABCDEF0123456789abcd".to_owned()))
    }
}

/// Measures requests of a script to a server on this machine.
pub fn measure_requests() {
    let address = serve();
    let project = project("main.py", CLIENT);
    let mut samples: [[Vec<Duration>; 2]; 3] = Default::default();
    let engines = WAYS.map(|way| {
        let builder = Engine::builder(project.path()).secrets(Token).root_certificates(AUTHORITY);
        let builder = builder.host_lookup(move |_, _| Ok(vec![address])).tls_broker(way == "opened");
        builder.build().expect("an engine")
    });
    for _ in 0..5 {
        for ((way, engine), samples) in WAYS.iter().zip(&engines).zip(&mut samples) {
            let grants = ["secret:TOKEN@secure.test", "net:secure.test", &format!("net:{address}")]
                .map(|text| text.parse().expect("a permission"));
            let invocation =
                grants.into_iter().fold(Invocation::new("x").args([*way, AUTHORITY]), Invocation::grant);
            let outcome = engine.run(invocation);
            let Ok(value) = outcome.result else {
                return println!("no secret is put in here: {:?}", outcome.result);
            };
            for (line, samples) in value.as_str().unwrap_or_default().lines().zip(samples) {
                samples.push(Duration::from_secs_f64(line.parse().expect("seconds")));
            }
        }
    }
    for (way, samples) in WAYS.iter().zip(samples) {
        for (what, samples) in MEASURED.iter().zip(samples) {
            store(&format!("{what}/{way}"), samples);
        }
    }
}

/// A server over TLS that answers each request with the same, each connection on a thread of its own.
fn serve() -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.expect("a configuration"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        // More than all clients here open.
        for stream in listener.incoming().take(10_000).flatten() {
            stream.set_nodelay(true).expect("an option of a connection");
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            std::thread::spawn(move || answer(StreamOwned::new(connection, stream)));
        }
    });
    address
}

fn answer(mut stream: impl Read + Write) {
    let (mut buffer, mut text) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        text.extend_from_slice(&buffer[..count]);
        if text.ends_with(b"\r\n\r\n") {
            text.clear();
            if stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .and_then(|()| stream.flush())
                .is_err()
            {
                return;
            }
        }
    }
}
