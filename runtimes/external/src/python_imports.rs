//! The packages that a Python script imports and its interpreter does not have: all of them, where it failed for want of one.
//!
//! The text of the script is read, and folders are looked at; no code of the skill runs for that.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use metier_sandbox::LaunchRequest;

/// How many imports of a script are looked at, and how many entries of a folder.
const MAX_IMPORTS: usize = 64;
const MAX_ENTRIES: usize = 8192;

/// Where the interpreter of a run looks for packages.
#[derive(Clone, Debug)]
pub(crate) struct PackageFolders {
    program: PathBuf,
    /// The folders that its environment names.
    path: Option<OsString>,
    user_base: Option<OsString>,
}

impl PackageFolders {
    /// `None` for another program than Python.
    pub(crate) fn in_request(request: &LaunchRequest) -> Option<Self> {
        let program = PathBuf::from(&request.program);
        program.file_name()?.to_str().filter(|name| name.starts_with("python"))?;
        let value = |name: &str| {
            let mut all = request.environment.iter();
            all.find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        Some(Self { path: value("PYTHONPATH"), user_base: value("PYTHONUSERBASE"), program })
    }

    /// Those of these modules that are in none of the folders: those of the environment, of the interpreter, and of the one from which a
    /// virtual environment was made.
    pub(crate) fn without_present<'a>(&self, modules: Vec<&'a str>) -> Vec<&'a str> {
        let present = self.modules();
        modules.into_iter().filter(|module| !present.contains(*module)).collect()
    }

    /// The names of all modules in the folders.
    fn modules(&self) -> BTreeSet<String> {
        let prefix = |program: &Path| Some(program.parent()?.parent()?.to_owned());
        let real = self.program.canonicalize().ok();
        let own = [Some(self.program.as_path()), real.as_deref()].into_iter().flatten().filter_map(prefix);
        let prefixes = own
            .chain(self.user_base.iter().map(PathBuf::from))
            .chain(["/usr", "/usr/local"].map(PathBuf::from));
        let libraries = prefixes.flat_map(|prefix| ["lib", "lib64"].map(|name| prefix.join(name)));
        let releases = libraries.flat_map(|library| entries(&library)).filter(|path| {
            path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("python"))
        });
        let packages =
            releases.flat_map(|release| ["site-packages", "dist-packages"].map(|name| release.join(name)));
        let folders: BTreeSet<PathBuf> =
            self.path.iter().flat_map(std::env::split_paths).chain(packages).collect();
        // `yaml`, `six.py`, `_cffi_backend.cpython-311-x86_64-linux-gnu.so`
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.split('.').next()?.to_owned());
        folders.iter().flat_map(|folder| entries(folder)).filter_map(name).collect()
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    entries.map(|entry| entry.path()).collect()
}

/// The modules that a script imports at its top, by their first names: what it imports in a `try` or a function, it can do without.
pub(crate) fn imported_modules(source: &str) -> Vec<&str> {
    let mut modules: Vec<&str> = Vec::new();
    let mut in_text = false;
    for line in source.lines() {
        let quotes = line.matches("\"\"\"").count() + line.matches("'''").count();
        if !in_text && quotes == 0 {
            // Only the first statement of a line says by its indentation where it stands.
            let is_indented = line.starts_with([' ', '\t']);
            for statement in line.split(';').map(str::trim_start).filter(|_| !is_indented) {
                for module in modules_of(statement) {
                    if modules.len() < MAX_IMPORTS && !modules.contains(&module) {
                        modules.push(module);
                    }
                }
            }
        }
        in_text ^= quotes % 2 == 1;
    }
    modules
}

fn modules_of(statement: &str) -> Vec<&str> {
    let names = match (statement.strip_prefix("import "), statement.strip_prefix("from ")) {
        (Some(names), _) => names,
        (None, Some(rest)) => rest.split_once(" import ").map(|(module, _)| module).unwrap_or_default(),
        (None, None) => "",
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = |name: &'_ str| -> usize { name.find(|c| !is_part(c)).unwrap_or(name.len()) };
    let names = names.split('#').next().unwrap_or_default().split(',').map(str::trim_start);
    names.map(|name| &name[..first(name)]).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_imports_at_the_top_of_a_script_are_found() {
        let source = "#!/usr/bin/env python3\n\"\"\"Needs:\n\nimport nothing\n\"\"\"\nimport os, numpy as np, yaml.nodes  # import a\n\
                      from bs4 import BeautifulSoup\nfrom . import own\nfrom .own import x\nimport sys; import lxml\n\
                      try:\n    import rich\nexcept ImportError: pass\n# import b\nprint('import c')\nimport os\nimport\nfrom x\n";
        assert_eq!(imported_modules(source), ["os", "numpy", "yaml", "bs4", "sys", "lxml"]);
        assert!(imported_modules(&"import a1\n".repeat(1 << 16)).len() == 1);
    }

    #[test]
    fn a_module_is_present_as_a_folder_a_file_or_a_library() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("lib/python3.99/site-packages");
        std::fs::create_dir_all(packages.join("metier_a")).unwrap();
        std::fs::write(packages.join("metier_b.py"), "").unwrap();
        std::fs::write(packages.join("metier_c.cpython-399-x86_64-linux-gnu.so"), "").unwrap();
        let path = folder.path().join("path");
        std::fs::create_dir_all(path.join("metier_d")).unwrap();
        let folders = PackageFolders {
            program: folder.path().join("bin/python3"),
            path: Some(path.into()),
            user_base: None,
        };
        let all = vec!["metier_a", "metier_b", "metier_c", "metier_d", "metier_e"];
        assert_eq!(folders.without_present(all), ["metier_e"]);
    }
}
