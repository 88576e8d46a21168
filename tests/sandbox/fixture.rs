//! A project, a skill with one script, and a secret beside them, on disk for the length of a case.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::error::SkillError;
use metier::host::{ProcessReport, SandboxReport};
use metier::policy::{Limits, SandboxLevel};
use metier::registry::{Root, Roots, Scope};
use serde_json::Value;

use crate::sandbox::attackers;
use crate::sandbox::case::SkipReason;
use crate::sandbox::spread_dir::SpreadDir;

/// Names the helper where the one that was built may not be run by whoever runs the tests.
pub const HELPER_VARIABLE: &str = "METIER_SANDBOX_HELPER";

/// How many times longer deadlines are, for machines that are emulated.
const SLOWNESS_VARIABLE: &str = "METIER_SANDBOX_SLOWNESS";

/// How many times longer than usual things may take.
pub fn slowness() -> u64 {
    std::env::var(SLOWNESS_VARIABLE).map_or(1, |factor| factor.parse().unwrap())
}

/// Where the files of a file server lie for a client and for the server itself, such as `/mnt/nfs=/export`.
const SERVER_VARIABLE: &str = "METIER_SANDBOX_SERVER";

/// Whether the fixtures lie on a file server.
pub fn has_server() -> bool {
    std::env::var_os(SERVER_VARIABLE).is_some()
}

/// The path of a file for the server that it lies on, by which another machine changes it.
pub fn server_side(path: &Path) -> PathBuf {
    let Ok(server) = std::env::var(SERVER_VARIABLE) else { return path.to_owned() };
    let (client, server) = server.split_once('=').unwrap();
    path.strip_prefix(client).map_or_else(|_| path.to_owned(), |rest| Path::new(server).join(rest))
}

/// Whether the server has nothing but paths for files, as that of 9p in QEMU: what comes to the path of a file is that file.
pub fn has_server_of_paths() -> bool {
    std::env::var(SERVER_VARIABLE).is_ok_and(|server| server.starts_with("/mnt/9p="))
}

/// The program that starts scripts in sandboxes; without the command line the host itself does.
pub fn helper() -> Option<PathBuf> {
    let named = std::env::var_os(HELPER_VARIABLE).map(PathBuf::from);
    // The variable is set for builds that leave the command out, too.
    let built = if cfg!(feature = "cli") { option_env!("CARGO_BIN_EXE_metier") } else { None };
    named.or_else(|| built.map(PathBuf::from))
}

/// The kernel and the sandbox level of a fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub level: SandboxLevel,
    /// The Landlock ABI of an older kernel, as which this one passes; 0 is none.
    pub landlock_abi: Option<u8>,
}

impl From<SandboxLevel> for Machine {
    fn from(level: SandboxLevel) -> Self {
        Self { level, landlock_abi: None }
    }
}

thread_local! {
    static MACHINE: Cell<Machine> =
        const { Cell::new(Machine { level: SandboxLevel::Namespaces, landlock_abi: None }) };
}

/// The machine of all fixtures that this thread makes from now on.
pub fn set_level(machine: impl Into<Machine>) {
    MACHINE.set(machine.into());
}

/// The Landlock ABI that helpers of this thread's fixtures see.
pub fn landlock_abi() -> u8 {
    let of_this_kernel = || Fixture::bash("").engine().diagnosis().sandbox.landlock_abi.unwrap_or(0);
    MACHINE.get().landlock_abi.unwrap_or_else(of_this_kernel)
}

/// Whether a script has a root of its own, in which nothing else is, because there is no Landlock.
pub fn has_mount_root() -> bool {
    level() == SandboxLevel::Namespaces && landlock_abi() == 0
}

/// Whether this path is in `/tmp` or in the home, of which a script has its own.
pub fn is_in_private_folder(path: &str) -> bool {
    let folders = ["/tmp".into()].into_iter().chain(private_home());
    level() == SandboxLevel::Namespaces
        && folders.into_iter().any(|folder| Path::new(path).starts_with(folder))
}

/// The home folder of the user, at whose path the script has one of its own, if it has.
pub fn private_home() -> Option<String> {
    let home = std::env::var("HOME").ok().filter(|_| level() == SandboxLevel::Namespaces);
    home.filter(|home| Path::new(home).canonicalize().is_ok_and(|real| real == Path::new(home)))
}

/// That of this thread's stages.
pub fn level() -> SandboxLevel {
    MACHINE.get().level
}

/// Whether this machine supports a sandbox level, and if not, what it has.
pub fn check_level(machine: impl Into<Machine>) -> Result<(), String> {
    let machine = machine.into();
    set_level(machine);
    if machine.landlock_abi.is_some() && (helper().is_none() || attackers::library(OLD_LANDLOCK).is_err()) {
        return Err("it takes the command line and a C compiler".into());
    }
    let outcome = Fixture::bash("true").run().0;
    match outcome.sandbox.map(|sandbox| sandbox.level.name()) {
        Some(got) if got == reported_level(machine.level) => Ok(()),
        Some(got) => Err(format!("this machine gives {got} only")),
        None => Err(format!("{:?}", outcome.result)),
    }
}

/// The library by which a kernel passes as an older one.
const OLD_LANDLOCK: &str = "old_landlock";

fn reported_level(level: SandboxLevel) -> &'static str {
    if level == SandboxLevel::Namespaces { "namespaces" } else { "landlock" }
}

pub struct Fixture {
    machine: Machine,
    folder: SpreadDir,
    script: String,
    grants: Vec<&'static str>,
    args: Vec<String>,
    input: Option<Value>,
    limits: Limits,
}

impl Fixture {
    /// A skill called `x` whose only script is this, under this name. The project holds `own`, the folder beside it `secret`.
    pub fn new(name: &str, text: impl AsRef<[u8]>) -> Self {
        let fixture = Self {
            machine: MACHINE.get(),
            folder: SpreadDir::new(),
            script: format!("scripts/{name}"),
            grants: Vec::new(),
            args: Vec::new(),
            input: None,
            limits: Limits::default(),
        }
        .deadline(30_000);
        fixture.write("skills/x/SKILL.md", "---\nname: x\ndescription: tries\n---\n");
        fixture.write(&format!("skills/x/{}", fixture.script), text);
        fixture.write("outside/secret", "secret\n");
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
        Self::new("run.cjs", text)
    }

    /// An attacker in C, with arguments for each time it is called.
    pub fn attacker(name: &'static str, args: &[&str]) -> Result<Self, SkipReason> {
        let program = attackers::program(name)?;
        let fixture = Self::bash(&format!("exec \"$METIER_SKILL_DIR/{name}\" \"$@\""));
        fs::copy(program, fixture.at(&format!("skills/x/{name}"))).unwrap();
        Ok(fixture.args(args))
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    pub fn grant(mut self, permission: &'static str) -> Self {
        self.grants.push(permission);
        self
    }

    pub fn input(mut self, value: impl Into<Value>) -> Self {
        self.input = Some(value.into());
        self
    }

    pub fn deadline(mut self, milliseconds: u64) -> Self {
        self.limits = self.limits.timeout(Duration::from_millis(milliseconds * slowness()));
        self
    }

    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits = self.limits.memory(bytes);
        self
    }

    pub fn output(mut self, bytes: u64) -> Self {
        self.limits = self.limits.output(bytes);
        self
    }

    /// A file of the fixture: below `project`, `outside` or `skills/x`.
    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    /// A link in the fixture.
    pub fn link(self, target: impl AsRef<Path>, path: &str) -> Self {
        symlink(target, self.at(path)).unwrap();
        self
    }

    /// Everything in it carries this in its name.
    pub fn mark(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The path of something in the fixture, as text.
    pub fn name(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    pub fn builder(&self) -> EngineBuilder {
        let roots = Roots::empty().with(Root::new(Scope::Explicit, "skills", self.at("skills")));
        let builder = Engine::builder(self.at("project")).roots(roots).sandbox_level(self.machine.level);
        match self.helper() {
            Some(program) => builder.helper(program),
            None => builder,
        }
    }

    /// The program that starts scripts, in the kernel as which this one passes.
    fn helper(&self) -> Option<PathBuf> {
        let (helper, Some(abi)) = (helper()?, self.machine.landlock_abi) else { return helper() };
        let program = self.at("older-kernel");
        if !program.exists() {
            let library = attackers::library(OLD_LANDLOCK).unwrap();
            let line = format!(
                "#!/bin/sh\nLD_PRELOAD={} METIER_TEST_LANDLOCK={abi} exec {} \"$@\"\n",
                library.display(),
                helper.display()
            );
            fs::write(&program, line).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        }
        Some(program)
    }

    pub fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    pub fn invocation(&self) -> Invocation {
        let invocation =
            Invocation::new("x").script(&self.script).args(&self.args).limits(self.limits.clone());
        let invocation = match &self.input {
            Some(input) => invocation.input(input.clone()),
            None => invocation,
        };
        self.grants.iter().fold(invocation, |invocation, grant| invocation.grant(grant.parse().unwrap()))
    }

    pub fn run(&self) -> RunResult {
        self.result(self.engine().run(self.invocation()))
    }

    /// An outcome of this fixture's.
    pub fn result(&self, outcome: Outcome) -> RunResult {
        RunResult(outcome, self.machine.level)
    }
}

/// What came of a run, for the eye of a test.
#[derive(Debug)]
pub struct RunResult(pub Outcome, SandboxLevel);

impl RunResult {
    #[track_caller]
    pub fn process(&self) -> &ProcessReport {
        self.0.process.as_ref().unwrap_or_else(|| panic!("nothing ran: {:?}", self.0.result))
    }

    #[track_caller]
    pub fn sandbox(&self) -> SandboxReport {
        self.0.sandbox.unwrap_or_else(|| panic!("nothing ran: {:?}", self.0.result))
    }

    /// Whether it belongs in namespaces.
    pub fn is_in_namespaces(&self) -> bool {
        self.1 == SandboxLevel::Namespaces
    }

    /// What it said on standard output.
    #[track_caller]
    pub fn stdout(&self) -> &str {
        &self.process().stdout
    }

    #[track_caller]
    pub fn error(&self) -> &SkillError {
        self.0.result.as_ref().expect_err("it went well")
    }

    /// It went well, in a sandbox.
    #[track_caller]
    pub fn assert_ok(&self) -> &Self {
        assert!(self.0.result.is_ok(), "{:?}\n{:?}", self.0.result, self.0.process);
        let held = self.sandbox();
        assert!(held.files && held.tree_kill && held.unix_sockets, "{held:?}");
        assert_eq!(held.level.name(), reported_level(self.1), "{held:?}");
        self
    }

    /// Whether the log of the run has a warning with these words.
    pub fn has_warning(&self, words: &str) -> bool {
        self.0
            .log
            .iter()
            .any(|line| line.level == metier::host::LogLevel::Warn && line.message.contains(words))
    }

    /// It tried `attempts` things, and each was refused in one of these ways.
    #[track_caller]
    pub fn assert_refused(&self, attempts: usize, ways: &[&str]) {
        self.assert_refused_but(attempts, ways, &[]);
    }

    /// The same, but these lines are no attempts at anything that is closed.
    #[track_caller]
    pub fn assert_refused_but(&self, attempts: usize, ways: &[&str], open: &[&str]) {
        self.assert_ok();
        let attempted: Vec<&str> = self.stdout().lines().filter(|line| line.contains(": ")).collect();
        assert_eq!(attempted.len(), attempts, "{}", self.stdout());
        let refused = |line: &str| ways.iter().any(|way| line.ends_with(&format!(": {way}")));
        let got_through: Vec<_> =
            attempted.into_iter().filter(|line| !refused(line) && !open.contains(line)).collect();
        assert!(got_through.is_empty(), "{got_through:?}");
    }

    #[track_caller]
    pub fn assert_stdout(&self, expected: &str) {
        self.assert_ok();
        assert_eq!(self.stdout(), expected, "{}", self.process().stderr);
    }
}
