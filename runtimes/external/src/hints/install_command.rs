//! The package that a failed script asks the user to install: many catch the error of an import and say no more than
//! `pip install NAME`.

use crate::error_line::error_line;
use crate::hints::words::{contains_any, last_lines};
use metier_packages::Ecosystem;

/// What a package manager says where it finds no package, before its name.
const FAILED_INSTALLS: [&str; 2] = [
    "ERROR: No matching distribution found for ",
    "ERROR: Could not find a version that satisfies the requirement ",
];

/// How a command begins that installs packages for scripts, and of what kind; the longer one of two first.
const INSTALL_COMMANDS: [(&str, Ecosystem); 8] = [
    ("pip install ", Ecosystem::Python),
    ("pip3 install ", Ecosystem::Python),
    ("uv add ", Ecosystem::Python),
    ("npm install ", Ecosystem::Npm),
    ("npm i ", Ecosystem::Npm),
    ("pnpm add ", Ecosystem::Npm),
    ("yarn add ", Ecosystem::Npm),
    ("bun add ", Ecosystem::Npm),
];

/// What says that the command is the answer to an import that failed, in lower case.
const REASONS: &str = "cannot import|could not import|failed to import|importerror|is needed|missing|no module named|not available|not found|\
    not installed|please install|require";

/// Words of a sentence that goes on after the command, which are no packages.
const SENTENCE_WORDS: &str =
    "a|again|and|as|before|first|for|from|if|in|into|it|on|or|the|then|to|using|with|your";

/// What says that the script can do without.
const EXCUSES: &str = "optional|for better|to enable|falling back|fallback|skipp";

/// How many packages are named.
const MAX_PACKAGES: usize = 8;

/// What a command installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Installed<'a> {
    /// Packages, as the package manager names them.
    Packages(Vec<&'a str>),
    /// What is listed in a file.
    File(&'a str),
}

/// The packages that a script of this output says it needs.
pub(crate) fn packages_to_install(output: &str) -> Option<(Ecosystem, Installed<'_>)> {
    let error = error_line(output)?;
    if output.contains("Traceback (most recent call last)") {
        // What a script wrote before an error of another kind is not why it failed.
        return advised_packages(error, error);
    }
    let lines: Vec<&str> = last_lines(output).collect();
    if lines.iter().any(|line| line.starts_with("usage: ")) {
        return None;
    }
    let advice = (0..lines.len()).filter_map(|at| {
        // The reason may stand on a line of its own, above.
        let reasons = lines[at..lines.len().min(at + 3)].join("\n");
        advised_packages(lines[at], &reasons)
    });
    joined(advice.collect())
}

/// One command of several, the last one first: of those of one kind all packages.
fn joined(commands: Vec<(Ecosystem, Installed<'_>)>) -> Option<(Ecosystem, Installed<'_>)> {
    let (kind, last) = commands.first()?.clone();
    let of_kind = commands.into_iter().rev().filter(|(ecosystem, _)| *ecosystem == kind);
    let mut names: Vec<&str> = Vec::new();
    for (_, installed) in of_kind {
        let Installed::Packages(packages) = installed else { continue };
        let is_new = |name: &&str| !names.contains(name);
        let new: Vec<&str> = packages.into_iter().filter(is_new).collect();
        names.extend(new);
    }
    names.truncate(MAX_PACKAGES);
    match last {
        Installed::Packages(_) => Some((kind, Installed::Packages(names))),
        file @ Installed::File(_) => Some((kind, file)),
    }
}

/// The package of Python that pip looked for in vain.
pub(crate) fn package_of_failed_install(output: &str) -> Option<&str> {
    let line_name =
        |line: &str| -> Option<usize> { FAILED_INSTALLS.iter().position(|start| line.starts_with(start)) };
    let line = last_lines(output).find(|line| line_name(line).is_some())?;
    package_name(&line[FAILED_INSTALLS[line_name(line)?].len()..])
}

fn advised_packages<'a>(line: &'a str, reasons: &str) -> Option<(Ecosystem, Installed<'a>)> {
    let reasons = reasons.to_ascii_lowercase();
    if !contains_any(&reasons, REASONS) || contains_any(&reasons, EXCUSES) {
        return None;
    }
    INSTALL_COMMANDS.iter().find_map(|(command, ecosystem)| {
        let (before, rest) = line.split_once(command)?;
        // Not `gopip install`.
        let is_command = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        Some((*ecosystem, installed(rest, *ecosystem)?)).filter(|_| is_command)
    })
}

/// What the rest of an install command names.
fn installed(rest: &str, ecosystem: Ecosystem) -> Option<Installed<'_>> {
    let mut words = rest.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        match option {
            "-r" | "--requirement" if ecosystem == Ecosystem::Python => {
                return file_name(words.next()?).map(Installed::File);
            }
            // No program for all projects, and no package in a folder.
            "-g" | "--global" | "-r" | "-e" => return None,
            _ => {}
        }
    }
    let words: Vec<&str> = words.take(MAX_PACKAGES).collect();
    let first = package_name(words.first()?).filter(|name| !["pip", "npm", "uv"].contains(name))?;
    // What follows may be the rest of a sentence.
    let ends_command = |word: &str| word.ends_with(['`', ')', '.', ';']);
    let end = words.iter().position(|word| ends_command(word)).map_or(words.len(), |at| at + 1);
    let others: Option<Vec<&str>> = words[1..end].iter().map(|word| further_package(word)).collect();
    let names = std::iter::once(first).chain(others.unwrap_or_default()).collect();
    Some(Installed::Packages(names))
}

fn further_package(word: &str) -> Option<&str> {
    package_name(word).filter(|name| !SENTENCE_WORDS.split('|').any(|word| word == *name))
}

/// The file of `-r FILE`, if it is a plain name or path.
fn file_name(word: &str) -> Option<&str> {
    let quotes = ['\'', '"', '`'];
    let name = word.trim_start_matches(quotes).trim_end_matches(['\'', '"', '`', ')', ';', ',', '.']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    ((1..=64).contains(&name.len()) && name.chars().all(is_plain)).then_some(name)
}

/// The name at the beginning of a requirement, with its extras: `a[b]` of `'a[b]>=1'`.
fn package_name(requirement: &str) -> Option<&str> {
    let text = requirement.trim_start_matches(['\'', '"', '`']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/@".contains(c);
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let is_extra = |c: char| is_name(c) || c == ',';
    let extras = text[length..].strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let extras = extras.filter(|(extras, _)| extras.chars().all(is_extra));
    let end = extras.map_or(length, |(extras, _)| length + extras.len() + 2);
    let name = text[..end].trim_end_matches('.');
    // A version may follow the name of an npm package.
    let name = name.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(name, |(at, _)| &name[..at]);
    // Not `git+https://…` and the like.
    let is_whole = !text[end..].starts_with(['+', ':', '/', '\\']);
    let is_package = is_whole
        && (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@')
        && (!name.contains('/') || name.starts_with('@'));
    is_package.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first package that the output asks for.
    fn package_to_install(output: &str) -> Option<(Ecosystem, &str)> {
        let (ecosystem, installed) = packages_to_install(output)?;
        match installed {
            Installed::Packages(names) => Some((ecosystem, names[0])),
            Installed::File(file) => Some((ecosystem, file)),
        }
    }

    #[test]
    fn all_packages_of_a_command_are_named_and_no_word_of_a_sentence() {
        for (text, names) in [
            ("missing. Run:\n  pip install yaml\n  pip install toml", &["yaml", "toml"][..]),
            ("missing: pip install yaml \"toml[x]>=1\"", &["yaml", "toml[x]"]),
            ("missing: run `pip install yaml toml` first", &["yaml", "toml"]),
            ("missing: pip install yaml or conda install yaml", &["yaml"]),
            ("yaml is not installed, pip install yaml and try again", &["yaml"]),
            ("missing: pip install yaml && python3 x.py", &["yaml"]),
        ] {
            let named = Installed::Packages(names.to_vec());
            assert_eq!(packages_to_install(text), Some((Ecosystem::Python, named)), "{text}");
        }
        for text in [
            "missing dependencies: pip install -r requirements.txt",
            "not found. Run `pip install -r requirements.txt`.",
        ] {
            let file = Installed::File("requirements.txt");
            assert_eq!(packages_to_install(text), Some((Ecosystem::Python, file)), "{text}");
        }
    }

    #[test]
    fn the_package_that_a_script_asks_for_is_found_in_the_words_of_many() {
        for (text, name) in [
            ("Error: yaml-x not installed. Run: pip install yaml-x", "yaml-x"),
            ("[ERROR] Yaml is required. Install with: pip install yaml", "yaml"),
            ("yaml is not installed (pip3 install yaml)", "yaml"),
            ("Missing dependency. Please run:\n  python3 -m pip install yaml>=2", "yaml"),
            ("ERROR: yaml package required. Run `uv pip install yaml`.", "yaml"),
            ("yaml not available, use: uv add yaml", "yaml"),
            ("Required packages are missing.\n\n  pip install --user \"yaml[all]\" other", "yaml[all]"),
            ("Please install yaml: pip install -U yaml", "yaml"),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\nImportError: yaml is required. pip install yaml",
                "yaml",
            ),
        ] {
            assert_eq!(package_to_install(text), Some((Ecosystem::Python, name)), "{text}");
        }
        for text in [
            "left-pad is missing. Run: npm install left-pad",
            "left-pad not found; npm i left-pad@2",
            "left-pad is not installed. Run `bun add left-pad` in a directory above this script",
            "left-pad is missing: pnpm add left-pad",
            "left-pad is missing: yarn add left-pad",
        ] {
            assert_eq!(package_to_install(text), Some((Ecosystem::Npm, "left-pad")), "{text}");
        }
        for text in [
            "ERROR: No matching distribution found for yaml",
            "ERROR: Could not find a version that satisfies the requirement yaml>=1 (from versions: none)",
        ] {
            assert_eq!(package_of_failed_install(text), Some("yaml"), "{text}");
        }
    }

    #[test]
    fn what_may_mean_something_else_asks_for_no_package() {
        for text in [
            "",
            "done",
            "all is well; pip install yaml",
            "yaml (optional) not installed: pip install yaml",
            "Traceback (most recent call last):\n  File \"a.py\"\nyaml missing, pip install yaml\nValueError: bad",
            "usage: a.py [-h] FILE\nRequires: pip install yaml\na.py: error: FILE is missing",
            "[notice] not found? To update, run: pip install --upgrade pip",
            "requirements missing: pip install -r <FILE>",
            "pnpm is missing. Run: npm install -g pnpm",
            "missing: pip install ./here",
            "missing: pip install git+https://x.com/y",
        ] {
            assert_eq!(package_to_install(text), None, "{text}");
        }
        assert_eq!(package_of_failed_install("ERROR: No such thing"), None);
    }
}
