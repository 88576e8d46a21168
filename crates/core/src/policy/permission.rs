//! A single permission, `name` or `name:scope`, and the access that it covers.

mod parse;
mod scope;

use std::fmt;

use crate::error::{ErrorContext, SkillError};
use crate::policy::path_protection::{PathProtection, is_within};
use crate::policy::tool::{plain_skill_name, plain_tool_name, split_tool_name};

pub use self::parse::parse_denied;
use self::scope::AccessPort;
pub use self::scope::{DEFAULT_PORTS, HostScope, is_host_name, normalize_secret_host};

/// A permission that a skill requests or a caller grants, such as `read`, `write:out` or `tool:search`.
///
/// Names are compared whole; `rewrite` is not `write`. Path scopes are relative to the project and cover everything below.
///
/// ```
/// # use metier_core as metier;
/// use metier::policy::Permission;
///
/// # fn main() -> metier::error::Result<()> {
/// let granted: Permission = "write:out".parse()?;
/// assert_eq!(granted.to_string(), "write:out");
/// assert!("rewrite".parse::<Permission>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Permission {
    kind: PermissionKind,
    scope: Option<String>,
}

/// The access that one call needs, to be checked against the permissions of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    kind: PermissionKind,
    target: String,
    /// Of a host.
    port: Option<AccessPort>,
    /// Of a secret that is used there and not read.
    secret_host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum PermissionKind {
    Read,
    Write,
    Exec,
    Net,
    Tool,
    Skill,
    Secret,
    Env,
    Sample,
    Shm,
    Wasi,
    State,
    Store,
    OwnFolder,
    UserPackages,
    Home,
    HomeWrite,
    Git,
}

/// The scope that may follow the colon.
#[derive(Clone, Copy)]
enum ScopeRule {
    NoScope,
    OptionalPath,
    RequiredPath,
    /// Absolute.
    OptionalFolder,
    OptionalHost,
    OptionalUnsandboxed,
    RequiredName,
    RequiredVariable,
    /// A name, or a name, `@` and a host.
    RequiredSecret,
}

/// Kind, name, rule for the scope; in the order of the enum.
const KINDS: [(PermissionKind, &str, ScopeRule); 18] = [
    (PermissionKind::Read, "read", ScopeRule::OptionalPath),
    (PermissionKind::Write, "write", ScopeRule::OptionalPath),
    (PermissionKind::Exec, "exec", ScopeRule::OptionalUnsandboxed),
    (PermissionKind::Net, "net", ScopeRule::OptionalHost),
    (PermissionKind::Tool, "tool", ScopeRule::RequiredName),
    (PermissionKind::Skill, "skill", ScopeRule::RequiredName),
    (PermissionKind::Secret, "secret", ScopeRule::RequiredSecret),
    (PermissionKind::Env, "env", ScopeRule::RequiredVariable),
    (PermissionKind::Sample, "sample", ScopeRule::NoScope),
    (PermissionKind::Shm, "shm", ScopeRule::NoScope),
    (PermissionKind::Wasi, "wasi", ScopeRule::NoScope),
    (PermissionKind::State, "state", ScopeRule::NoScope),
    (PermissionKind::Store, "store", ScopeRule::RequiredName),
    (PermissionKind::OwnFolder, "own-folder", ScopeRule::NoScope),
    (PermissionKind::UserPackages, "user-packages", ScopeRule::NoScope),
    (PermissionKind::Home, "home", ScopeRule::RequiredPath),
    (PermissionKind::HomeWrite, "home-write", ScopeRule::RequiredPath),
    (PermissionKind::Git, "git", ScopeRule::OptionalFolder),
];

/// Tool names of other clients in `allowed-tools` that clearly mean one of our permissions.
const CLIENT_TOOL_NAMES: [(&str, PermissionKind); 9] = [
    ("Read", PermissionKind::Read),
    ("Grep", PermissionKind::Read),
    ("Glob", PermissionKind::Read),
    ("LS", PermissionKind::Read),
    ("Write", PermissionKind::Write),
    ("Edit", PermissionKind::Write),
    ("MultiEdit", PermissionKind::Write),
    ("Bash", PermissionKind::Exec),
    ("WebFetch", PermissionKind::Net),
];

const UNSANDBOXED: &str = "unsandboxed";

impl Permission {
    /// Reads the project, except protected paths: every skill has this permission.
    pub const READ: Self = Self { kind: PermissionKind::Read, scope: None };
    /// Changes files of the project, except protected paths.
    pub const WRITE: Self = Self { kind: PermissionKind::Write, scope: None };
    /// Connects to any host, except those that must be named.
    pub const NET: Self = Self { kind: PermissionKind::Net, scope: None };
    /// Asks the model of the embedder.
    pub const SAMPLE: Self = Self { kind: PermissionKind::Sample, scope: None };
    /// Runs a process: skills may request it, and nothing requires it, since processes run in a sandbox. `exec:unsandboxed` runs
    /// them without one.
    pub const EXEC: Self = Self { kind: PermissionKind::Exec, scope: None };
    /// Keeps values from one run in a project to the next, and of external scripts their home folder.
    pub const STATE: Self = Self { kind: PermissionKind::State, scope: None };
    /// Changes the skill's own folder, for external scripts.
    pub const OWN_FOLDER: Self = Self { kind: PermissionKind::OwnFolder, scope: None };
    /// Imports the Python packages that the user installed for all programs (`pip install --user`), in external scripts.
    pub const USER_PACKAGES: Self = Self { kind: PermissionKind::UserPackages, scope: None };

    /// Reading this path, relative to the project, and everything below it, also where it is protected; `usage` for a path that
    /// leads out of the project.
    pub fn read(path: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Read, path)
    }

    /// Changing this path, relative to the project, and everything below it, also where it is protected; `usage` for a path that
    /// leads out of the project.
    pub fn write(path: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Write, path)
    }

    /// Reading this path of the user's home folder and everything below it, at the same path of the script's own home, in external
    /// scripts; `usage` for the home folder itself and for a path that leads out of it.
    pub fn home(path: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Home, path)
    }

    /// Reading and changing this path of the user's home folder and everything below it; else as [`home`](Self::home). A run is
    /// refused what programs of the user execute or obey by themselves, such as `.bashrc`, and folders that hold such a file.
    pub fn home_write(path: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::HomeWrite, path)
    }

    /// Reading the repository of the project, where it lies outside of the project in this folder or below it, in external scripts;
    /// `usage` for a path that is not absolute.
    pub fn git(folder: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Git, folder)
    }

    /// Connecting to this host, by name or address; with `:PORT`, to that port only (`[V6]:PORT` for an IPv6 address). `*.` and a
    /// domain are all hosts below it. Without a port, a process reaches the ports 80 and 443, and `ctx.http` every port.
    pub fn net(host: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Net, host)
    }

    /// Calling the embedder's tool of that name, or with `SKILL.TOOL` that of a skill.
    pub fn tool(name: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Tool, name)
    }

    /// Running the skill of that name.
    pub fn skill(name: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Skill, name)
    }

    /// Reading the secret of that name. `NAME@HOST` uses it in requests to that host, and does not read it; a host with `:PORT` means
    /// that port, and one without the port 443.
    pub fn secret(name: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Secret, name)
    }

    /// Keeping values in the store of that name, which the skills of the project share.
    pub fn store(name: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Store, name)
    }

    /// Being given the environment variable of that name, in external scripts; `usage` for a name that no variable has, and for
    /// one that decides what runs, such as `PATH` or `LD_PRELOAD`.
    pub fn env(name: &str) -> Result<Self, SkillError> {
        Self::scoped(PermissionKind::Env, name)
    }

    fn scoped(kind: PermissionKind, scope: &str) -> Result<Self, SkillError> {
        format!("{}:{scope}", kind.name()).parse()
    }

    /// The word before the colon: `read`, `write`, `exec`, `net`, `tool`, `skill`, `secret`, `env`, `sample`, `shm`, `wasi`,
    /// `state`, `store`, `own-folder`, `user-packages`, `home`, `home-write` or `git`.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// What follows the colon: a path relative to the project (empty for the project itself) or to the home folder, an absolute
    /// path for `git`, a host, or a name; `unsandboxed` for `exec`. `None` if the permission has no scope and covers all of its kind.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Whether it permits more than reading the project and running in a sandbox.
    pub(super) fn does_more_than_read(&self) -> bool {
        use PermissionKind::{Exec, Git, Read, Wasi};
        !matches!(self.kind, Read | Wasi | Exec | Git) || self.applies_without_request()
    }

    /// Whether a caller's grant of it applies to every skill of the run without a request: `exec:unsandboxed`.
    pub(super) fn applies_without_request(&self) -> bool {
        self.kind == PermissionKind::Exec && self.is_scoped()
    }

    /// Whether the sandbox of a process enforces it from the start, so that nobody can be asked about it later. Leaving the sandbox is nothing that an approver could permit.
    pub(super) fn is_enforced_on_processes(&self) -> bool {
        use PermissionKind::{Env, Home, HomeWrite, Net, OwnFolder, Read, Shm, State, UserPackages, Write};
        let kinds = [Read, Write, Shm, Env, Net, State, OwnFolder, UserPackages, Home, HomeWrite];
        kinds.contains(&self.kind)
    }

    /// Whether both have the same kind.
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        self.kind == other.kind
    }

    /// The path below which this permission lets a script write; the root is the empty path.
    pub(super) fn writable_path(&self) -> Option<&str> {
        (self.kind == PermissionKind::Write).then(|| self.scope.as_deref().unwrap_or_default())
    }

    /// The path of the home folder below which this permission lets a script read.
    pub(super) fn home_path(&self) -> Option<&str> {
        let reads = matches!(self.kind, PermissionKind::Home | PermissionKind::HomeWrite);
        self.scope.as_deref().filter(|_| reads)
    }

    /// The path of the home folder below which this permission lets a script write.
    pub(super) fn writable_home_path(&self) -> Option<&str> {
        self.scope.as_deref().filter(|_| self.kind == PermissionKind::HomeWrite)
    }

    /// Whether denying this permission forbids the access. Unlike [`Permission::covers`], it includes protected paths, and access to
    /// any host, which includes each single one.
    pub(super) fn forbids(&self, need: &Access) -> bool {
        if (self.kind, need.kind) == (PermissionKind::Skill, PermissionKind::Tool) {
            // Without a skill there are none of its tools.
            let skill = split_tool_name(&need.target).map(|(skill, _)| plain_skill_name(skill));
            return skill.is_some() && self.scope == skill;
        }
        // Who may not read may not change either.
        let is_same = self.kind == need.kind
            || (self.kind, need.kind) == (PermissionKind::Home, PermissionKind::HomeWrite);
        is_same
            && match (self.kind.scope_rule(), &self.scope) {
                (_, None) => true,
                (ScopeRule::OptionalPath | ScopeRule::RequiredPath, Some(scope)) => {
                    is_within(&need.target, scope)
                }
                (ScopeRule::OptionalFolder, Some(scope)) => is_below(&need.target, scope),
                (ScopeRule::OptionalHost, Some(_)) => {
                    need.target.is_empty()
                        || self.host_scope().is_some_and(|scope| scope.forbids(&need.target, need.port))
                }
                // Whatever root and version a call names besides.
                (_, Some(name)) if self.kind == PermissionKind::Skill => {
                    *name == plain_skill_name(&need.target)
                }
                (_, Some(scope)) if self.kind == PermissionKind::Secret => {
                    scope::covers_secret(scope, &need.target, need.secret_host.as_deref())
                }
                (_, Some(name)) if self.kind == PermissionKind::Tool => {
                    *name == need.target || plain_tool_name(name) == plain_tool_name(&need.target)
                }
                (_, Some(name)) => *name == need.target,
            }
    }

    /// Whether denying this permission leaves nothing of the other one: of access to any host, denying one leaves the others.
    pub(super) fn forbids_all_of(&self, other: &Self) -> bool {
        let leaves_hosts = self.kind == PermissionKind::Net && self.is_scoped() && !other.is_scoped();
        !leaves_hosts && self.forbids(&other.as_access())
    }

    /// Whether this permission covers the access. Protected paths are covered only by a scope that is itself protected, so
    /// neither `write` nor `write:.` covers `.git`.
    pub fn covers(&self, need: &Access, protection: &PathProtection) -> bool {
        let is_same = self.kind == need.kind
            || (self.kind, need.kind) == (PermissionKind::HomeWrite, PermissionKind::Home);
        is_same
            && match (self.kind.scope_rule(), &self.scope) {
                (ScopeRule::OptionalPath, None) => !need.is_protected(protection),
                (ScopeRule::OptionalPath, Some(scope)) => {
                    is_within(&need.target, scope)
                        && (!need.is_protected(protection)
                            || need.with_target(scope).is_protected(protection))
                }
                (ScopeRule::RequiredPath, Some(scope)) => is_within(&need.target, scope),
                (ScopeRule::OptionalUnsandboxed, None) => need.target.is_empty(),
                (ScopeRule::OptionalFolder, Some(scope)) => is_below(&need.target, scope),
                (ScopeRule::OptionalHost | ScopeRule::OptionalFolder | ScopeRule::NoScope, None)
                | (ScopeRule::OptionalUnsandboxed, Some(_)) => true,
                (ScopeRule::OptionalHost, Some(_)) => {
                    self.host_scope().is_some_and(|scope| scope.covers(&need.target, need.port))
                }
                (ScopeRule::RequiredSecret, Some(scope)) => {
                    scope::covers_secret(scope, &need.target, need.secret_host.as_deref())
                }
                (_, Some(name)) => *name == need.target,
                (
                    ScopeRule::RequiredName
                    | ScopeRule::RequiredVariable
                    | ScopeRule::RequiredPath
                    | ScopeRule::RequiredSecret,
                    None,
                ) => false,
            }
    }

    /// Whether the permission names its target, as `net:example.com` does and `net` does not.
    pub(crate) fn is_scoped(&self) -> bool {
        self.scope.is_some()
    }

    /// The access that this permission names, no narrower one.
    pub(crate) fn as_access(&self) -> Access {
        if let Some(HostScope { host, port }) = self.host_scope() {
            return Access { port: port.map(AccessPort::Named), ..Access::new(self.kind, host) };
        }
        match self.secret_name_and_host() {
            Some((name, host)) => {
                Access { secret_host: host.map(str::to_owned), ..Access::new(self.kind, name) }
            }
            None => Access::new(self.kind, self.scope.clone().unwrap_or_default()),
        }
    }

    /// The host and port, where it is `net` with a scope.
    pub(crate) fn host_scope(&self) -> Option<HostScope<'_>> {
        let scope = self.scope.as_deref().filter(|_| self.kind == PermissionKind::Net)?;
        HostScope::parse(scope).ok()
    }

    /// The name of the secret and the host where it may be used, if it may not be read; `None` if it is about no secret.
    pub(crate) fn secret_name_and_host(&self) -> Option<(&str, Option<&str>)> {
        let scope = self.scope.as_deref().filter(|_| self.kind == PermissionKind::Secret)?;
        Some(scope::split_secret(scope))
    }
}

/// The permission that another client's tool name clearly means (`Bash(git:*)` is `exec`), or `None`.
pub fn client_tool_permission(tool: &str) -> Option<Permission> {
    let name = tool.split('(').next().unwrap_or(tool).trim();
    let (_, word) = CLIENT_TOOL_NAMES.into_iter().find(|(known, _)| *known == name)?;
    Some(Permission { kind: word, scope: None })
}

/// The name of the secret that a permission is about and the host where it may be used, if it may not be read; `None` if it is about no
/// secret.
pub fn secret_scope(permission: &Permission) -> Option<(&str, Option<&str>)> {
    permission.secret_name_and_host()
}

impl<'a> HostScope<'a> {
    /// That of a permission, where it is `net` with a scope.
    pub fn from_permission(permission: &'a Permission) -> Option<Self> {
        permission.host_scope()
    }
}

/// The access that a permission names, no narrower one.
impl From<&Permission> for Access {
    fn from(permission: &Permission) -> Self {
        permission.as_access()
    }
}

impl SkillError {
    /// The narrowest permission with which the access would have been permitted, if a permission was missing. Granting it does
    /// not help where the skill does not request it; the hint of the error says so.
    pub fn missing(&self) -> Option<Permission> {
        self.missing_permission()?.parse().ok()
    }
}

impl Access {
    /// The tool that is called, if one is.
    pub(super) fn tool_name(&self) -> Option<&str> {
        (self.kind == PermissionKind::Tool).then_some(&*self.target)
    }

    fn new(kind: PermissionKind, target: impl Into<String>) -> Self {
        Self { kind, target: target.into(), port: None, secret_host: None }
    }

    /// Reading `path`, relative to the project, `/`-separated, without `.` or `..`.
    pub fn read(path: impl Into<String>) -> Self {
        Self::new(PermissionKind::Read, path)
    }

    /// Changing, creating or removing `path`.
    pub fn write(path: impl Into<String>) -> Self {
        Self::new(PermissionKind::Write, path)
    }

    /// Starting a process.
    pub fn exec() -> Self {
        Self::new(PermissionKind::Exec, "")
    }

    /// Starting a process outside of any sandbox.
    pub fn exec_unsandboxed() -> Self {
        Self::new(PermissionKind::Exec, UNSANDBOXED)
    }

    /// Sharing memory with other programs under a name.
    pub fn shm() -> Self {
        Self::new(PermissionKind::Shm, "")
    }

    /// Keeping the skill's values and its home folder after the run.
    pub fn state() -> Self {
        Self::new(PermissionKind::State, "")
    }

    /// Changing the skill's own folder.
    pub fn own_folder() -> Self {
        Self::new(PermissionKind::OwnFolder, "")
    }

    /// Importing the Python packages of the user.
    pub fn user_packages() -> Self {
        Self::new(PermissionKind::UserPackages, "")
    }

    /// Reading `path` of the user's home folder, `/`-separated, without `.` or `..`.
    pub fn home(path: impl Into<String>) -> Self {
        Self::new(PermissionKind::Home, path)
    }

    /// Changing `path` of the user's home folder.
    pub fn home_write(path: impl Into<String>) -> Self {
        Self::new(PermissionKind::HomeWrite, path)
    }

    /// Reading the repository of the project in this folder outside of it, an absolute path.
    pub fn git(folder: impl Into<String>) -> Self {
        Self::new(PermissionKind::Git, folder)
    }

    /// Connecting to any host.
    pub fn network() -> Self {
        Self::net(String::new())
    }

    /// Calling the embedder's tool of that name, or with `SKILL.TOOL` that of a skill.
    pub fn tool(name: impl Into<String>) -> Self {
        Self::new(PermissionKind::Tool, name)
    }

    /// Running the skill of that name.
    pub fn skill(name: impl Into<String>) -> Self {
        Self::new(PermissionKind::Skill, name)
    }

    /// Reading the secret of that name.
    pub fn secret(name: impl Into<String>) -> Self {
        Self::new(PermissionKind::Secret, name)
    }

    /// Using the store of that name, which the skills of the project share.
    pub fn store(name: impl Into<String>) -> Self {
        Self::new(PermissionKind::Store, name)
    }

    /// Being given the environment variable of that name.
    pub fn env(name: impl Into<String>) -> Self {
        Self::new(PermissionKind::Env, name)
    }

    /// Requesting text from the model.
    pub fn sample() -> Self {
        Self::new(PermissionKind::Sample, "")
    }

    /// Connecting to that host, by name or address.
    pub fn net(host: impl Into<String>) -> Self {
        Self::new(PermissionKind::Net, host)
    }

    /// A request to that host and port, which a permission for the host without a port covers.
    pub(crate) fn url(host: impl Into<String>, port: u16) -> Self {
        Self { port: Some(AccessPort::Url(port)), ..Self::net(host) }
    }

    /// A connection of a process to that host and port, which a permission without a port covers only for the ports of the web.
    pub fn connection(host: impl Into<String>, port: u16) -> Self {
        Self { port: Some(AccessPort::Connection(port)), ..Self::net(host) }
    }

    /// Starting a WebAssembly plug-in that imports WASI: its clock and its random numbers, no files.
    pub fn wasi() -> Self {
        Self::new(PermissionKind::Wasi, "")
    }

    /// Whether only a permission that names the path covers this access.
    pub fn is_protected(&self, protection: &PathProtection) -> bool {
        match self.kind {
            PermissionKind::Read => protection.protects_read(&self.target),
            PermissionKind::Write => protection.protects_write(&self.target),
            _ => false,
        }
    }

    /// The narrowest permission that covers this access and that a person would sensibly grant.
    pub fn narrowest_permission(&self, protection: &PathProtection) -> Permission {
        let named = matches!(
            self.kind.scope_rule(),
            ScopeRule::RequiredName
                | ScopeRule::RequiredVariable
                | ScopeRule::RequiredPath
                | ScopeRule::RequiredSecret
                | ScopeRule::OptionalFolder
                | ScopeRule::OptionalHost
                | ScopeRule::OptionalUnsandboxed
        ) || self.is_protected(protection);
        let port = self.port.and_then(AccessPort::in_permission);
        let scope = (named && !self.target.is_empty()).then(|| self.scope_text(port));
        Permission { kind: self.kind, scope }
    }

    /// The scope of the permission for this port, if it is about a host.
    fn scope_text(&self, port: Option<u16>) -> String {
        match &self.secret_host {
            Some(host) => format!("{}@{host}", self.target),
            None => scope::host_scope(&self.target, port),
        }
    }

    fn with_target(&self, target: &str) -> Self {
        Self { port: self.port, ..Self::new(self.kind, target) }
    }
}

impl PermissionKind {
    fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    fn scope_rule(self) -> ScopeRule {
        KINDS[self as usize].2
    }
}

/// Whether an absolute path is this folder or lies below it.
fn is_below(path: &str, folder: &str) -> bool {
    std::path::Path::new(path).starts_with(folder)
}

/// As its name.
impl serde::Serialize for Permission {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.scope.as_deref() {
            None => Ok(()),
            // For the root, an empty scope after the colon could not be parsed again.
            Some("") => f.write_str(":."),
            Some(scope) => write!(f, ":{scope}"),
        }
    }
}

/// As a permission that names its target: `read:docs/a.md`, `sample`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        let port = self.port.and_then(AccessPort::in_permission);
        if self.target.is_empty() { Ok(()) } else { write!(f, ":{}", self.scope_text(port)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    fn covers(text: &str, need: &Access) -> bool {
        permission(text).covers(need, &PathProtection::new([".metier/skills"]))
    }

    #[test]
    fn the_table_of_words_is_in_the_order_of_the_enum() {
        for (position, (word, name, _)) in KINDS.into_iter().enumerate() {
            assert_eq!((word as usize, word.name()), (position, name));
        }
    }

    #[test]
    fn names_are_exact_and_never_substrings() {
        for text in [
            "rewrite-history",
            "writes",
            "Write",
            "write ",
            "",
            ":",
            "tool",
            "tool:",
            "sample:x",
            "exec:rm",
            "read:",
        ] {
            assert_eq!(text.parse::<Permission>().map_err(|e| e.kind()), Err(ErrorKind::Usage), "{text:?}");
        }
        assert_eq!("wrte".parse::<Permission>().unwrap_err().help(), Some("did you mean `write`?"));
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        for text in
            ["write:.", "read:./", "write:./out//a/", "net:Example.com", "tool:a:b", "exec:unsandboxed"]
        {
            assert_eq!(permission(&permission(text).to_string()), permission(text), "{text}");
        }
        assert_eq!(permission("write:./").to_string(), "write:.");
    }

    #[test]
    fn a_path_scope_covers_what_lies_below_and_nothing_beside() {
        assert!(covers("write:out", &Access::write("out/deep/a.txt")));
        assert!(covers("write:./out/", &Access::write("out")));
        assert!(!covers("write:out", &Access::write("output/a.txt")));
        assert!(!covers("write:out", &Access::read("out/a.txt")));
        for text in ["write:/etc", "write:../x", "read:a/../../b"] {
            assert!(text.parse::<Permission>().is_err(), "{text}");
        }
    }

    #[test]
    fn protected_paths_need_a_scope_that_is_itself_protected() {
        let hook = Access::write(".git/hooks/post-commit");
        assert!(!covers("write", &hook) && !covers("write:.", &hook));
        assert!(covers("write:.git", &hook) && covers("write:.git/hooks", &hook));
        assert!(!covers("read", &Access::read("sub/.env")));
        assert!(covers("read:sub/.env", &Access::read("sub/.env")));
        let script = Access::write(".metier/skills/x/SKILL.md");
        assert!(!covers("write:.metier", &script) && covers("write:.metier/skills/x", &script));
        assert!(covers("read", &Access::read(".metier/skills/x/SKILL.md")));
    }

    #[test]
    fn a_folder_of_git_covers_the_repositories_in_it_and_none_beside() {
        let app = Access::git("/srv/app/.git");
        assert!(covers("git", &app) && covers("git:/srv/app/.git", &app) && covers("git:/srv//./app/", &app));
        for text in ["git:/srv/app/.git/x", "git:/srv/ap", "git:/srv/App/.git", "read", "home:srv/app"] {
            assert!(!covers(text, &app), "{text}");
        }
        for text in ["git:", "git:app", "git:/", "git:/srv/../etc", "git:~/app"] {
            assert!(text.parse::<Permission>().is_err(), "{text}");
        }
        assert_eq!(
            app.narrowest_permission(&PathProtection::default()),
            Permission::git("/srv/app/.git").unwrap()
        );
    }

    #[test]
    fn a_name_is_covered_whole_and_never_by_its_beginning_or_end() {
        let hosts =
            [Access::net("evil-example.com"), Access::net("example.com.evil"), Access::net("a.example.com")];
        assert!(covers("net:example.com", &Access::net("EXAMPLE.com")));
        assert!(hosts.iter().all(|host| !covers("net:example.com", host) && covers("net", host)));
        for (text, same, others) in [
            (
                "tool:search",
                Access::tool("search"),
                [Access::tool("search_all"), Access::tool("sea"), Access::tool("x.search")],
            ),
            ("skill:a", Access::skill("a"), [Access::skill("ab"), Access::skill("A"), Access::skill("x:a")]),
            (
                "secret:KEY",
                Access::secret("KEY"),
                [Access::secret("KEY2"), Access::secret("KE"), Access::secret("key")],
            ),
            (
                "store:team",
                Access::store("team"),
                [Access::store("teams"), Access::store("Team"), Access::state()],
            ),
        ] {
            assert!(covers(text, &same), "{text}");
            assert!(others.iter().all(|other| !covers(text, other)), "{text}");
        }
        assert!(!covers("tool:a", &Access::skill("a")) && !covers("skill:a", &Access::secret("a")));
        assert!(!covers("write", &Access::read("a")) && !covers("read", &Access::write("a")));
        assert!(covers("exec", &Access::exec()) && !covers("exec", &Access::exec_unsandboxed()));
        assert!(covers("exec:unsandboxed", &Access::exec_unsandboxed()));
    }

    #[test]
    fn the_remedy_answers_the_need() {
        let protection = PathProtection::default();
        for need in [Access::read(".env"), Access::write("a/b"), Access::write(".git/config"), Access::exec()]
        {
            assert!(need.narrowest_permission(&protection).covers(&need, &protection), "{need:?}");
        }
        assert_eq!(Access::write("a/b").narrowest_permission(&protection).to_string(), "write");
    }
}
