//! A skill with one script that is granted hosts, in a project of its own.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::host::{NetworkReport, ProcessReport, SecretProvider, SkillContext};
use metier::policy::{Limits, SandboxLevel, SandboxMode};
use metier::registry::{Root, Roots, Scope};
use tempfile::TempDir;

/// Names the helper where the one that was built may not be run by whoever runs the tests.
pub const HELPER_VARIABLE: &str = "METIER_SANDBOX_HELPER";

pub fn helper() -> Option<PathBuf> {
    let named = std::env::var_os(HELPER_VARIABLE).map(PathBuf::from);
    let built = if cfg!(feature = "cli") { option_env!("CARGO_BIN_EXE_metier") } else { None };
    named.or_else(|| built.map(PathBuf::from))
}

pub struct Fixture {
    folder: TempDir,
    script: String,
    args: Vec<String>,
    grants: Vec<String>,
    /// The names that the lookup knows, with the addresses that it returns whatever the port.
    hosts: Vec<(&'static str, Vec<SocketAddr>)>,
    /// Names whose lookups return these addresses one after the other, and then the last one.
    rebound: Vec<(&'static str, Vec<SocketAddr>)>,
    lookups: Arc<Mutex<Vec<String>>>,
    mode: SandboxMode,
    level: SandboxLevel,
    timeout: Duration,
    secrets: Vec<(&'static str, &'static str)>,
    tls_broker: bool,
}

impl Fixture {
    pub fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("egress-").tempdir().unwrap();
        let fixture = Self {
            folder,
            script: format!("scripts/{name}"),
            args: Vec::new(),
            grants: Vec::new(),
            hosts: Vec::new(),
            rebound: Vec::new(),
            lookups: Arc::default(),
            mode: SandboxMode::Required,
            level: SandboxLevel::Namespaces,
            timeout: Duration::from_mins(1),
            secrets: Vec::new(),
            tls_broker: false,
        };
        fixture.write("skills/x/SKILL.md", "---\nname: x\ndescription: connects\n---\n");
        fixture.write(&format!("skills/x/scripts/{name}"), text);
        fixture.write("project/own", "own\n");
        fixture
    }

    pub fn bash(text: &str) -> Self {
        Self::new("run.bash", text)
    }

    pub fn python(text: &str) -> Self {
        Self::new("run.py", text)
    }

    pub fn node(text: &str) -> Self {
        Self::new("run.mjs", text)
    }

    pub fn arg(mut self, arg: impl Into<Argument>) -> Self {
        self.args.push(arg.into().0);
        self
    }

    pub fn grant(mut self, permission: impl Into<String>) -> Self {
        self.grants.push(permission.into());
        self
    }

    /// Grants this host at the ports of the web, and lets the lookup return this address for it, which is granted too.
    pub fn host(self, name: &'static str, address: SocketAddr) -> Self {
        self.grant(format!("net:{name}")).serve(name, address)
    }

    /// Lets the lookup return this address for a name, and grants the address.
    pub fn serve(self, name: &'static str, address: SocketAddr) -> Self {
        self.grant(format!("net:{address}")).lookup(name, address)
    }

    /// Lets the lookup return this address for a name.
    pub fn lookup(mut self, name: &'static str, address: SocketAddr) -> Self {
        self.hosts.push((name, vec![address]));
        self
    }

    /// Lets each lookup of a name return the next of these addresses, and the last one in the end.
    pub fn rebind(mut self, name: &'static str, addresses: &[SocketAddr]) -> Self {
        self.rebound.push((name, addresses.to_vec()));
        self
    }

    /// Gives the run a secret that is for this host alone.
    pub fn secret(mut self, name: &'static str, value: &'static str, host: &str) -> Self {
        self.secrets.push((name, value));
        self.grant(format!("secret:{name}@{host}"))
    }

    /// Opens TLS connections to hosts of secrets.
    pub fn tls_broker(mut self) -> Self {
        self.tls_broker = true;
        self
    }

    pub fn level(mut self, level: SandboxLevel) -> Self {
        self.level = level;
        self
    }

    pub fn mode(mut self, mode: SandboxMode) -> Self {
        self.mode = mode;
        self
    }

    /// The names that the host program has looked up.
    pub fn lookups(&self) -> Vec<String> {
        self.lookups.lock().unwrap().clone()
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Puts the packages that `.ci/run` installs into the folder `packages` of the skill.
    pub fn python_packages(self) -> Self {
        let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python-packages");
        if Path::new(installed).is_dir() {
            let copy = self.folder.path().join("skills/x/packages");
            assert!(
                Command::new("cp").arg("-r").args([installed.as_ref(), &*copy]).status().unwrap().success()
            );
        }
        self
    }

    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn builder(&self) -> EngineBuilder {
        let roots = Roots::empty().with(Root::new(Scope::Explicit, "skills", self.at("skills")));
        let (hosts, rebound, lookups) = (self.hosts.clone(), self.rebound.clone(), self.lookups.clone());
        let builder = Engine::builder(self.at("project"))
            .roots(roots)
            .sandbox_level(self.level)
            .sandbox_mode(self.mode)
            .secrets(Secrets(self.secrets.clone()))
            .root_certificates(crate::egress::servers::AUTHORITY)
            .tls_broker(self.tls_broker)
            .host_lookup(move |name, _| {
                let mut lookups = lookups.lock().unwrap();
                lookups.push(name.to_owned());
                if let Some((_, addresses)) = rebound.iter().find(|(known, _)| *known == name) {
                    let number = lookups.iter().filter(|known| *known == name).count();
                    return Ok(vec![addresses[number.min(addresses.len()) - 1]]);
                }
                let found: Vec<SocketAddr> = hosts
                    .iter()
                    .filter(|(known, _)| {
                        *known == name || known.strip_prefix('*').is_some_and(|end| name.ends_with(end))
                    })
                    .flat_map(|(_, addresses)| addresses.clone())
                    .collect();
                if found.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(found) }
            });
        match helper() {
            Some(program) => builder.helper(program),
            None => builder,
        }
    }

    pub fn invocation(&self) -> Invocation {
        let invocation = Invocation::new("x")
            .script(&self.script)
            .args(&self.args)
            .limits(Limits::default().timeout(self.timeout));
        self.grants.iter().fold(invocation, |invocation, grant| invocation.grant(grant.parse().unwrap()))
    }

    pub fn run(&self) -> Run {
        Run(self.builder().build().unwrap().run(self.invocation()))
    }
}

struct Secrets(Vec<(&'static str, &'static str)>);

impl SecretProvider for Secrets {
    fn secret(&self, _: &SkillContext, name: &str) -> metier::error::Result<Option<String>> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        Ok(found.map(|(_, value)| (*value).to_owned()))
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Run(pub Outcome);

impl Run {
    #[track_caller]
    pub fn process(&self) -> &ProcessReport {
        self.0.process.as_ref().unwrap_or_else(|| panic!("nothing ran: {:?}", self.0.result))
    }

    #[track_caller]
    pub fn network(&self) -> &NetworkReport {
        self.process().network.as_ref().expect("it had no network of its own")
    }

    #[track_caller]
    pub fn stdout(&self) -> &str {
        &self.process().stdout
    }

    #[track_caller]
    pub fn assert_stdout(&self, expected: &str) -> &Self {
        assert!(self.0.result.is_ok(), "{:?}\n{:?}", self.0.result, self.0.process);
        assert_eq!(self.stdout(), expected, "{:?}", self.0.process);
        self
    }

    /// The refusals, as `host:port permission`.
    pub fn refusals(&self) -> Vec<String> {
        let refused = self.network().refused.iter();
        refused.map(|one| format!("{one} {}", one.permission.as_deref().unwrap_or(&one.reason))).collect()
    }
}

/// The text of an argument.
pub struct Argument(String);

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Argument {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<u16> for Argument {
    fn from(port: u16) -> Self {
        Self(port.to_string())
    }
}

impl From<SocketAddr> for Argument {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}
