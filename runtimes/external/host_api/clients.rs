//! The clients scripts are given, in a folder of the engine's: a Python module, a Node module, a command.
//!
//! ```text
//! metier-y8Fd2q/python/metier.py            found by PYTHONPATH, after the script's own folder
//!               node/metier/index.js        found by NODE_PATH, after every node_modules
//!               node/register.mjs           loaded first for ES modules that import it, which NODE_PATH does not help
//!               bin/metier -> the helper    found by PATH, before another metier
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::super::super::sandbox::{HOST_API_FD, LaunchRequest};
use super::request;
use crate::host::temp_dirs::PrivateTempDir;
use serde_json::Value;

/// Path in the folder, text. `{{functions}}` stands for the table of functions: JSON, quoted as a string that every language reads.
const CLIENT_FILES: [(&str, &str); 6] = [
    ("python/metier.py", include_str!("metier.py")),
    ("node/metier/index.js", include_str!("metier.js")),
    ("node/metier/index.mjs", include_str!("metier.mjs")),
    ("node/metier/package.json", r#"{"name": "metier", "type": "commonjs", "main": "index.js"}"#),
    (
        "node/register.mjs",
        "import {register} from 'node:module';\nregister('./hooks.mjs', import.meta.url);\n",
    ),
    ("node/hooks.mjs", include_str!("hooks.mjs")),
];

/// The folders in it, outer ones first.
const CLIENT_DIRS: [&str; 4] = ["python", "node", "node/metier", "bin"];

/// The clients of one engine, written when the first script is about to start, removed with the engine.
#[derive(Default)]
pub(in super::super::super) struct ApiClients(Mutex<Option<ClientDir>>);

struct ClientDir {
    temp_dir: PrivateTempDir,
    program: Option<PathBuf>,
    /// In the order of their names.
    stamps: Vec<FileStamp>,
}

/// What nobody can put back who has changed anything: device and number, mode, owner, and when any of that was changed last.
type FileStamp = ((u64, u64), (u32, u32), (i64, i64));

impl ApiClients {
    /// Lets the script of an order find the API: by its number, and by a client for its language. `program` tells, when
    /// they are to be written, of one whose `main` begins with [`helper_main`](crate::helper_main); without it there is no command.
    pub(in super::super) fn add_to_request(
        &self,
        order: &mut LaunchRequest,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<()> {
        self.with_dir(program, avoided, |written| written.add_to_request(order))
    }

    /// What Node is to be told before a script that is an ES module and imports the client.
    pub(in super::super) fn node_import_arg(
        &self,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<OsString> {
        let mut argument = OsString::new();
        let say = |written: &ClientDir| {
            argument = format!("--import={}", file_url(&written.path("node/register.mjs"))).into();
        };
        self.with_dir(program, avoided, say)?;
        Ok(argument)
    }

    /// Lets a plain process find the modules, which tell it that it cannot call the host.
    pub(in super::super) fn add_modules_to(
        &self,
        command: &mut Command,
        program: impl FnOnce() -> Option<PathBuf>,
    ) {
        // Without them it is told by its interpreter, in other words.
        let say = |written: &ClientDir| {
            command.envs(written.module_variables());
        };
        self.with_dir(program, &[], say).ok();
    }

    fn with_dir(
        &self,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
        work: impl FnOnce(&ClientDir),
    ) -> io::Result<()> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(match &mut *written {
            Some(written) if written.is_intact() && written.is_outside(avoided) => written,
            // There is none yet, or somebody tidied up.
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
        if let Some(program) = &program {
            symlink(program, folder.path().join("bin/metier"))?;
        }
        let marks = file_stamps(folder.path())?;
        Ok(Self { temp_dir: folder, program, stamps: marks })
    }

    /// Whether everything is as it was written. A sandbox keeps a script from changing the text, and may not keep it from changing
    /// the mode, by which it would let others in.
    fn is_intact(&self) -> bool {
        file_stamps(self.temp_dir.path()).is_ok_and(|marks| marks == self.stamps)
    }

    fn is_outside(&self, avoided: &[&Path]) -> bool {
        !avoided.iter().any(|folder| self.temp_dir.path().starts_with(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp_dir.path().join(name)
    }

    /// The variables by which interpreters find their module.
    fn module_variables(&self) -> [(&'static str, PathBuf); 2] {
        [("PYTHONPATH", self.path("python")), ("NODE_PATH", self.path("node"))]
    }

    fn add_to_request(&self, order: &mut LaunchRequest) {
        if let Some(files) = &mut order.sandbox.files {
            files.read.push(self.temp_dir.path().into());
            files.read.extend(self.program.iter().map(Into::into));
        }
        order.cleanup_dirs.push(self.temp_dir.path().into());
        let mut set = |name: &str, value: OsString| {
            order.environment.retain(|(known, _)| known != name);
            order.environment.push((name.into(), value));
        };
        set("METIER_API_FD", HOST_API_FD.to_string().into());
        for (name, folder) in self.module_variables() {
            set(name, folder.into());
        }
        if self.program.is_some()
            && let Some((_, path)) = order.environment.iter_mut().find(|(name, _)| name == "PATH")
        {
            *path = prepend_to_path(&self.path("bin"), path);
        }
    }
}

impl Drop for ClientDir {
    /// A script may have taken away the modes that removing them needs.
    fn drop(&mut self) {
        for name in [""].iter().chain(&CLIENT_DIRS) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o700)).ok();
        }
    }
}

/// The marks of all folders and files. That of a folder tells of everything that came into it or left it.
fn file_stamps(folder: &Path) -> io::Result<Vec<FileStamp>> {
    let names = [""].into_iter().chain(CLIENT_DIRS).chain(CLIENT_FILES.map(|(name, _)| name));
    let marked = |name: &str| {
        let found = fs::symlink_metadata(folder.join(name))?;
        let changed = (found.ctime(), found.ctime_nsec());
        Ok(((found.dev(), found.ino()), (found.mode(), found.uid()), changed))
    };
    names.map(marked).collect()
}

/// Whether this is a script of Node's that imports the client as ES modules do.
pub(in super::super) fn imports_client(program: &Path, source: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["from", "import", "from ", "import "];
    let is_node = program.file_name().is_some_and(|name| name == "node" || name == "nodejs");
    let has = |text: &str| source.windows(text.len()).any(|part| part == text.as_bytes());
    let written = |quote: char| WORDS.iter().any(|word| has(&format!("{word}{quote}metier{quote}")));
    is_node && (written('\'') || written('"') || has("import('metier')") || has("import(\"metier\")"))
}

/// A path as a URL of a file.
fn file_url(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let part = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = path.as_os_str().as_encoded_bytes().iter().map(part).collect();
    format!("file://{path}")
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
    fn only_scripts_of_node_that_import_the_client_are_told_of_it() {
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
    fn a_url_spells_out_what_means_something_in_one() {
        assert_eq!(file_url(Path::new("/tmp/a b#c%/é.mjs")), "file:///tmp/a%20b%23c%25/%C3%A9.mjs");
    }
}
