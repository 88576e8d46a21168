//! A server on a loopback port in the place of all services, and the client whose requests reach it.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{HttpClient, HttpRequest, HttpResponse, SkillContext, WebClient};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::policy::PathProtection;
use serde_json::{Map, Value, json};

use crate::http::server as web_server;

/// The header in which a request says for which origin it is.
const ORIGIN: &str = "x-origin-of-tests";

/// A client that reaches nothing.
pub struct NoService;

impl HttpClient for NoService {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        Err(SkillError::new(ErrorKind::Io, format!("nobody answers {}", request.url)))
    }
}

/// Sends every request over a connection to the server on this machine, with the origin it was for in a header.
pub struct Redirected {
    pub address: SocketAddr,
    pub client: WebClient,
}

impl Redirected {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, client: WebClient::new() }
    }
}

impl HttpClient for Redirected {
    fn send(&self, ctx: &SkillContext, mut request: HttpRequest) -> Result<HttpResponse> {
        let (origin, rest) = split_url(&request.url);
        let (origin, rest) = (origin.to_owned(), rest.to_owned());
        let here = |url: &str| format!("http://{}{}", self.address, split_url(url).1);
        request.base_url = request.base_url.as_deref().map(here);
        request.url = here(&request.url);
        request.headers.push((ORIGIN.into(), origin.clone()));
        // The host with every port, so that nothing but the base URL keeps a redirect from another server here.
        let grant: Permission = "net:127.0.0.1".parse().unwrap();
        let permissions = Permissions::new(RequestedPermissions::All, [grant], PathProtection::default());
        let limits = ctx.limits().clone();
        let own = SkillContext::builder("service")
            .permissions(permissions)
            .limits(limits)
            .cancel(ctx.cancel().clone());
        let mut response = self.client.send(&own.build(), request)?;
        response.url = format!("{origin}{rest}");
        Ok(response)
    }
}

/// The origin of a URL, and what follows it.
pub fn split_url(url: &str) -> (&str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    url.split_at(end)
}

/// A request as it came in: `{method, url, headers, json}`, or `body` in place of `json`.
type Received = Arc<Mutex<Vec<Value>>>;

/// Hands each request to a function, with the connection, until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    received: Received,
    _connections: web_server::Server,
}

impl Server {
    pub fn new(act: impl Fn(&Value, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let received = Received::default();
        let seen = received.clone();
        let connections = web_server::Server::with_connections(move |stream, _| {
            stream.set_nodelay(true).unwrap();
            if let Some(request) = web_server::read_request(stream).as_deref().and_then(parse_request) {
                seen.lock().unwrap().push(request.clone());
                act(&request, stream);
            }
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, connections.port()));
        Self { address, received, _connections: connections }
    }

    /// Answers as a case gives it: by method and URL or URL, several answers of one request in order.
    pub fn of_case(answers: Map<String, Value>) -> Self {
        let answered = Mutex::new(Map::<String, Value>::new());
        Self::new(move |request, stream| {
            let url = request["url"].as_str().unwrap();
            let named = format!("{} {url}", request["method"].as_str().unwrap());
            let Some((key, found)) =
                [named.as_str(), url].into_iter().find_map(|key| Some((key, answers.get(key)?)))
            else {
                return write(stream, 599, &Map::new(), &format!("no answer for {named}"));
            };
            let mut answered = answered.lock().unwrap();
            let number = answered.get(key).and_then(Value::as_u64).unwrap_or(0);
            answered.insert(key.into(), (number + 1).into());
            let number = usize::try_from(number).unwrap();
            let answer = match found {
                Value::Array(all) => all.get(number).or(all.last()).unwrap(),
                one => one,
            };
            let body = match answer.get("json") {
                Some(json) => json.to_string(),
                None => answer["body"].as_str().unwrap_or_default().to_owned(),
            };
            let headers = answer["headers"].as_object().cloned().unwrap_or_default();
            write(stream, answer["status"].as_u64().unwrap_or(200), &headers, &body);
        })
    }

    pub fn requests(&self) -> Vec<Value> {
        self.received.lock().unwrap().clone()
    }
}

/// Writes a whole answer and ends the connection.
pub fn write(stream: &mut TcpStream, status: u64, headers: &Map<String, Value>, body: &str) {
    let line = |(name, value): (&String, &Value)| [name, ": ", value.as_str().unwrap(), "\r\n"].concat();
    let lines: String = headers.iter().map(line).collect();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {length}\r\n{lines}\r\n{body}"
    );
    drop(stream.write_all(answer.as_bytes()));
}

fn parse_request(text: &str) -> Option<Value> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Map::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.insert(name.to_ascii_lowercase(), value.into());
    }
    let origin = headers.get(ORIGIN).and_then(Value::as_str).unwrap_or_default();
    // An address without a path has one on the wire.
    let path = path.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?')).unwrap_or(path);
    let mut request = json!({"method": method, "url": format!("{origin}{path}"), "headers": headers});
    match serde_json::from_str::<Value>(body) {
        _ if body.is_empty() => {}
        Ok(value) => request["json"] = value,
        Err(_) => request["body"] = body.into(),
    }
    Some(request)
}
