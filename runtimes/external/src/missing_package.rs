//! Recognises that a script failed because a package of its language is not installed.

use std::path::Path;

use crate::hints::install_command::{install_advice, package_of_failed_install};
use crate::local_module::{has_module, has_node_module, is_common_module, is_common_scope, is_source_folder};
use crate::permission_hint::Help;
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

/// How many packages of one script are named.
const MAX_PACKAGES: usize = 16;

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
    let advice = install_advice(output)?;
    Some(match (advice.ecosystem, advice.file) {
        (_, Some(file)) if advice.packages.is_empty() => file_help(file, packages),
        (Ecosystem::Python, _) => advised_python_help(&advice.packages, packages, user_help),
        (Ecosystem::Npm, _) => advised_npm_help(&advice.packages, packages),
    })
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

/// The help for packages of npm. One of a scope that may be a stranger's comes first, without the others: its help says so.
fn advised_npm_help(names: &[&str], packages: Option<&SkillPackages>) -> Help {
    let foreign = names.iter().find_map(|name| Some((*name, foreign_scope(name, packages)?)));
    match foreign {
        Some((name, scope)) => (foreign_scope_help(name, scope), None),
        None => npm_help(names, packages),
    }
}

/// The scope of a package that is not declared and whose scope is not one that much is written for.
fn foreign_scope<'p>(package: &'p str, packages: Option<&SkillPackages>) -> Option<&'p str> {
    let (scope, _) = package.split_once('/').filter(|(scope, _)| scope.starts_with('@'))?;
    let is_declared = packages.is_some_and(|packages| packages.declares(package));
    (!is_declared && !is_common_scope(scope)).then_some(scope)
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

/// What is known of the modules of a run.
pub(super) struct ModuleSearch<'a> {
    /// The folders in which the script may have modules of its own.
    pub(super) folders: &'a [&'a Path],
    /// What its skill says about packages, where they can be prepared.
    pub(super) packages: Option<&'a SkillPackages>,
    /// The help for a module of Python that the user has installed for all programs.
    pub(super) user_help: &'a dyn Fn(&str) -> Option<Help>,
    /// That for one that lies beside the skill.
    pub(super) neighbour_help: &'a dyn Fn(&str) -> Option<Help>,
    /// That for a file beside the skill to which a path of Node leads.
    pub(super) neighbour_file_help: &'a dyn Fn(&str) -> Option<Help>,
    /// The modules of Python that the script imports and its interpreter does not have.
    pub(super) missing_imports: &'a dyn Fn() -> Vec<String>,
}

/// How an interpreter says that a module is missing.
struct MissingModule {
    before: &'static str,
    after: &'static str,
    kind: ModuleKind,
}

enum ModuleKind {
    Python,
    Npm,
    /// What the module is, what separates the parts of its name, of which only some name the package, and how it is installed.
    Other {
        name: &'static str,
        separator: &'static str,
        parts: usize,
        install: &'static str,
    },
}

const MISSING_MODULES: [MissingModule; 8] = [
    MissingModule { before: "ModuleNotFoundError: No module named '", after: "'", kind: ModuleKind::Python },
    MissingModule { before: "Cannot find module '", after: "'", kind: ModuleKind::Npm },
    MissingModule { before: "Cannot find package '", after: "'", kind: ModuleKind::Npm },
    MissingModule { before: "Cannot find module \"", after: "\"", kind: ModuleKind::Npm },
    MissingModule { before: "Cannot find package \"", after: "\"", kind: ModuleKind::Npm },
    MissingModule {
        before: "Can't locate ",
        after: ".pm in @INC",
        kind: ModuleKind::Other {
            name: "Perl module",
            separator: "::",
            parts: usize::MAX,
            install: "install it for the perl that is first on PATH",
        },
    },
    MissingModule {
        before: "cannot load such file -- ",
        after: " (LoadError)",
        kind: ModuleKind::Other {
            name: "Ruby library",
            separator: "/",
            parts: 1,
            install: "install its gem for the ruby that is first on PATH",
        },
    },
    MissingModule {
        before: "there is no package called ‘",
        after: "’",
        kind: ModuleKind::Other {
            name: "R package",
            separator: "/",
            parts: 1,
            install: "install it for the R that is first on PATH",
        },
    },
];

/// The help for a script that failed with this line; `None` if it misses no package.
pub(super) fn missing_package_help(error_line: &str, search: &ModuleSearch<'_>) -> Option<Help> {
    MISSING_MODULES.iter().find_map(|rule| {
        let (_, rest) = error_line.split_once(rule.before)?;
        let (module, _) = rest.split_once(rule.after)?;
        match &rule.kind {
            ModuleKind::Python => python_package(module, search),
            ModuleKind::Npm => node_package(module, search),
            ModuleKind::Other { name, separator, parts, install } => {
                let named: Vec<&str> = module.split('/').take(*parts).collect();
                let named = named.iter().all(|part| is_package_name(part)).then(|| named.join(separator))?;
                let text = format!(
                    "the script says that it needs the {name} {named}; if it should have it, {install}"
                );
                Some((text, None))
            }
        }
    })
}

fn python_package(module: &str, search: &ModuleSearch<'_>) -> Option<Help> {
    let module = module.split('.').next().filter(|name| is_package_name(name))?;
    let is_own = |module: &str| search.folders.iter().any(|folder| has_module(folder, module));
    if is_own(module) {
        return None;
    }
    let needs = format!("the script says that it needs the Python package {}", shown_package(module));
    if let Some((help, hint)) = (search.user_help)(module) {
        return Some((format!("{needs}, which is among your own; if it should have it, {help}"), hint));
    }
    if let Some(help) = (search.neighbour_help)(module) {
        return Some(help);
    }
    let is_declared = |module: &str| search.packages.is_some_and(|packages| packages.declares(module));
    let is_known =
        |module: &str| package_of(module) != module || is_declared(module) || is_common_module(module);
    if !is_known(module) {
        return Some((left_behind_help(module), None));
    }
    // What else it imports would be missing in the next run.
    let mut modules = vec![module.to_owned()];
    let is_other = |other: &String| other != module && is_known(other) && !is_own(other);
    modules.extend((search.missing_imports)().into_iter().filter(is_other).take(MAX_PACKAGES - 1));
    let packages: Vec<&str> = modules.iter().map(|module| package_of(module)).collect();
    let needs = match &modules[..] {
        [_] => needs,
        all => {
            let shown: Vec<String> = all.iter().map(|module| shown_package(module)).collect();
            format!("the script needs the Python packages {}", shown.join(", "))
        }
    };
    Some(python_help(&needs, &packages, search.packages))
}

/// The package that has this module.
fn package_of(module: &str) -> &str {
    PYTHON_PACKAGES.iter().find(|(known, _)| *known == module).map_or(module, |(_, package)| package)
}

fn shown_package(module: &str) -> String {
    let package = package_of(module);
    if package == module { module.to_owned() } else { format!("{package} (module {module})") }
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

fn node_package(name: &str, search: &ModuleSearch<'_>) -> Option<Help> {
    if name.starts_with("../") {
        return (search.neighbour_file_help)(name);
    }
    let parts = if name.starts_with('@') { 2 } else { 1 };
    let package: Vec<&str> = name.split('/').take(parts).collect();
    let is_package = package.len() == parts
        && !name.contains(':')
        && package.iter().all(|part| is_package_name(part.trim_start_matches('@')));
    let package = is_package.then(|| package.join("/"))?;
    if search.folders.iter().any(|folder| has_node_module(folder, &package)) {
        let text = format!(
            "the script asks Node for the package {package}, and {package} is a file or folder of the author's here: Node finds it by a path \
             that begins with ./ or ../"
        );
        return Some((text, None));
    }
    if let Some(scope) = foreign_scope(&package, search.packages) {
        return Some((foreign_scope_help(&package, scope), None));
    }
    let is_declared = || search.packages.is_some_and(|packages| packages.declares(&package));
    if is_source_folder(&package) && !is_declared() {
        return Some((left_behind_folder_help(&package), None));
    }
    Some(npm_help(&[&package], search.packages))
}

/// The help for a package of a scope that belongs to the author in a registry of theirs, and perhaps to a stranger in the public one.
fn foreign_scope_help(package: &str, scope: &str) -> String {
    format!(
        "the script says that it needs the npm package {package}; in the registry that you use the scope {scope} may belong to somebody other \
         than the skill's author; only if you know the package there, add it to the dependencies of package.json in the folder of the skill \
         and prepare it"
    )
}

/// The help for a path from the author's root that a bundler resolves and Node takes for a package.
fn left_behind_folder_help(folder: &str) -> String {
    format!(
        "the script asks Node for the package {folder}, which is more likely a folder of the author's that was left behind; if it is, add it to \
         the folder of the skill and import it by a path that begins with ./ or ../"
    )
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

fn is_package_name(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(is_name) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search<'a>(folders: &'a [&'a Path]) -> ModuleSearch<'a> {
        ModuleSearch {
            folders,
            packages: None,
            user_help: &|_| None,
            neighbour_help: &|_| None,
            neighbour_file_help: &|_| None,
            missing_imports: &Vec::new,
        }
    }

    fn help(line: &str) -> Option<String> {
        missing_package_help(line, &search(&[])).map(|(help, _)| help)
    }

    #[test]
    fn what_lies_in_the_folder_of_the_skill_is_no_package_of_npm() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("lib")).unwrap();
        std::fs::create_dir_all(folder.path().join("scripts/@own/words")).unwrap();
        std::fs::write(folder.path().join("scripts/helpers.mjs"), "").unwrap();
        let folders = [folder.path()];
        let help = |module: &str| {
            let line = format!("Error: Cannot find module '{module}'");
            missing_package_help(&line, &search(&folders)).unwrap().0
        };
        for (module, package) in
            [("lib/util", "lib"), ("lib", "lib"), ("helpers", "helpers"), ("@own/words/x", "@own/words")]
        {
            let text = help(module);
            assert!(
                text.starts_with(&format!("the script asks Node for the package {package}, and")),
                "{text}"
            );
        }
        for package in ["left-pad", "scripts2", "@types/node"] {
            let text = help(package);
            assert!(
                text.starts_with(&format!("the script says that it needs the npm package {package}")),
                "{text}"
            );
        }
    }

    #[test]
    fn packages_of_unknown_scopes_and_folders_of_the_author_are_not_suggested() {
        for package in ["@own/other", "@acme/internal-tools", "@babe1/core"] {
            let (scope, _) = package.split_once('/').unwrap();
            let text = help(&format!("Error: Cannot find module '{package}'")).unwrap();
            assert!(text.contains(&format!("the scope {scope} may belong to somebody other")), "{text}");
        }
        let said = "Cannot find package. Run: npm install left-pad @myorg/x";
        let (advised, _) = advised_package_help(said, false, None, |_| None).unwrap();
        assert!(advised.contains("the scope @myorg may belong to somebody other"), "{advised}");
        for module in ["src/util", "utils", "shared/words.js"] {
            let text =
                help(&format!("Error [ERR_MODULE_NOT_FOUND]: Cannot find package '{module}'")).unwrap();
            assert!(text.contains("a folder of the author's that was left behind"), "{text}");
        }
    }

    #[test]
    fn all_imports_that_are_missing_are_named_after_the_first_one() {
        let imports = || ["yaml", "os", "requests", "helpers", "own", "lxml"].map(str::to_owned).to_vec();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lxml.py"), "").unwrap();
        let folders = [folder.path()];
        let search = ModuleSearch { missing_imports: &imports, ..search(&folders) };
        let line = "ModuleNotFoundError: No module named 'requests'";
        let help = missing_package_help(line, &search).unwrap().0;
        assert!(
            help.starts_with("the script needs the Python packages requests, PyYAML (module yaml); if"),
            "{help}"
        );
        // A file of the author's is no reason to install what else is missing.
        let line = "ModuleNotFoundError: No module named 'helpers'";
        let help = missing_package_help(line, &search).unwrap().0;
        assert!(help.contains("if it is a file of the author's") && !help.contains("PyYAML"), "{help}");
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
            ("Error: Cannot find module '@octokit/rest/c.js'", "the npm package @octokit/rest;"),
            ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x' imported from /y", "the npm package x;"),
            (
                "Can't locate Foo/Bar.pm in @INC (you may need to install it) at -e line 1.",
                "Perl module Foo::Bar;",
            ),
            (
                "x.rb:1:in `require': cannot load such file -- nokogiri/x (LoadError)",
                "Ruby library nokogiri;",
            ),
            ("error: Cannot find package \"left-pad\" from \"/p/a.ts\"", "the npm package left-pad;"),
            ("Error in library(x) : there is no package called ‘jsonlite’", "R package jsonlite;"),
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
        let help =
            missing_package_help(line, &ModuleSearch { neighbour_help: &beside, ..search(&[]) }).unwrap().0;
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
                missing_package_help(&line, &search(&[skill.path()])).map(|(help, _)| help),
                None,
                "{own} is the skill's own"
            );
        }
    }
}
