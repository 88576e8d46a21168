//! Writes the clients of the host API to a temporary folder of the engine: a Python module, a Node module, a command.
//!
//! ```text
//! metier-y8Fd2q/python/metier.py            found by PYTHONPATH, after the script's own folder
//!               node/metier/index.js        found by NODE_PATH, after every node_modules
//!               node/register.cjs           preloaded by NODE_OPTIONS: ES modules do not use NODE_PATH, and some modules find less
//!               node/handler.mjs            started in place of a module that exports a handler
//!               bin/metier -> the program   found by PATH, before another metier
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, lstat, openat, statat};
use serde_json::{Value, json};

use super::request;
use metier_core::host::FileId;
use metier_core::host::OPEN_BY_NAME;
use metier_core::host::temp_dirs::PrivateTempDir;
use metier_sandbox::{HOST_API_FD, LaunchRequest};

/// Path in the folder, and text. `{{functions}}` is replaced by the table of functions: JSON in a string literal that is valid in
/// every language.
const CLIENT_FILES: [(&str, &str); 10] = [
    ("python/metier.py", include_str!("metier.py")),
    ("node/metier/index.js", include_str!("metier.js")),
    ("node/metier/index.mjs", include_str!("metier.mjs")),
    ("node/metier/package.json", r#"{"name": "metier", "type": "commonjs", "main": "index.js"}"#),
    (PRELOADED_MODULE, include_str!("register.cjs")),
    ("node/package_search.cjs", include_str!("package_search.cjs")),
    ("node/hooks.mjs", include_str!("hooks.mjs")),
    (EMPTY_TSCONFIG, "{}\n"),
    (HANDLER_PROGRAM, include_str!("handler.mjs")),
    ("node/handler_hooks.mjs", include_str!("handler_hooks.mjs")),
];

/// What every process and thread of Node loads first.
const PRELOADED_MODULE: &str = "node/register.cjs";

/// The settings for TypeScript of a skill that takes none from the project.
const EMPTY_TSCONFIG: &str = "node/tsconfig.json";

/// The program of Node that calls the handler of a module.
const HANDLER_PROGRAM: &str = "node/handler.mjs";

/// The command `metier` in scripts of a program that is not its own helper program. Another one on `PATH` may be of another version.
const REFUSING_COMMAND: &str = "#!/bin/sh
echo 'metier: the program that runs this script cannot be called by `metier ctx`: its main does not begin with \
metier::helper_main(), and it has no other helper program' >&2
exit 3
";

/// The folders, outer ones first.
const CLIENT_DIRS: [&str; 4] = ["python", "node", "node/metier", "bin"];

/// The clients of one engine. They are written when the first script starts, and removed with the engine.
#[derive(Default)]
pub(crate) struct ApiClients(Mutex<Option<ClientDir>>);

struct ClientDir {
    temp_dir: PrivateTempDir,
    program: Option<PathBuf>,
    /// The folder, held open.
    opened: OwnedFd,
    /// The stamps of all folders and files when they were written.
    stamps: Vec<FileStamp>,
}

/// What a change cannot leave as it was: device and inode number, mode, owner, and the time of the last change of any of them.
type FileStamp = (FileId, (u32, u32), (i128, i128));

impl ApiClients {
    /// Gives a sandboxed script access to the clients and the number of the host API descriptor. `program` is called when the
    /// clients are written. It returns a program whose `main` begins with `helper_main`; without one the
    /// command `metier` says why it does not work. The clients are not inside the `avoided` folders.
    pub(crate) fn add_to_request(
        &self,
        request: &mut LaunchRequest,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<()> {
        self.with_dir(program, avoided, |clients| clients.add_to_request(request))
    }

    /// The variables by which ES modules in Node find the client and prepared packages. With a skill and projects, the modules of the skill
    /// find no packages in the projects, in any process of Node that the script starts.
    pub(crate) fn node_variables(
        &self,
        own_packages: Option<(&Path, &[PathBuf])>,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<Vec<(&'static str, OsString)>> {
        let mut variables = Vec::new();
        self.with_dir(program, avoided, |clients| {
            variables.push(("NODE_OPTIONS", preload_option(&clients.path(PRELOADED_MODULE))));
            if let Some((skill, projects)) = own_packages {
                // Node replaces what is not UTF-8 in paths, too.
                let names: Vec<_> = projects.iter().map(|project| project.to_string_lossy()).collect();
                let boundary = json!({"skill": skill.to_string_lossy(), "projects": names});
                variables.push(("METIER_NODE_BOUNDARY", boundary.to_string().into()));
                // `tsx` takes the places of packages from the tsconfig.json of its working directory.
                variables.push(("TSX_TSCONFIG_PATH", clients.path(EMPTY_TSCONFIG).into()));
            }
        })?;
        Ok(variables)
    }

    /// The path of the program that calls the handler of a module: its arguments are a description of the skill and the module.
    pub(crate) fn handler_program(
        &self,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<PathBuf> {
        let mut path = PathBuf::new();
        self.with_dir(program, avoided, |clients| path = clients.path(HANDLER_PROGRAM))?;
        Ok(path)
    }

    /// Lets an unsandboxed script import the modules, whose functions fail with the reason that it cannot call the host.
    pub(crate) fn add_modules_to(&self, command: &mut Command, program: impl FnOnce() -> Option<PathBuf>) {
        // If the modules cannot be written, the import fails.
        let use_clients = |clients: &ClientDir| {
            command.envs(clients.module_variables());
        };
        self.with_dir(program, &[], use_clients).ok();
    }

    fn with_dir(
        &self,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
        work: impl FnOnce(&ClientDir),
    ) -> io::Result<()> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(match &mut *clients {
            Some(clients) if clients.is_intact() && clients.is_outside(avoided) => clients,
            // There are none yet, or another program changed or removed them.
            gone => gone.insert(ClientDir::new(program(), avoided)?),
        });
        Ok(())
    }
}

impl ClientDir {
    fn new(program: Option<PathBuf>, avoided: &[&Path]) -> io::Result<Self> {
        let folder = PrivateTempDir::outside(avoided)?;
        for name in CLIENT_DIRS {
            DirBuilder::new().mode(0o700).create(folder.path().join(name))?;
        }
        let functions = Value::from(request::function_table().to_string()).to_string();
        for (name, text) in CLIENT_FILES {
            fs::write(folder.path().join(name), text.replace("{{functions}}", &functions))?;
        }
        let program = program.filter(|program| program.is_file());
        let command = folder.path().join("bin/metier");
        if let Some(program) = &program {
            symlink(program, command)?;
        } else {
            fs::write(&command, REFUSING_COMMAND)?;
            fs::set_permissions(&command, fs::Permissions::from_mode(0o700))?;
        }
        let opened = openat(CWD, folder.path(), OPEN_BY_NAME | OFlags::CLOEXEC, Mode::empty())?;
        let stamps = file_stamps(folder.path(), &opened)?;
        Ok(Self { temp_dir: folder, program, opened, stamps })
    }

    /// Whether everything is as it was written. In a sandbox a script cannot change the files, but it may be able to change their
    /// modes and give other users access.
    fn is_intact(&self) -> bool {
        file_stamps(self.temp_dir.path(), &self.opened).is_ok_and(|stamps| stamps == self.stamps)
    }

    fn is_outside(&self, avoided: &[&Path]) -> bool {
        !avoided.iter().any(|folder| self.temp_dir.path().starts_with(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp_dir.path().join(name)
    }

    /// The variables by which interpreters find the modules.
    fn module_variables(&self) -> [(&'static str, PathBuf); 2] {
        [("PYTHONPATH", self.path("python")), ("NODE_PATH", self.path("node"))]
    }

    fn add_to_request(&self, request: &mut LaunchRequest) {
        let files = &mut request.sandbox.files;
        files.read.push(self.temp_dir.path().into());
        files.read.extend(self.program.iter().map(Into::into));
        request.cleanup_dirs.push(self.temp_dir.path().into());
        let mut set = |name: &str, value: OsString| {
            request.environment.retain(|(known, _)| known != name);
            request.environment.push((name.into(), value));
        };
        set("METIER_API_FD", HOST_API_FD.to_string().into());
        for (name, folder) in self.module_variables() {
            set(name, folder.into());
        }
        if let Some((_, path)) = request.environment.iter_mut().find(|(name, _)| name == "PATH") {
            *path = prepend_to_path(&self.path("bin"), path);
        }
    }
}

impl Drop for ClientDir {
    /// A script may have changed the modes so that the folders cannot be removed.
    fn drop(&mut self) {
        for name in [""].iter().chain(&CLIENT_DIRS) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o700)).ok();
        }
    }
}

/// The stamps of all folders and files: of what is at the path of the folder, and of what is in the folder that is open. That of a
/// folder changes with every entry that is added or removed.
fn file_stamps(folder: &Path, opened: &OwnedFd) -> io::Result<Vec<FileStamp>> {
    let stamp = |found: Stat| {
        let changed = (found.st_ctime.into(), found.st_ctime_nsec.into());
        (FileId::from_stat(&found), (found.st_mode, found.st_uid), changed)
    };
    let names = CLIENT_DIRS.into_iter().chain(CLIENT_FILES.map(|(name, _)| name));
    let inner = names.map(|name| statat(opened, name, AtFlags::SYMLINK_NOFOLLOW));
    std::iter::once(lstat(folder)).chain(inner).map(|found| Ok(stamp(found?))).collect()
}

/// Whether Node runs this source and it imports the client as an ES module does.
pub(crate) fn imports_client(program: &Path, source: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["from", "import", "from ", "import "];
    let is_node = program.file_name().is_some_and(|name| name == "node" || name == "nodejs");
    let has = |text: &str| source.windows(text.len()).any(|part| part == text.as_bytes());
    let written = |quote: char| WORDS.iter().any(|word| has(&format!("{word}{quote}metier{quote}")));
    is_node && (written('\'') || written('"') || has("import('metier')") || has("import(\"metier\")"))
}

/// The option by which Node preloads a module, quoted as in `NODE_OPTIONS`.
fn preload_option(path: &Path) -> OsString {
    let mut option = b"--require \"".to_vec();
    for byte in path.as_os_str().as_encoded_bytes() {
        if matches!(byte, b'"' | b'\\') {
            option.push(b'\\');
        }
        option.push(*byte);
    }
    option.push(b'"');
    OsString::from_vec(option)
}

fn prepend_to_path(folder: &Path, path: &OsStr) -> OsString {
    let mut all = folder.as_os_str().to_owned();
    all.push(":");
    all.push(path);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_of_node_that_import_the_client_get_a_hint_about_it() {
        let node = Path::new("/usr/bin/node");
        for source in [
            "import {ctx} from 'metier';",
            "import {ctx}from\"metier\"",
            "import 'metier'",
            "await import('metier')",
        ] {
            assert!(imports_client(node, source.as_bytes()), "{source}");
            assert!(!imports_client(Path::new("/usr/bin/deno"), source.as_bytes()));
        }
        for source in
            ["", "const {ctx} = require('metier')", "import x from 'metier-x'", "from 'metiers'", "metier"]
        {
            assert!(!imports_client(node, source.as_bytes()), "{source}");
        }
    }

    #[test]
    fn nobody_but_the_user_gets_to_the_clients() {
        let mode =
            |folder: &ClientDir| fs::metadata(folder.temp_dir.path()).unwrap().permissions().mode() & 0o777;
        ApiClients::default().with_dir(|| None, &[], |written| assert_eq!(mode(written), 0o700)).unwrap();
    }

    #[test]
    fn node_reads_any_path_of_the_module_that_it_preloads() {
        let option = preload_option(Path::new("/tmp/a b\"c\\/é.cjs"));
        assert_eq!(option, "--require \"/tmp/a b\\\"c\\\\/é.cjs\"");
    }
}
