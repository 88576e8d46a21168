//! The packages that a failed script asks the user to install: many catch the error of an import and say no more than
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

/// What says that the script can do without, or that it is about something else.
const EXCUSES: &str =
    "optional|for better|to enable|falling back|fallback|skipp|[notice]| -g | --global | -e ";

/// Words of a sentence that goes on after the command, which are no packages.
const SENTENCE_WORDS: &str =
    "a|again|and|as|before|first|for|from|if|in|into|it|on|or|the|then|to|using|with|your";

/// How many packages are named.
const MAX_PACKAGES: usize = 8;

/// What commands of one kind install: packages, as the package manager names them, or what is listed in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InstallAdvice<'a> {
    pub(crate) ecosystem: Ecosystem,
    pub(crate) packages: Vec<&'a str>,
    pub(crate) file: Option<&'a str>,
}

/// What a failed script of this output says that is to be installed.
pub(crate) fn install_advice(output: &str) -> Option<InstallAdvice<'_>> {
    let error = error_line(output)?;
    // What a script wrote before an error of another kind, or below how it is used, is not why it failed.
    let has_stack = output.contains("Traceback (most recent call last)");
    let mut lines: Vec<&str> = if has_stack { vec![error] } else { last_lines(output).collect() };
    if lines.iter().any(|line| line.starts_with("usage: ")) {
        return None;
    }
    lines.reverse();
    let mut commands = lines.into_iter().filter_map(command_of).peekable();
    let ecosystem = commands.peek()?.0;
    let words = commands.filter(|(other, _)| *other == ecosystem).map(|(_, words)| words);
    let (mut packages, mut file) = (Vec::new(), None);
    for words in words {
        let of_file = words.strip_prefix("-r ").and_then(|rest| file_name(rest.split(' ').next()?));
        let new: Vec<&str> = packages_of(words).filter(|name| !packages.contains(name)).collect();
        packages.extend(new.into_iter().filter(|_| of_file.is_none()));
        file = file.or(of_file);
    }
    packages.truncate(MAX_PACKAGES);
    (!packages.is_empty() || file.is_some()).then_some(InstallAdvice { ecosystem, packages, file })
}

/// The package of Python that pip looked for in vain, wherever it says so: the stack of the script that called it follows.
pub(crate) fn package_of_failed_install(output: &str) -> Option<&str> {
    let requirement = |line| FAILED_INSTALLS.iter().find_map(|start| str::strip_prefix(line, start));
    output.lines().rev().find_map(requirement).and_then(package_name)
}

/// The kind of the command in a line, and the words after it.
fn command_of(line: &str) -> Option<(Ecosystem, &str)> {
    INSTALL_COMMANDS.iter().filter(|_| !contains_any(line, EXCUSES)).find_map(|(command, ecosystem)| {
        let (before, words) = line.split_once(command)?;
        // Not `gopip install`.
        let is_command = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        is_command.then_some((*ecosystem, words))
    })
}

/// The packages that stand after a command and its options. What follows may be the rest of a sentence.
fn packages_of(words: &str) -> impl Iterator<Item = &str> {
    let mut is_over = false;
    let words = words.split(' ').filter(|word| !word.is_empty() && !word.starts_with('-'));
    words.map_while(move |word| {
        let name = package_name(word).filter(|name| {
            !is_over && !SENTENCE_WORDS.split('|').chain(["pip", "npm", "uv"]).any(|word| word == *name)
        });
        is_over = word.ends_with(['`', ')', '.', ';']);
        name
    })
}

/// The file of `-r FILE`, if it is a plain name or path.
fn file_name(word: &str) -> Option<&str> {
    let name = word.trim_end_matches(['\'', '"', '`', ')', ';', ',', '.']);
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

    #[test]
    fn the_packages_that_a_script_asks_for_are_found_in_the_words_of_many() {
        use Ecosystem::{Npm, Python};
        for (text, ecosystem, names) in [
            ("missing. Run:\n  pip install yaml\n  pip install toml", Python, &["yaml", "toml"][..]),
            ("missing: python3 -m pip install --user yaml \"toml[x]>=1\"", Python, &["yaml", "toml[x]"]),
            ("missing: run `uv pip install yaml toml` first", Python, &["yaml", "toml"]),
            ("missing: uv add yaml or conda install yaml", Python, &["yaml"]),
            ("yaml is not installed, pip3 install yaml && python3 x.py", Python, &["yaml"]),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\nImportError: pip install yaml",
                Python,
                &["yaml"],
            ),
            ("left-pad not found; npm i left-pad@2", Npm, &["left-pad"]),
            ("left-pad is not installed. Run `bun add left-pad` above this script", Npm, &["left-pad"]),
        ] {
            let advice = InstallAdvice { ecosystem, packages: names.to_vec(), file: None };
            assert_eq!(install_advice(text), Some(advice), "{text}");
        }
        let advice = install_advice("not found. Run `pip install -r requirements.txt`.").unwrap();
        assert_eq!((advice.file, advice.packages), (Some("requirements.txt"), Vec::new()));
        for text in [
            "ERROR: No matching distribution found for yaml",
            "ERROR: Could not find a version that satisfies the requirement yaml>=1 (from versions: none)",
        ] {
            assert_eq!(package_of_failed_install(text), Some("yaml"), "{text}");
        }
        let stack = "  File \"x.py\", line 1, in <module>\n".repeat(20);
        let text = format!(
            "ERROR: No matching distribution found for cowsay\n{stack}subprocess.CalledProcessError: …\n"
        );
        assert_eq!(package_of_failed_install(&text), Some("cowsay"));
    }

    #[test]
    fn what_may_mean_something_else_asks_for_no_package() {
        for text in [
            "",
            "done",
            "yaml (optional) not installed: pip install yaml",
            "Traceback (most recent call last):\n  File \"a.py\"\npip install yaml\nValueError: bad",
            "usage: a.py [-h] FILE\nRequires: pip install yaml\na.py: error: FILE is missing",
            "[notice] not found? To update, run: pip install --upgrade pip",
            "requirements missing: pip install -r <FILE>",
            "pnpm is missing. Run: npm install -g pnpm",
            "missing: pip install ./here",
            "missing: pip install git+https://x.com/y",
        ] {
            assert_eq!(install_advice(text), None, "{text}");
        }
    }
}
