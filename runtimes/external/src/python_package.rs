//! Starts a Python script as a module of its folder where it imports from that folder, as `python -m scripts.main` does.

use std::path::Path;

/// Starts the module named by the second argument with the skill's folder, the first one, and the folder of the script, the third
/// one, on the module path. The script then has its own arguments after its path.
///
/// Python puts the working directory first on that path, which is the project: no module comes from there.
const BOOTSTRAP: &str = "import sys; sys.path[:] = [path for path in sys.path if path]; import os, runpy; \
                         folder, module, script = sys.argv[1:4]; del sys.argv[1:4]; \
                         sys.path[0:0] = [folder, os.path.dirname(script)]; \
                         runpy.run_module(module, run_name='__main__', alter_sys=True)";

/// The arguments of the interpreter before the path of the script, which is at `path` in the skill's folder; `None` if the script
/// is started by its path alone.
pub(super) fn module_arguments(
    program: &Path,
    source: &[u8],
    folder: &Path,
    path: &str,
) -> Option<[String; 4]> {
    let name = program.file_name()?.to_str()?;
    let (package, _) = path.split_once('/')?;
    let module = path.strip_suffix(".py")?.replace('/', ".");
    if !name.starts_with("python") || !module.split('.').all(is_identifier) {
        return None;
    }
    let imports_own_package =
        String::from_utf8_lossy(source).lines().any(|line| imports_from(line.trim(), package));
    let folder = folder.to_str()?;
    imports_own_package.then(|| ["-c".into(), BOOTSTRAP.into(), folder.to_owned(), module])
}

/// Whether a line imports by a relative name, or from the package.
fn imports_from(line: &str, package: &str) -> bool {
    let is_package = |rest: &str| rest.strip_prefix(package).is_some_and(|rest| rest.starts_with(['.', ' ']));
    match line.strip_prefix("from ").map(str::trim_start) {
        Some(rest) => rest.contains("import") && (rest.starts_with('.') || is_package(rest)),
        None => line
            .strip_prefix("import ")
            .is_some_and(|names| names.split(',').any(|name| is_package(name.trim_start()))),
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_script_that_imports_from_its_folder_is_started_as_a_module() {
        let module = |program: &str, source: &str, path: &str| {
            module_arguments(Path::new(program), source.as_bytes(), Path::new("/skill"), path)
                .map(|[.., module]| module)
        };
        for source in [
            "from scripts.util import x",
            "import os\nimport scripts.util",
            "from scripts import util",
            "try:\n    from .util import x\nexcept ImportError: pass",
            "from . import util",
            "import os, scripts.util as u",
        ] {
            assert_eq!(
                module("/usr/bin/python3", source, "scripts/main.py").as_deref(),
                Some("scripts.main"),
                "{source}"
            );
            assert_eq!(module("/usr/bin/node", source, "scripts/main.py"), None);
        }
        for (source, path) in [
            ("import util", "scripts/main.py"),
            ("from scriptslib import x", "scripts/main.py"),
            ("# see scripts.util", "scripts/main.py"),
            ("from .util import x", "main.py"),
            ("from .util import x", "scripts/my-script.py"),
            ("from .util import x", "scripts/main"),
            ("from .util import x", "a b/main.py"),
        ] {
            assert_eq!(module("/usr/bin/python3", source, path), None, "{source} in {path}");
        }
        assert_eq!(
            module("python3.12", "from ..x import y", "src/app/main.py").as_deref(),
            Some("src.app.main")
        );
    }
}
