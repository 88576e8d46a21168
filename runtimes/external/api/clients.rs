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

use super::super::super::sandbox::{API, Order};
use super::request;
use crate::host::temp_places::TempFolder;
use serde_json::Value;

/// Path in the folder, text. `{{functions}}` stands for the table of functions: JSON, quoted as a string that every language reads.
const FILES: [(&str, &str); 6] = [
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
const FOLDERS: [&str; 4] = ["python", "node", "node/metier", "bin"];

/// The clients of one engine, written when the first script is about to start, removed with the engine.
#[derive(Default)]
pub(in super::super::super) struct Clients(Mutex<Option<Written>>);

struct Written {
    folder: TempFolder,
    program: Option<PathBuf>,
    /// In the order of their names.
    marks: Vec<Mark>,
}

/// What nobody can put back who has changed anything: device and number, mode, owner, and when any of that was changed last.
type Mark = ((u64, u64), (u32, u32), (i64, i64));

impl Clients {
    /// Lets the script of an order find the API: by its number, and by a client for its language. `program` tells, when
    /// they are to be written, of one whose `main` begins with [`helper_main`](crate::helper_main); without it there is no command.
    pub(in super::super) fn offer(
        &self,
        order: &mut Order,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<()> {
        self.written(program, avoided, |written| written.offer(order))
    }

    /// What Node is to be told before a script that is an ES module and imports the client.
    pub(in super::super) fn import(
        &self,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
    ) -> io::Result<OsString> {
        let mut argument = OsString::new();
        let say = |written: &Written| {
            argument = format!("--import={}", url(&written.path("node/register.mjs"))).into();
        };
        self.written(program, avoided, say)?;
        Ok(argument)
    }

    /// Lets a plain process find the modules, which tell it that it cannot call the host.
    pub(in super::super) fn excuse(&self, command: &mut Command, program: impl FnOnce() -> Option<PathBuf>) {
        // Without them it is told by its interpreter, in other words.
        let say = |written: &Written| {
            command.envs(written.modules());
        };
        self.written(program, &[], say).ok();
    }

    fn written(
        &self,
        program: impl FnOnce() -> Option<PathBuf>,
        avoided: &[&Path],
        work: impl FnOnce(&Written),
    ) -> io::Result<()> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(match &mut *written {
            Some(written) if written.is_whole() && written.is_away_from(avoided) => written,
            // There is none yet, or somebody tidied up.
            gone => gone.insert(Written::new(program(), avoided)?),
        });
        Ok(())
    }
}

impl Written {
    fn new(program: Option<PathBuf>, avoided: &[&Path]) -> io::Result<Self> {
        let folder = TempFolder::away_from(avoided)?;
        for name in FOLDERS {
            DirBuilder::new().mode(0o700).create(folder.path().join(name))?;
        }
        let functions = Value::from(request::api().to_string()).to_string();
        for (name, text) in FILES {
            fs::write(folder.path().join(name), text.replace("{{functions}}", &functions))?;
        }
        let program = program.filter(|program| program.is_file());
        if let Some(program) = &program {
            symlink(program, folder.path().join("bin/metier"))?;
        }
        let marks = marks(folder.path())?;
        Ok(Self { folder, program, marks })
    }

    /// Whether everything is as it was written. A cage keeps a script from changing the text, and may not keep it from changing
    /// the mode, by which it would let others in.
    fn is_whole(&self) -> bool {
        marks(self.folder.path()).is_ok_and(|marks| marks == self.marks)
    }

    fn is_away_from(&self, avoided: &[&Path]) -> bool {
        !avoided.iter().any(|folder| self.folder.path().starts_with(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The variables by which interpreters find their module.
    fn modules(&self) -> [(&'static str, PathBuf); 2] {
        [("PYTHONPATH", self.path("python")), ("NODE_PATH", self.path("node"))]
    }

    fn offer(&self, order: &mut Order) {
        if let Some(files) = &mut order.cage.files {
            files.read.push(self.folder.path().into());
            files.read.extend(self.program.iter().map(Into::into));
        }
        order.leftovers.push(self.folder.path().into());
        let mut set = |name: &str, value: OsString| {
            order.environment.retain(|(known, _)| known != name);
            order.environment.push((name.into(), value));
        };
        set("METIER_API_FD", API.to_string().into());
        for (name, folder) in self.modules() {
            set(name, folder.into());
        }
        if self.program.is_some()
            && let Some((_, path)) = order.environment.iter_mut().find(|(name, _)| name == "PATH")
        {
            *path = before(&self.path("bin"), path);
        }
    }
}

impl Drop for Written {
    /// A script may have taken away the modes that removing them needs.
    fn drop(&mut self) {
        for name in [""].iter().chain(&FOLDERS) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o700)).ok();
        }
    }
}

/// The marks of all folders and files. That of a folder tells of everything that came into it or left it.
fn marks(folder: &Path) -> io::Result<Vec<Mark>> {
    let names = [""].into_iter().chain(FOLDERS).chain(FILES.map(|(name, _)| name));
    let marked = |name: &str| {
        let found = fs::symlink_metadata(folder.join(name))?;
        let changed = (found.ctime(), found.ctime_nsec());
        Ok(((found.dev(), found.ino()), (found.mode(), found.uid()), changed))
    };
    names.map(marked).collect()
}

/// Whether this is a script of Node's that imports the client as ES modules do.
pub(in super::super) fn imports(program: &Path, source: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["from", "import", "from ", "import "];
    let is_node = program.file_name().is_some_and(|name| name == "node" || name == "nodejs");
    let has = |text: &str| source.windows(text.len()).any(|part| part == text.as_bytes());
    let written = |quote: char| WORDS.iter().any(|word| has(&format!("{word}{quote}metier{quote}")));
    is_node && (written('\'') || written('"') || has("import('metier')") || has("import(\"metier\")"))
}

/// A path as a URL of a file.
fn url(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let part = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = path.as_os_str().as_encoded_bytes().iter().map(part).collect();
    format!("file://{path}")
}

fn before(folder: &Path, path: &OsStr) -> OsString {
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
            assert!(imports(node, source.as_bytes()), "{source}");
            assert!(!imports(Path::new("/usr/bin/deno"), source.as_bytes()));
        }
        for source in
            ["", "const {ctx} = require('metier')", "import x from 'metier-x'", "from 'metiers'", "metier"]
        {
            assert!(!imports(node, source.as_bytes()), "{source}");
        }
    }

    #[test]
    fn nobody_but_the_user_gets_to_the_clients() {
        let mode =
            |folder: &Written| fs::metadata(folder.folder.path()).unwrap().permissions().mode() & 0o777;
        Clients::default().written(|| None, &[], |written| assert_eq!(mode(written), 0o700)).unwrap();
    }

    #[test]
    fn a_url_spells_out_what_means_something_in_one() {
        assert_eq!(url(Path::new("/tmp/a b#c%/é.mjs")), "file:///tmp/a%20b%23c%25/%C3%A9.mjs");
    }
}
