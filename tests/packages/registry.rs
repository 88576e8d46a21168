//! A registry of Python and of npm packages on loopback, with what it was asked for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::packages::archives::{integrity, npm_archive, sha256};

/// Connections that a registry answers before it ends.
const MAX_CONNECTIONS: usize = 500;

/// A registry that is filled before it starts.
#[derive(Default)]
pub struct Registry {
    /// By path: the type of the content, and the content.
    pages: BTreeMap<String, (&'static str, Vec<u8>)>,
    /// The files of each Python project: addresses with digests, and names.
    projects: BTreeMap<String, Vec<(String, String)>>,
    /// By path: where it leads.
    redirects: BTreeMap<String, String>,
    npm: Vec<(String, String, Vec<u8>)>,
}

/// A registry that answers.
pub struct RunningRegistry {
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    /// Adds a file of a Python project, under its name.
    pub fn python(self, project: &str, file: &str, bytes: Vec<u8>) -> Self {
        let digest = sha256(&bytes);
        self.python_with_digest(project, file, bytes, &digest)
    }

    /// The same with a digest that may be that of another file.
    pub fn python_with_digest(mut self, project: &str, file: &str, bytes: Vec<u8>, digest: &str) -> Self {
        self.pages.insert(format!("/files/{file}"), ("application/octet-stream", bytes));
        let address = format!("/files/{file}#sha256={digest}");
        self.python_link(project, file, address)
    }

    /// Adds a file of a Python project that lies at this address.
    pub fn python_link(mut self, project: &str, file: &str, address: String) -> Self {
        self.projects.entry(project.to_owned()).or_default().push((address, file.to_owned()));
        self
    }

    /// Answers requests for a path with a redirect to this address.
    pub fn redirect(mut self, path: &str, address: String) -> Self {
        self.redirects.insert(path.to_owned(), address);
        self
    }

    /// Adds a package of npm with these files.
    pub fn npm(mut self, name: &str, version: &str, files: &[(&str, &str)]) -> Self {
        self.npm.push((name.to_owned(), version.to_owned(), npm_archive(files)));
        self
    }

    /// Starts it, on threads that end by themselves.
    pub fn start(mut self) -> RunningRegistry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (project, files) in &self.projects {
            let link = |(address, file): &(String, String)| format!("<a href=\"{address}\">{file}</a>\n");
            let links = files.iter().map(link).collect::<Vec<_>>().concat();
            let page = format!("<!DOCTYPE html><html><body>\n{links}</body></html>");
            self.pages.insert(format!("/simple/{project}/"), ("text/html", page.into_bytes()));
        }
        for (name, version, archive) in self.npm {
            let path = format!("/{name}/-/{name}-{version}.tgz");
            let mut manifest = json!({
                "name": name,
                "version": version,
                "dist": {"tarball": format!("http://127.0.0.1:{port}{path}"), "integrity": integrity(&archive)},
            });
            manifest["scripts"] = json!({"install": "touch mark"});
            manifest["hasInstallScript"] = json!(true);
            let about =
                json!({"name": name, "dist-tags": {"latest": version}, "versions": {version: manifest}});
            self.pages.insert(format!("/{name}"), ("application/json", about.to_string().into_bytes()));
            self.pages.insert(path, ("application/octet-stream", archive));
        }
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (pages, log) = (Arc::new((self.pages, self.redirects)), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().take(MAX_CONNECTIONS) {
                let (pages, log) = (pages.clone(), log.clone());
                thread::spawn(move || answer(stream.unwrap(), &pages.0, &pages.1, &log).ok());
            }
        });
        RunningRegistry { port, asked }
    }
}

impl RunningRegistry {
    /// One at a port where nothing listens.
    pub fn absent(port: u16) -> Self {
        Self { port, asked: Arc::default() }
    }

    pub fn python_index(&self) -> String {
        format!("http://127.0.0.1:{}/simple", self.port)
    }

    pub fn npm_registry(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// The paths that were asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    stream: TcpStream,
    pages: &BTreeMap<String, (&'static str, Vec<u8>)>,
    redirects: &BTreeMap<String, String>,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    for _ in 0..200 {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    log.lock().unwrap().push(path.to_owned());
    let missing = ("text/plain", b"not here".to_vec());
    let path = path.split('?').next().unwrap_or(path);
    let redirect = redirects.get(path);
    let location = redirect.map(|address| format!("Location: {address}\r\n")).unwrap_or_default();
    let (code, (kind, body)) = match pages.get(path) {
        _ if redirect.is_some() => (302, &missing),
        Some(page) => (200, page),
        None => (404, &missing),
    };
    let head = format!(
        "HTTP/1.1 {code} X\r\n{location}Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body)?;
    }
    stream.flush()
}
