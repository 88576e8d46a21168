//! Which files of a skill may be the script that somebody means: by name, among several, and outside of `scripts/`.

use std::path::Path;

/// Of more scripts none is read: somebody has to name one.
const MAX_COMPARED_SCRIPTS: usize = 64;

/// The most that is read of a script to find what it imports, and of a text to find what it names.
pub(super) const MAX_COMPARED_BYTES: u64 = 64 << 10;

/// Of more files outside of `scripts/` only the first are looked for in the text.
const MAX_NAMED_FILES: usize = 2_000;

/// The name of a script without its folders and its extension: `outlier_detector` of `scripts/outlier_detector.py`.
pub(super) fn script_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// The scripts that somebody would start, of several: not tests, not the files that make a package of a folder, and not what the
/// others import. All of them where nothing is left, or where there are many. `source` reads at most [`MAX_COMPARED_BYTES`].
pub(super) fn startable_scripts<'a>(
    scripts: &[&'a String],
    source: impl Fn(&str) -> Option<Vec<u8>>,
) -> Vec<&'a String> {
    if scripts.len() < 2 || scripts.len() > MAX_COMPARED_SCRIPTS {
        return scripts.to_vec();
    }
    let texts: Vec<String> = scripts
        .iter()
        .map(|path| {
            source(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        })
        .collect();
    let is_startable = |at: usize| {
        let is_imported = || {
            let others = texts.iter().enumerate().filter(|(other, _)| *other != at);
            others.into_iter().any(|(_, text)| imports(text, scripts[at]))
        };
        !is_auxiliary(scripts[at]) && (starts_itself(&texts[at]) || !is_imported())
    };
    let startable: Vec<&String> =
        (0..scripts.len()).filter(|at| is_startable(*at)).map(|at| scripts[at]).collect();
    if startable.is_empty() { scripts.to_vec() } else { startable }
}

/// Whether a file by its name is a test or part of a package.
fn is_auxiliary(path: &str) -> bool {
    const NAMES: [&str; 3] = ["__init__.py", "conftest.py", "setup.py"];
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    NAMES.contains(&name)
        || stem.starts_with("test_")
        || ["_test", ".test", ".spec"].iter().any(|end| stem.ends_with(end))
}

/// Whether a script does something when it is started, and not only when it is imported.
fn starts_itself(text: &str) -> bool {
    ["__main__", "require.main", "import.meta.main"].iter().any(|sign| text.contains(sign))
}

/// Whether a text imports that script: by the words of Python, JavaScript and shells.
fn imports(text: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = script_stem(path);
    match Path::new(name).extension().and_then(|extension| extension.to_str()) {
        Some("py") => text.lines().any(|line| imports_python_module(line.trim(), stem)),
        Some("sh" | "bash" | "zsh" | "ksh") => text.lines().map(str::trim).any(|line| {
            let sourced = line.strip_prefix(". ").or_else(|| line.strip_prefix("source "));
            sourced.is_some_and(|path| path.trim_end_matches(['"', '\'']).ends_with(name))
        }),
        Some("js" | "mjs" | "cjs" | "ts" | "mts" | "cts") => {
            let is_named =
                |quote: char| [name, stem].iter().any(|module| text.contains(&format!("/{module}{quote}")));
            (text.contains("require(") || text.contains("import")) && (is_named('"') || is_named('\''))
        }
        _ => false,
    }
}

fn imports_python_module(line: &str, module: &str) -> bool {
    let last = |path: &str| path.rsplit('.').next().is_some_and(|name| name == module);
    let first_word = |text: &str| text.split([' ', ';']).next().unwrap_or_default().to_owned();
    if let Some(rest) = line.strip_prefix("from ") {
        let (package, names) = rest.split_once(" import ").unwrap_or((rest, ""));
        let is_own_package = package.starts_with('.') || package == "scripts";
        return last(package.trim())
            || is_own_package && names.split(',').any(|name| first_word(name.trim()) == module);
    }
    line.strip_prefix("import ")
        .is_some_and(|names| names.split(',').any(|name| last(&first_word(name.trim()))))
}

/// Those of these files of the skill with this name that its text names: by their path in its folder.
pub(super) fn named_in_text<'a>(skill: &str, text: &str, files: &'a [String]) -> Vec<&'a String> {
    let end = text.floor_char_boundary(usize::try_from(MAX_COMPARED_BYTES).unwrap_or(usize::MAX));
    let text = &text[..end.min(text.len())];
    files.iter().take(MAX_NAMED_FILES).filter(|path| contains_path(skill, text, path)).collect()
}

/// Whether the text contains the path, and not as part of a longer one unless that begins with the folder of the skill:
/// `./run.sh`, `{baseDir}/run.sh`, `$SKILL_DIR/run.sh`, `~/.claude/skills/NAME/run.sh`.
fn contains_path(skill: &str, text: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let is_folder_of_skill = |before: &str| {
        let variable = before.trim_end_matches(|c: char| c.is_ascii_uppercase() || c == '_');
        before.ends_with('}')
            || variable.ends_with('$')
            || before.strip_suffix('.').is_some_and(|before| !before.ends_with(['.', '/']))
            || before.strip_suffix(skill).is_some_and(|before| before.ends_with('/'))
    };
    text.match_indices(path).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + path.len()..]);
        let begins = match before.strip_suffix('/') {
            Some(before) => is_folder_of_skill(before),
            None => !before.ends_with(is_part),
        };
        begins && !after.starts_with(is_part) && !after.starts_with('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startable(scripts: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = scripts.iter().map(|(path, _)| format!("scripts/{path}")).collect();
        let source = |path: &str| {
            let found = scripts.iter().find(|(known, _)| path.strip_prefix("scripts/") == Some(known));
            found.map(|(_, text)| text.as_bytes().to_vec())
        };
        let paths: Vec<&String> = paths.iter().collect();
        let found = startable_scripts(&paths, source);
        found.into_iter().map(|path| path.trim_start_matches("scripts/").to_owned()).collect()
    }

    #[test]
    fn what_nobody_starts_is_left_out() {
        for (others, main) in [
            (
                vec![("__init__.py", ""), ("test_a.py", ""), ("a_test.py", ""), ("conftest.py", "")],
                ("a.py", ""),
            ),
            (vec![("util.py", "X = 1")], ("a.py", "import os, util")),
            (vec![("util.py", "X = 1")], ("a.py", "from scripts.util import X")),
            (vec![("util.py", "X = 1")], ("a.py", "from . import util as u")),
            (vec![("util.py", "X = 1")], ("a.py", "    from .util import (X,\n Y)")),
            (vec![("lib.js", "")], ("a.js", "const x = require('./lib')")),
            (vec![("lib.ts", ""), ("a.spec.ts", "")], ("a.ts", "import { x } from \"../scripts/lib.ts\"")),
            (vec![("lib.sh", "")], ("a.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\"")),
            (vec![("lib.sh", "")], ("a.bash", "source ./lib.sh")),
        ] {
            let scripts: Vec<(&str, &str)> = others.into_iter().chain([main]).collect();
            assert_eq!(startable(&scripts), [main.0], "{scripts:?}");
        }
    }

    #[test]
    fn many_scripts_are_not_read() {
        let paths: Vec<String> =
            (0..=MAX_COMPARED_SCRIPTS).map(|number| format!("scripts/{number}.py")).collect();
        let scripts: Vec<&String> = paths.iter().collect();
        assert_eq!(startable_scripts(&scripts, |path| panic!("{path} is read")), scripts);
    }

    #[test]
    fn what_may_be_meant_stays() {
        let both = [("a.py", "import util"), ("util.py", "if __name__ == '__main__':\n    main()")];
        assert_eq!(startable(&both), ["a.py", "util.py"], "it can be started too");
        assert_eq!(startable(&[("a.py", "import utility"), ("util.py", "")]), ["a.py", "util.py"]);
        assert_eq!(startable(&[("a.py", "import b"), ("b.py", "import a")]), ["a.py", "b.py"], "a circle");
        assert_eq!(startable(&[("test_a.py", ""), ("test_b.py", "")]), ["test_a.py", "test_b.py"]);
        assert_eq!(startable(&[("test_a.py", "")]), ["test_a.py"], "the only one");
    }

    #[test]
    fn a_file_is_named_by_its_path_and_not_by_part_of_another() {
        let files = ["convert.py", "tools/run.sh"].map(str::to_owned);
        for (text, named) in [
            ("run `python convert.py`", vec!["convert.py"]),
            ("run ./convert.py or {baseDir}/tools/run.sh.", vec!["convert.py", "tools/run.sh"]),
            ("python ~/.claude/skills/x/convert.py", vec!["convert.py"]),
            ("python $SKILL_DIR/convert.py, \"${DIR}/tools/run.sh\"", vec!["convert.py", "tools/run.sh"]),
            ("see other/convert.py, reconvert.py, ../convert.py and convert.python", vec![]),
            ("tools/run.sh/x, run.sh, index/convert.py, a/./convert.py", vec![]),
        ] {
            assert_eq!(named_in_text("x", text, &files), named, "{text}");
        }
    }
}
