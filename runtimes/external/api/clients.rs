//! The clients scripts are given, in a folder of the engine's: a Python module, a Node module, a command.
//!
//! ```text
//! metier-y8Fd2q/python/metier.py            found by PYTHONPATH, after the script's own folder
//!               node/metier/index.js        found by NODE_PATH, after every node_modules
//!               bin/metier -> the helper    found by PATH, before another metier
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

use super::super::super::sandbox::{API, Order};
use super::request;

/// Path in the folder, text. `{{functions}}` stands for the table of functions: JSON, quoted as a string that every language reads.
const FILES: [(&str, &str); 3] = [
    ("python/metier.py", include_str!("metier.py")),
    ("node/metier/index.js", include_str!("metier.js")),
    ("node/metier/package.json", r#"{"name": "metier", "type": "commonjs", "main": "index.js"}"#),
];

/// The folders in it, outer ones first.
const FOLDERS: [&str; 4] = ["python", "node", "node/metier", "bin"];

/// The clients of one engine, written when the first script is about to start, removed with the engine.
#[derive(Default)]
pub(in super::super::super) struct Clients(Mutex<Option<Written>>);

struct Written {
    folder: TempDir,
    program: Option<PathBuf>,
}

impl Clients {
    /// Lets the script of an order find the API: by its number, and by a client for its language. `program` is one whose
    /// `main` begins with [`helper_main`](crate::helper_main); without it there is no command.
    pub(in super::super) fn offer(&self, order: &mut Order, program: Option<PathBuf>) -> io::Result<()> {
        self.written(program, |written| written.offer(order))
    }

    /// Lets a plain process find the modules, which tell it that it cannot call the host.
    pub(in super::super) fn excuse(&self, command: &mut Command, program: Option<PathBuf>) {
        // Without them it is told by its interpreter, in other words.
        let say = |written: &Written| {
            command.envs(written.modules());
        };
        self.written(program, say).ok();
    }

    fn written(&self, program: Option<PathBuf>, work: impl FnOnce(&Written)) -> io::Result<()> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(match &mut *written {
            Some(written) if written.is_whole() => written,
            // There is none yet, or somebody tidied up.
            gone => gone.insert(Written::new(program)?),
        });
        Ok(())
    }
}

impl Written {
    fn new(program: Option<PathBuf>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("metier-").tempdir()?;
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
        Ok(Self { folder, program })
    }

    /// Whether everything is there and may be read. A cage keeps a script from changing the text, not from changing the mode.
    fn is_whole(&self) -> bool {
        let may = |name: &str, mode: u32| {
            fs::metadata(self.path(name)).is_ok_and(|found| found.mode() & mode == mode)
        };
        may("", 0o700)
            && FOLDERS.iter().all(|name| may(name, 0o700))
            && FILES.iter().all(|(name, _)| may(name, 0o400))
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

fn before(folder: &Path, path: &OsStr) -> OsString {
    let mut all = folder.as_os_str().to_owned();
    all.push(":");
    all.push(path);
    all
}
