//! A certificate authority of one run, by which the host program stands for the hosts of its secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SanType, date_time_ymd,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{AcceptedAlert, Acceptor};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority for these hosts alone. Its key is in this memory only.
pub struct RunAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    servers: Mutex<BTreeMap<String, Arc<ServerConfig>>>,
}

/// A connection of a script, of which the host program has the keys.
pub struct OpenedConnection(StreamOwned<ServerConnection, SharedStream>);

/// A socket that somebody else shuts down.
struct SharedStream(Arc<TcpStream>);

impl RunAuthority {
    /// A new authority for these hosts.
    pub fn new(hosts: &[String]) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, "metier, for one run");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.name_constraints =
            Some(NameConstraints { permitted_subtrees: subtrees(hosts), excluded_subtrees: Vec::new() });
        set_validity(&mut params);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let pem = params.self_signed(&key).map_err(io::Error::other)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem, servers: Mutex::default() })
    }

    /// Its certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Stands for a host on a connection: offers its certificate and HTTP/1.1. Fails if the connection is meant for another one.
    pub fn accept(&self, host: &str, stream: Arc<TcpStream>) -> io::Result<OpenedConnection> {
        let mut socket = SharedStream(stream);
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            if acceptor.read_tls(&mut socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => return Err(tell(&mut socket, error, &mut alert)),
            }
        };
        if accepted.client_hello().server_name().is_some_and(|name| !name.eq_ignore_ascii_case(host)) {
            let reason = "the TLS connection is meant for another server";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let connection = accepted.into_connection(self.server(host)?);
        let connection = connection.map_err(|(error, mut alert)| tell(&mut socket, error, &mut alert))?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(OpenedConnection(stream))
    }

    fn server(&self, host: &str) -> io::Result<Arc<ServerConfig>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = servers.get(host) {
            return Ok(known.clone());
        }
        let server = Arc::new(self.new_server(host)?);
        servers.insert(host.to_owned(), server.clone());
        Ok(server)
    }

    fn new_server(&self, host: &str) -> io::Result<ServerConfig> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![subject(host)?];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?.with_no_client_auth();
        let mut config =
            config.with_single_cert(vec![certificate.der().clone()], key).map_err(io::Error::other)?;
        // A client that speaks nothing else is refused by this.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl OpenedConnection {
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.0.sock.0
    }

    /// Says that nothing more will be sent.
    pub fn end(&mut self) -> io::Result<()> {
        self.0.conn.send_close_notify();
        self.0.flush()
    }
}

impl Read for OpenedConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for OpenedConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Read for SharedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for SharedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

impl fmt::Debug for RunAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunAuthority")
    }
}

/// The error, of which the script is told as TLS tells it.
fn tell(socket: &mut SharedStream, error: rustls::Error, alert: &mut AcceptedAlert) -> io::Error {
    alert.write_all(socket).ok();
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Wide, because clocks differ; the key does not outlive its run.
fn set_validity(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
}

fn subtrees(hosts: &[String]) -> Vec<GeneralSubtree> {
    let subtree = |host: &String| match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix(address.octets(), 32))
        }
        Ok(IpAddr::V6(address)) => {
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(address.octets(), 128))
        }
        Err(_) => GeneralSubtree::DnsName(host.clone()),
    };
    hosts.iter().map(subtree).collect()
}

fn subject(host: &str) -> io::Result<SanType> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => Ok(SanType::DnsName(Ia5String::try_from(host).map_err(io::Error::other)?)),
    }
}
