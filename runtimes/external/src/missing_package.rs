//! Recognises that a script failed because a package of its language is not installed.

use std::path::Path;

use crate::hints::install_command::{Installed, package_of_failed_install, packages_to_install};
use crate::hints::permission_hint::Help;
use crate::local_module::{has_module, is_common_module};
use metier_packages::{Ecosystem, SkillPackages};

/// Modules of Python whose package has another name.
const PYTHON_PACKAGES: [(&str, &str); 18] = [
    ("Crypto", "pycryptodome"),
    ("OpenSSL", "pyOpenSSL"),
    ("PIL", "Pillow"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("fitz", "PyMuPDF"),
    ("git", "GitPython"),
    ("jwt", "PyJWT"),
    ("magic", "python-magic"),
    ("pptx", "python-pptx"),
    ("serial", "pyserial"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("yaml", "PyYAML"),
];

/// What pip says where it may install nothing (PEP 668).
const MANAGED_INTERPRETER: &str = "error: externally-managed-environment";

/// The help for a script of this output that caught the failure of an import and asks the user to install a package. `installs` says
/// that it tried to install one, which it cannot where it has no network.
pub(super) fn advised_package_help(
    output: &str,
    installs: bool,
    packages: Option<&SkillPackages>,
    user_help: impl Fn(&str) -> Option<Help>,
) -> Option<Help> {
    if let Some(package) = package_of_failed_install(output).filter(|_| installs) {
        let before = if packages.is_some() { "; packages are prepared before the run" } else { "" };
        let needs = format!(
            "the script tried to install the Python package {package}, which a script without a network cannot{before}"
        );
        return Some(python_help(&needs, &[package], packages));
    }
    if output.contains(MANAGED_INTERPRETER) {
        let needs = "the script tried to install Python packages, which this interpreter leaves to the system's package manager; packages are \
                     prepared before the run";
        return Some(match packages {
            Some(packages) => {
                let (help, hint) = packages.file_help("requirements.txt");
                (format!("{needs}; {help}"), hint)
            }
            None => python_help(needs, &[], None),
        });
    }
    match packages_to_install(output)? {
        (Ecosystem::Python, Installed::Packages(names)) => {
            Some(advised_python_help(&names, packages, user_help))
        }
        (Ecosystem::Npm, Installed::Packages(names)) => Some(npm_help(&names, packages)),
        (_, Installed::File(file)) => Some(file_help(file, packages)),
    }
}

fn advised_python_help(
    names: &[&str],
    packages: Option<&SkillPackages>,
    user_help: impl Fn(&str) -> Option<Help>,
) -> Help {
    let own_help = |name: &str| {
        let base = name.split('[').next().unwrap_or_default();
        let known = PYTHON_PACKAGES.iter().find(|(_, known)| known.eq_ignore_ascii_case(base));
        let module = known.map_or_else(|| base.replace('-', "_"), |(module, _)| (*module).to_owned());
        user_help(&module)
    };
    match names.iter().find_map(|name| Some((*name, own_help(name)?))) {
        Some((name, (help, hint))) => {
            let needs = format!("the script says that it needs the Python package {name}");
            (format!("{needs}, which is among your own; if it should have it, {help}"), hint)
        }
        None => python_help(&needed("Python", names), names, packages),
    }
}

/// `the script says that it needs the Python packages a, b`
fn needed(language: &str, names: &[&str]) -> String {
    let packages = if names.len() == 1 { "package" } else { "packages" };
    format!("the script says that it needs the {language} {packages} {}", names.join(", "))
}

/// The help for a script that asks for what a file of requirements lists.
fn file_help(file: &str, packages: Option<&SkillPackages>) -> Help {
    let needs = format!("the script says that it needs the Python packages of {file}");
    match packages {
        Some(packages) => {
            let (help, hint) = packages.file_help(file);
            (format!("{needs}; {help}"), hint)
        }
        None => python_help(&needs, &[], None),
    }
}

/// The help for a script that failed with this line; `None` if it misses no package. `folders` are those in which the script may
/// have modules of its own; `packages` what its skill says about packages, where they can be prepared; `user_help` the help for a
/// module of Python that the user has installed for all programs, `neighbour_help` that for one that lies beside the skill.
pub(super) fn missing_package_help(
    error_line: &str,
    folders: &[&Path],
    packages: Option<&SkillPackages>,
    user_help: impl Fn(&str) -> Option<Help>,
    neighbour_help: impl Fn(&str) -> Option<Help>,
) -> Option<Help> {
    python_package(error_line, folders, packages, user_help, neighbour_help)
        .or_else(|| node_package(error_line, packages))
        .or_else(|| perl_module(error_line).map(|help| (help, None)))
        .or_else(|| ruby_library(error_line).map(|help| (help, None)))
}

fn python_package(
    line: &str,
    folders: &[&Path],
    packages: Option<&SkillPackages>,
    user_help: impl Fn(&str) -> Option<Help>,
    neighbour_help: impl Fn(&str) -> Option<Help>,
) -> Option<Help> {
    let module = quoted_after(line, "ModuleNotFoundError: No module named ")?;
    let module = module.split('.').next().filter(|name| is_package_name(name))?;
    if folders.iter().any(|folder| has_module(folder, module)) {
        return None;
    }
    let other = PYTHON_PACKAGES.iter().find(|(known, _)| *known == module).map(|(_, package)| *package);
    let shown = other.map_or_else(|| module.to_owned(), |package| format!("{package} (module {module})"));
    let needs = format!("the script says that it needs the Python package {shown}");
    if let Some((help, hint)) = user_help(module) {
        return Some((format!("{needs}, which is among your own; if it should have it, {help}"), hint));
    }
    if let Some(help) = neighbour_help(module) {
        return Some(help);
    }
    let is_declared = packages.is_some_and(|packages| packages.declares(module));
    if other.is_none() && !is_declared && !is_common_module(module) {
        return Some((left_behind_help(module), None));
    }
    Some(python_help(&needs, &[other.unwrap_or(module)], packages))
}

/// The help for a module of which a stranger may have made a package, and the author a file.
fn left_behind_help(module: &str) -> String {
    format!(
        "the script says that it needs the Python module {module}, and neither {module}.py nor a folder {module} lies in the folder of the \
         skill; if it is a file of the author's, add it there; only if you know it as a package, list that in requirements.txt and \
         prepare it"
    )
}

fn python_help(needs: &str, names: &[&str], packages: Option<&SkillPackages>) -> Help {
    if let Some(packages) = packages {
        let (help, hint) = packages.missing_help(Ecosystem::Python, names);
        return (format!("{needs}; {help}"), hint);
    }
    let them = if names.len() == 1 { "it" } else { "them" };
    let help = format!(
        "{needs}; if it should have {them}, install {them} where the python3 that is first on PATH finds {them}, such as in a virtual \
         environment; a script sees what `pip install --user` installed with the permission user-packages only"
    );
    (help, None)
}

fn node_package(line: &str, packages: Option<&SkillPackages>) -> Option<Help> {
    let name =
        quoted_after(line, "Cannot find module ").or_else(|| quoted_after(line, "Cannot find package "))?;
    let parts = if name.starts_with('@') { 2 } else { 1 };
    let package: Vec<&str> = name.split('/').take(parts).collect();
    let is_package = package.len() == parts
        && !name.contains(':')
        && package.iter().all(|part| is_package_name(part.trim_start_matches('@')));
    is_package.then(|| npm_help(&[&package.join("/")], packages))
}

fn npm_help(names: &[&str], packages: Option<&SkillPackages>) -> Help {
    let needs = needed("npm", names);
    if let Some(packages) = packages {
        let (help, hint) = packages.missing_help(Ecosystem::Npm, names);
        return (format!("{needs}; {help}"), hint);
    }
    let them = if names.len() == 1 { "it" } else { "them" };
    let help = format!(
        "if it should have {them}, install {them} in a node_modules folder of the skill or of the project"
    );
    (format!("{needs}; {help}"), None)
}

fn perl_module(line: &str) -> Option<String> {
    let (file, _) = line.strip_prefix("Can't locate ")?.split_once(".pm in @INC")?;
    let module =
        file.split('/').map(|part| is_package_name(part).then_some(part)).collect::<Option<Vec<_>>>()?;
    let module = module.join("::");
    Some(format!(
        "the script says that it needs the Perl module {module}; if it should have it, install it for the perl that is first \
         on PATH"
    ))
}

fn ruby_library(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("cannot load such file -- ")?;
    let name = rest.strip_suffix(" (LoadError)")?.split('/').next().filter(|name| is_package_name(name))?;
    Some(format!(
        "the script says that it needs the Ruby library {name}; if it should have it, install its gem for the ruby that is \
         first on PATH"
    ))
}

/// What stands in single quotes after these words.
fn quoted_after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(words)?;
    rest.strip_prefix('\'')?.split('\'').next()
}

fn is_package_name(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(is_name) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(line: &str) -> Option<String> {
        missing_package_help(line, &[], None, |_| None, |_| None).map(|(help, _)| help)
    }

    #[test]
    fn a_missing_package_is_named_in_every_language() {
        for (line, package) in [
            ("ModuleNotFoundError: No module named 'requests'", "needs the Python package requests;"),
            (
                "ModuleNotFoundError: No module named 'yaml.nodes'",
                "needs the Python package PyYAML (module yaml);",
            ),
            ("Error: Cannot find module 'left-pad'", "the npm package left-pad;"),
            ("Error: Cannot find module '@a/b/c.js'", "the npm package @a/b;"),
            ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x' imported from /y", "the npm package x;"),
            (
                "Can't locate Foo/Bar.pm in @INC (you may need to install it) at -e line 1.",
                "Perl module Foo::Bar;",
            ),
            (
                "x.rb:1:in `require': cannot load such file -- nokogiri/x (LoadError)",
                "Ruby library nokogiri;",
            ),
        ] {
            assert!(help(line).unwrap_or_default().contains(package), "{line}: {:?}", help(line));
        }
    }

    #[test]
    fn a_name_of_everybody_is_no_package_to_install() {
        for module in ["helpers", "common", "lib.tables"] {
            let help = help(&format!("ModuleNotFoundError: No module named '{module}'")).unwrap();
            assert!(help.contains("if it is a file of the author's, add it there"), "{help}");
        }
        let beside = |module: &str| Some((format!("{module}.py lies beside the skill"), None));
        let line = "ModuleNotFoundError: No module named 'common'";
        let help = missing_package_help(line, &[], None, |_| None, beside).unwrap().0;
        assert_eq!(help, "common.py lies beside the skill");
    }

    #[test]
    fn an_interpreter_that_may_install_nothing_leads_to_packages_that_are_prepared() {
        let said = "error: externally-managed-environment\n\n× This environment is externally managed\nhint: See PEP 668.";
        let (help, _) = advised_package_help(said, false, None, |_| None).unwrap();
        assert!(help.contains("packages are prepared before the run"), "{help}");
    }

    #[test]
    fn what_is_no_package_is_not_named() {
        for line in [
            "",
            "ModuleNotFoundError: No module named",
            "ModuleNotFoundError: No module named ''",
            "ModuleNotFoundError: No module named 'a b'",
            "Error: Cannot find module './x'",
            "Error: Cannot find module '/abs/x.js'",
            "Error: Cannot find module 'node:x'",
            "Error: Cannot find package '@a'",
            "Can't locate object method \"x\" via package \"Y\"",
            "FileNotFoundError: [Errno 2] No such file or directory: 'requests'",
        ] {
            assert_eq!(help(line), None, "{line}");
        }
        let skill = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(skill.path().join("scripts/helpers")).unwrap();
        std::fs::write(skill.path().join("shared.py"), "").unwrap();
        for own in ["helpers", "shared", "scripts"] {
            let line = format!("ModuleNotFoundError: No module named '{own}.x'");
            assert_eq!(
                missing_package_help(&line, &[skill.path()], None, |_| None, |_| None).map(|(help, _)| help),
                None,
                "{own} is the skill's own"
            );
        }
    }
}
