//! Runs the package managers: in the sandbox of a script, in an empty folder, with the registries of the user as their only network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{Engine, EngineInner, Invocation, Outcome};
use crate::engine::prepare_request::PrepareRequest;
use crate::registry::Roots;
use crate::runtimes;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::policy::{Access, Limits, OutputPolicy, PathProtection, Permission, SandboxMode};
use metier_packages::{
    Ecosystem, InstalledInterpreter, NpmRegistry, PackageRequest, Preparation, PythonIndex, StoredPackages,
    UserFiles, begin_preparation, check_new_lock, host_of,
};

/// The longest that one call of a package manager may take.
const MAX_TIME: Duration = Duration::from_mins(20);
/// Bytes of one file that it may write.
const MAX_FILE_SIZE: u64 = 4 << 30;
/// Bytes of its memory.
const MAX_MEMORY: u64 = 4 << 30;
/// Bytes of its output that are kept.
const MAX_OUTPUT: u64 = 256 << 10;
/// Characters of what a package manager said that go into an error.
const MAX_LOG_CHARS: usize = 1_200;
const MAX_LOG_LINES: usize = 12;
/// Variables by which programs find the certificates that they trust.
const CERTIFICATE_VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];

/// Where in the folder of a preparation the packages are unpacked.
const TARGET: &str = "files";

const PYTHON_QUESTION: &str = "import json, platform, sys, sysconfig
print(json.dumps([sys.executable, sys.implementation.name + ' ' + platform.python_version(), sysconfig.get_platform()]))";
const NODE_QUESTION: &str = "JSON.stringify([process.execPath, 'node ' + process.version.slice(1), process.platform + '-' + process.arch])";

/// Installs packages for one interpreter.
pub(super) struct PackageInstaller<'a> {
    engine: &'a EngineInner,
    request: &'a PrepareRequest,
    untrusted: &'a UntrustedDirs,
}

/// What a call of a package manager may reach.
#[derive(Clone, Default)]
struct ManagerAccess {
    hosts: Vec<(String, u16)>,
    paths: Vec<PathBuf>,
    /// Variables with secrets.
    secrets: Vec<(String, String)>,
    /// What is removed from what it says.
    passwords: Vec<String>,
}

impl<'a> PackageInstaller<'a> {
    pub(super) fn new(
        engine: &'a EngineInner,
        request: &'a PrepareRequest,
        untrusted: &'a UntrustedDirs,
    ) -> Self {
        Self { engine, request, untrusted }
    }

    /// Resolves, locks, unpacks and stores the packages. Returns the registries, and what is in the store now.
    pub(super) fn install(
        &self,
        packages: &PackageRequest,
        program: &Path,
    ) -> Result<(Vec<String>, StoredPackages)> {
        let variable = |name: &str| std::env::var(name).ok();
        let files = UserFiles::new(&variable, self.untrusted);
        match packages.requirements.ecosystem() {
            Ecosystem::Python => self.install_python(packages, program, &PythonIndex::of_user(&files)?),
            Ecosystem::Npm => self.install_npm(packages, program, &NpmRegistry::of_user(&files)?),
        }
    }

    fn install_python(
        &self,
        packages: &PackageRequest,
        program: &Path,
        index: &PythonIndex,
    ) -> Result<(Vec<String>, StoredPackages)> {
        let uv = self.manager("uv", "https://docs.astral.sh/uv/, or `pip install uv`")?;
        let work = begin_preparation(&packages.store)?;
        let project = work.project();
        let engine = self.engine_in(&project)?;
        let interpreter = self.ask(&engine, program, &["-I", "-c", PYTHON_QUESTION])?;
        let requirements = &packages.requirements;
        requirements.check_python(interpreter.version.rsplit(' ').next().unwrap_or_default())?;
        let access = ManagerAccess {
            hosts: index.hosts(),
            paths: [real_path(&uv)].into_iter().chain(index.folders()).collect(),
            secrets: Vec::new(),
            passwords: index.passwords(),
        };
        let python = path_text(&interpreter.executable)?;
        let uv = path_text(&uv)?;
        write(&project, "requirements.in", &format!("{}{}", index.lines(), requirements.python_lines()))?;
        let common = [
            "--no-build",
            "--no-sources",
            "--no-config",
            "--no-python-downloads",
            "--system-certs",
            "--no-cache",
            "--no-progress",
            "--python",
            python,
        ];
        let compile = [
            &[uv, "pip", "compile", "requirements.in", "--universal", "--generate-hashes"][..],
            &["--no-header", "--no-annotate", "--output-file", "lock.txt"],
            &common,
        ]
        .concat();
        self.call(&engine, &compile, &access)?;
        let lock = requirements.restrict_lock(&read(&project, "lock.txt")?)?;
        write(&project, "requirements.txt", &format!("{}{lock}", index.lines()))?;
        let install = [
            &[uv, "pip", "install", "--requirement", "requirements.txt", "--require-hashes", "--no-deps"][..],
            &["--link-mode", "copy", "--target", TARGET],
            &common,
        ]
        .concat();
        self.call(&engine, &install, &access)?;
        self.compile_modules(&engine, &work, &lock, &interpreter);
        let names = lock.lines().map(|line| line.split(" --hash=").next().unwrap_or(line).trim().to_owned());
        let stored = work.publish(packages, &interpreter, (lock.clone(), names.collect()), TARGET)?;
        Ok((index.addresses(), stored))
    }

    /// Compiles modules to bytecode, which Python could not write later; what does not compile stays as it is. The compiler runs
    /// nothing, and without a network.
    fn compile_modules(
        &self,
        engine: &Engine,
        work: &Preparation,
        lock: &str,
        interpreter: &InstalledInterpreter,
    ) {
        let (from, to) =
            (work.project().join(TARGET), work.destination(Ecosystem::Python, lock, interpreter));
        let (Ok(python), Ok(from), Ok(to)) =
            (path_text(&interpreter.executable), path_text(&from), path_text(&to))
        else {
            return;
        };
        let compile = [
            &[python, "-I", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"][..],
            &["-s", from, "-p", to, TARGET],
        ]
        .concat();
        if let Err(error) = self.call(engine, &compile, &ManagerAccess::default()) {
            tracing::debug!("not all modules were compiled: {error}");
        }
    }

    fn install_npm(
        &self,
        packages: &PackageRequest,
        program: &Path,
        registry: &NpmRegistry,
    ) -> Result<(Vec<String>, StoredPackages)> {
        let npm = self.manager("npm", "https://docs.npmjs.com/downloading-and-installing-node-js-and-npm")?;
        let Some(manifest) = packages.requirements.npm_manifest() else {
            return Err(SkillError::new(ErrorKind::Unavailable, "there is no package.json"));
        };
        let work = begin_preparation(&packages.store)?;
        let project = work.project();
        let engine = self.engine_in(&project)?;
        let interpreter = self.ask(&engine, program, &["-p", NODE_QUESTION])?;
        let (configuration, secrets) = registry.configuration();
        let npm_files = real_path(&npm).parent().and_then(Path::parent).map(Path::to_owned);
        let certificates = registry.certificates().map(|file| real_path(file));
        let access = ManagerAccess {
            hosts: registry.hosts(),
            paths: npm_files.into_iter().chain(certificates).collect(),
            passwords: secrets.iter().map(|(_, value)| value.clone()).collect(),
            secrets,
        };
        write(&project, "npmrc", &configuration)?;
        write(&project, "no-npmrc", "")?;
        std::fs::create_dir(project.join(TARGET))
            .map_err(|source| SkillError::io("failed to make a folder for packages", source))?;
        let (package, lock) = (format!("{TARGET}/package.json"), format!("{TARGET}/package-lock.json"));
        write(&project, &package, &manifest.package)?;
        let common = [
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=error",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
            "--userconfig=npmrc",
            "--globalconfig=no-npmrc",
            "--cache=npm-cache",
            "--prefix",
            TARGET,
        ];
        let npm = path_text(&npm)?;
        if let Some(text) = &manifest.lock {
            write(&project, &lock, text)?;
        } else {
            let make = [&[npm, "install", "--package-lock-only"][..], &common].concat();
            self.call(&engine, &make, &access)?;
            check_new_lock(&read(&project, &lock)?)?;
        }
        let install = [&[npm, "ci", "--no-bin-links", "--omit=dev"][..], &common].concat();
        self.call(&engine, &install, &access)?;
        let text = read(&project, &lock)?;
        let names = locked_names(&text);
        let stored = work.publish(packages, &interpreter, (text, names), TARGET)?;
        Ok((registry.addresses(), stored))
    }

    /// The package manager on `PATH`, which comes neither from the project nor from the skill.
    fn manager(&self, name: &str, source: &str) -> Result<PathBuf> {
        runtimes::find_program(name, self.untrusted).ok_or_else(|| {
            SkillError::new(
                ErrorKind::Unavailable,
                format!("packages are prepared by {name}, which is not on PATH"),
            )
            .with_help(format!("install {name} ({source}), outside of the project"))
        })
    }

    /// An engine without skills, whose project is this folder.
    fn engine_in(&self, project: &Path) -> Result<Engine> {
        let limits = Limits::default()
            .timeout(MAX_TIME)
            .file_size(MAX_FILE_SIZE)
            .memory(MAX_MEMORY)
            .output(MAX_OUTPUT)
            .on_output(OutputPolicy::Truncate);
        Engine::builder(project)
            .roots(Roots::empty())
            .limits(limits)
            .sandbox_mode(SandboxMode::Required)
            .services(self.engine.script_cache.services().clone())
            .build()
    }

    /// What an interpreter says about itself, in a sandbox.
    fn ask(&self, engine: &Engine, program: &Path, arguments: &[&str]) -> Result<InstalledInterpreter> {
        let shown = path_text(program)?;
        let said = self.call(engine, &[&[shown][..], arguments].concat(), &ManagerAccess::default())?;
        let answer: Option<[String; 3]> =
            said.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok());
        let unknown = || {
            let sentence = format!("{shown} does not say which version it is");
            SkillError::new(ErrorKind::Unavailable, sentence)
        };
        let [executable, version, platform] = answer.ok_or_else(unknown)?;
        let executable = PathBuf::from(executable);
        if !executable.is_absolute() || !executable.is_file() || self.untrusted.may_control(&executable) {
            return Err(unknown());
        }
        Ok(InstalledInterpreter { program: program.to_owned(), executable, version, platform })
    }

    /// Runs a command in the sandbox, in the folder of the preparation. Returns what it wrote to standard output.
    fn call(&self, engine: &Engine, command: &[&str], access: &ManagerAccess) -> Result<String> {
        let (program, arguments) = command.split_first().unwrap_or((&"", &[]));
        let mut invocation = Invocation::command(*program, arguments.iter().copied())
            .cancel(self.request.cancel.clone())
            .grant(Permission::write(".")?);
        if !access.hosts.is_empty() {
            for (host, port) in &access.hosts {
                invocation = invocation.grant(net_permission(host, *port)?);
            }
            for permission in &self.request.grants {
                invocation = invocation.grant(permission.clone());
            }
        }
        let mut paths = access.paths.clone();
        for name in CERTIFICATE_VARIABLES {
            let Some(value) = std::env::var(name).ok().filter(|value| Path::new(value).is_absolute()) else {
                continue;
            };
            if self.untrusted.may_control(Path::new(&value)) {
                continue;
            }
            paths.push(real_path(Path::new(&value)));
            invocation = invocation.env(name, value).grant(Permission::env(name)?);
        }
        for (name, value) in &access.secrets {
            invocation = invocation.secret_env(name, value).grant(Permission::env(name)?);
        }
        let hosts = access.hosts.iter().map(|(host, _)| host.clone()).collect();
        let invocation = invocation.with_facts(|facts| {
            facts.readable_paths = paths.into();
            facts.configured_hosts = hosts;
        });
        let outcome = engine.run(invocation);
        self.request.cancel.check()?;
        let succeeded = outcome.process.as_ref().is_some_and(|process| process.exit_code == Some(0));
        match outcome.process {
            Some(process) if succeeded => Ok(process.stdout),
            _ => Err(self.failure(command, outcome, access)),
        }
    }

    /// The error of a command that failed, with what it said.
    fn failure(&self, command: &[&str], outcome: Outcome, access: &ManagerAccess) -> SkillError {
        let name =
            Path::new(command.first().unwrap_or(&"")).file_name().unwrap_or_default().to_string_lossy();
        let error = outcome.result.err();
        let Some(process) = outcome.process.filter(|process| process.exit_code.is_some()) else {
            return error
                .unwrap_or_else(|| SkillError::new(ErrorKind::Unavailable, format!("{name} was stopped")));
        };
        let is_silent = process.stderr.trim().is_empty();
        let mut said = if is_silent { process.stdout } else { process.stderr };
        for password in access.passwords.iter().filter(|password| !password.is_empty()) {
            said = said.replace(password.as_str(), "****");
        }
        let sentence = format!(
            "the packages of {} were not prepared: {name} ended with {}: {}",
            self.request.skill,
            process.exit_code.unwrap_or_default(),
            first_lines(&said)
        );
        let failed = SkillError::new(ErrorKind::Unavailable, sentence);
        let refused = process.network.iter().flat_map(|network| &network.refused);
        let mut recorded = refused.filter_map(|refused| {
            refused.permission.clone().map(|permission| (refused.to_string(), permission))
        });
        if let Some((host, permission)) = recorded.next().or_else(|| self.other_host(&said, access)) {
            return failed
                .with_help(format!(
                    "it tried {host}, which is not one of your registries; if one of them keeps its files there, grant {permission}"
                ))
                .with_hint(Hint::Grant(permission));
        }
        match help_for(&said) {
            Some(help) => failed.with_help(help),
            None => failed,
        }
    }

    /// Another host than the registries, and the permission for it, if the package manager could not connect to it. A port of an
    /// address that is granted with another port is closed in the network of the sandbox, where no refusal is recorded.
    fn other_host(&self, said: &str, access: &ManagerAccess) -> Option<(String, String)> {
        let (host, port) = unreached_host(said).filter(|_| !access.hosts.is_empty())?;
        let need = Access::connection(host.as_str(), port);
        let protection = PathProtection::default();
        let is_granted = self.request.grants.iter().any(|permission| permission.covers(&need, &protection));
        if is_granted || access.hosts.contains(&(host.clone(), port)) {
            return None;
        }
        Some((format!("{host}:{port}"), net_permission(&host, port).ok()?.to_string()))
    }
}

/// The permission for one port of a host.
fn net_permission(host: &str, port: u16) -> Result<Permission> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Permission::net(&format!("{host}:{port}"))
}

/// The address that a package manager could not connect to, in the words of uv and npm.
fn unreached_host(said: &str) -> Option<(String, u16)> {
    ["error sending request for url (", "request to "].iter().find_map(|words| {
        let (_, rest) = said.split_once(words)?;
        host_of(rest.split([')', ' ', ',']).next()?)
    })
}

/// What a person can do about the usual reasons.
fn help_for(said: &str) -> Option<&'static str> {
    const HELP: [(&[&str], &str); 4] = [
        (
            &["no usable wheels", "building source distributions is disabled", "no wheels with a matching"],
            "the package has no wheel for this Python and platform, and its own code is not run to build one; choose another version \
             or package, or install it yourself in a virtual environment",
        ),
        (
            &["Hash mismatch", "EINTEGRITY"],
            "the file of the registry is not the one that is locked; do not use it before you know why",
        ),
        (
            &["not in sync", "Missing:", "Invalid: lock file"],
            "package-lock.json does not match package.json; the author updates it by `npm install`",
        ),
        (
            &[
                "error sending request",
                "Connection refused",
                "ECONNREFUSED",
                "ENOTFOUND",
                "ECONNRESET",
                "timed out",
            ],
            "a registry of your configuration does not answer; try it again when it does",
        ),
    ];
    HELP.iter().find(|(words, _)| words.iter().any(|word| said.contains(word))).map(|(_, help)| *help)
}

/// What a package manager said first, which is the reason; on one line.
fn first_lines(said: &str) -> String {
    let lines = said.lines().map(|line| line.trim().trim_start_matches("npm error").trim());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("A complete log"));
    let lines: Vec<&str> = lines.take(MAX_LOG_LINES).collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).take(MAX_LOG_CHARS).collect()
}

/// The packages in the lock of npm that are installed.
fn locked_names(lock: &str) -> Vec<String> {
    let lock: Value = serde_json::from_str(lock).unwrap_or_default();
    let packages = lock.get("packages").and_then(Value::as_object).into_iter().flatten();
    let installed =
        packages.filter(|(path, package)| !path.is_empty() && package.get("dev") != Some(&Value::Bool(true)));
    let named = installed.filter_map(|(path, package)| {
        let (_, name) = path.rsplit_once("node_modules/")?;
        Some(format!("{name}@{}", package.get("version")?.as_str()?))
    });
    named.collect()
}

fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        SkillError::new(ErrorKind::Unavailable, format!("the path {} is not UTF-8", path.display()))
    })
}

fn write(project: &Path, name: &str, text: &str) -> Result<()> {
    std::fs::write(project.join(name), text)
        .map_err(|source| SkillError::io(format_args!("failed to write {name}"), source))
}

fn read(project: &Path, name: &str) -> Result<String> {
    std::fs::read_to_string(project.join(name))
        .map_err(|source| SkillError::io(format_args!("failed to read {name}"), source))
}
