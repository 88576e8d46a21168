//! What the README shows is what happens, and what the pages link to is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::not_run::not_run;
use crate::support::snippets::{Snippet, snippets};

const README: &str = include_str!("../README.md");
const TOOLS: &str = include_str!("../docs/tools.md");
const COMMANDS: &str = include_str!("../docs/cli.md");
const PERMISSIONS: &str = include_str!("../docs/permissions.md");
const EXAMPLE: &str = include_str!("../examples/embed.rs");
const MANIFEST: &str = include_str!("../Cargo.toml");

/// Where the command is, if this build has it; the variable is set for builds that leave it out, too.
const METIER: Option<&str> = if cfg!(all(feature = "cli", feature = "lua-runtime")) {
    option_env!("CARGO_BIN_EXE_metier")
} else {
    None
};

#[test]
fn every_snippet_is_of_a_kind_that_is_tested() {
    for snippet in snippets(README) {
        let is_tested = match snippet.language.as_str() {
            "console" | "sh" | "rust" | "toml" => snippet.path.is_none(),
            _ => snippet.path.is_some(),
        };
        assert!(is_tested, "line {}: nothing tests a block of {}", snippet.line, snippet.language);
    }
}

#[test]
fn the_terminal_answers_as_shown() {
    for page in [README, TOOLS] {
        let Some(shell) = Shell::in_a_fresh_project("the README's commands") else { return };
        let snippets = snippets(page);
        for file in snippets.iter().filter(|snippet| snippet.path.is_some()) {
            shell.write(file);
        }
        let consoles = snippets.iter().filter(|snippet| snippet.language == "console");
        let commands: Vec<_> = consoles
            .flat_map(|snippet| snippet.commands().into_iter().map(|it| (snippet.line, it)))
            .collect();
        assert!(!commands.is_empty());
        for (line, (command, expected)) in commands {
            let output = shell.run(&format!("{{ {command}\n}} 2>&1"));
            let got = String::from_utf8_lossy(&output.stdout);
            assert_eq!(got, expected, "line {line}: $ {command}");
        }
    }
}

/// The contracts in docs/tools.md that no command reads.
#[test]
fn the_contracts_of_the_page_about_tools_are_valid() {
    let pages = snippets(TOOLS);
    // What is indented is a part of a contract.
    let is_whole = |text: &str| !text.starts_with(' ');
    let contracts: Vec<_> =
        pages.iter().filter(|snippet| snippet.language == "yaml" && is_whole(&snippet.text)).collect();
    assert_eq!(contracts.len(), 2);
    for contract in contracts {
        let parsed = metier::skill::contract::parse(contract.text.as_bytes());
        assert!(parsed.diagnostics.is_empty() && parsed.contract.is_some(), "{:?}", parsed.diagnostics);
    }
}

#[test]
fn the_commands_for_a_fresh_machine_work_in_a_clone() {
    let Some(shell) = Shell::in_this_package("the README's first commands") else { return };
    let lines: Vec<String> =
        snippets_in("sh").iter().flat_map(|snippet| snippet.text.lines().map(str::to_owned)).collect();
    let commands = shell.run("bash .ci/readme-commands");
    assert_eq!(String::from_utf8_lossy(&commands.stdout).lines().collect::<Vec<_>>(), lines, "what CI runs");
    let (this, others): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| *line == "cargo test --workspace --all-features");
    assert_eq!(this.len(), 1, "the README says once how to run the tests");
    for line in others {
        let arguments =
            line.strip_prefix("cargo run -- ").unwrap_or_else(|| panic!("nothing tests `{line}`"));
        let output = shell.run(&format!("metier {arguments}"));
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["files"][0]["path"], "README.md");
    }
}

#[test]
fn the_program_that_embeds_is_the_example() {
    let shown = snippets_in("rust").remove(0).text;
    let code = EXAMPLE.split_once("\n\n").unwrap().1;
    assert_eq!(shown, code, "README.md and examples/embed.rs differ");
}

#[test]
fn the_dependency_shown_is_this_version_and_its_features_exist() {
    let shown = snippets_in("toml").remove(0).text;
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    assert!(shown.contains(&format!("metier = {{ version = \"{version}\"")), "{shown}");
    let features = shown.split_once("features = [\"").unwrap().1.split_once("\"]").unwrap().0;
    for feature in features.split("\", \"") {
        assert!(MANIFEST.contains(&format!("\n{feature} = [")), "no feature is called {feature}");
    }
}

#[test]
fn the_commands_in_the_tables_are_all_there_are() {
    let Some(shell) = Shell::in_this_package("the tables of commands") else { return };
    let help = shell.run("metier --help");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let listed = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let commands = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    let described: Vec<&str> = first_cells(section(COMMANDS, "Commands"))
        .filter_map(|cell| cell.strip_prefix("metier ")?.split(' ').next())
        .collect();
    assert_eq!(described, names, "docs/cli.md");
    let rows = section(README, "Commands").lines().filter(|line| line.starts_with("| "));
    let mut grouped: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    grouped.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(grouped, sorted, "README.md");
}

#[test]
fn the_permissions_in_the_tables_are_permissions() {
    for (table, least) in [(section(README, "Permissions"), 5), (PERMISSIONS, 13)] {
        let shown: Vec<&str> = first_cells(table).collect();
        assert!(shown.len() >= least, "{shown:?}");
        for permission in shown {
            let is_permission = permission.parse::<metier::policy::Permission>().is_ok();
            assert!(is_permission, "{permission} is not a permission");
        }
    }
}

#[test]
fn every_file_that_the_pages_link_to_is_there() {
    let pages = pages();
    assert!(pages.iter().any(|page| page.starts_with("docs/design")), "the pages were not found");
    for page in pages {
        let text = read(&page).unwrap();
        let targets =
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let is_there = match read(&linked) {
                Some(text) => part.is_empty() || headings(&text).any(|heading| heading == part),
                None => part.is_empty() && package().join(&linked).exists(),
            };
            assert!(is_there, "{} links to {target}, which is not there", page.display());
        }
    }
}

#[test]
fn every_test_that_the_page_on_compatibility_names_is_there() {
    let mut sources = Vec::new();
    for folder in ["tests", "src", "crates", "runtimes"] {
        add_sources(&package().join(folder), &mut sources);
    }
    // This file has examples of such names.
    sources.retain(|source| !source.contains("fn every_test_that_the_page_on_compatibility_names_is_there"));
    let page = read(Path::new("tests/compatibility.md")).unwrap();
    // What is in backticks is every second part.
    for name in page.split('`').skip(1).step_by(2) {
        let is_test =
            name.matches('_').count() >= 3 && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        let is_file =
            ["tests/", "src/", "crates/", "runtimes/"].iter().any(|folder| name.starts_with(folder));
        let function = format!("fn {name}(");
        let has_test = |source: &String| {
            let mut places = source.match_indices(&function);
            places.any(|(at, _)| {
                let near = source[..at].rsplit("\n\n").next().unwrap_or_default();
                near.contains("#[test]")
            })
        };
        assert!(!is_test || sources.iter().any(has_test), "there is no test {name}");
        assert!(!is_file || package().join(name).exists(), "there is no file {name}");
    }
    // Where a row names a test, some test carries the number of each acceptance case, such as AR-T08.
    let carried: Vec<String> = sources.iter().map(|source| source.replace('_', "-").to_uppercase()).collect();
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let Some((cases, tests)) = row.split_once(" | ") else { continue };
        if tests.starts_with("not ") || !tests.contains("tests/") {
            continue;
        }
        for case in acceptance_cases(cases) {
            let is_carried = |source: &String| {
                let mut places = source.match_indices(&case);
                places
                    .any(|(at, _)| !source[at + case.len()..].starts_with(|next: char| next.is_ascii_digit()))
            };
            assert!(carried.iter().any(is_carried), "no test carries {case}");
        }
    }
}

/// The cases in a cell such as `AR-01, AR-T01 to AR-T07`: those with a letter before their number.
fn acceptance_cases(cell: &str) -> Vec<String> {
    let (mut cases, mut last): (Vec<String>, Option<(&str, u32)>) = (Vec::new(), None);
    let mut is_range = false;
    for word in cell.split([' ', ',', ';', ':']) {
        let (system, digits) =
            word.split_at(word.find(|letter: char| letter.is_ascii_digit()).unwrap_or(word.len()));
        let is_case = system.ends_with("-T") || system.ends_with("-A");
        if let (true, Ok(number)) = (is_case, digits.parse::<u32>()) {
            let first = match last {
                Some((before, last)) if is_range && before == system => last + 1,
                _ => number,
            };
            let width = digits.len();
            cases.extend((first..=number).map(|number| format!("{system}{number:0width$}")));
            last = Some((system, number));
        }
        is_range = word == "to" || is_range && word.is_empty();
    }
    cases
}

#[test]
fn ranges_of_cases_have_each_of_them() {
    assert_eq!(
        acceptance_cases("AR-01, AR-T09 to AR-T11, SW-T3: x"),
        ["AR-T09", "AR-T10", "AR-T11", "SW-T3"]
    );
    assert_eq!(acceptance_cases("S7, AK-A01"), ["AK-A01"]);
}

/// Adds the text of every source file below a folder.
fn add_sources(folder: &Path, sources: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            None if path.is_dir() => add_sources(&path, sources),
            Some(ending) if ending == "rs" => sources.push(std::fs::read_to_string(&path).unwrap()),
            _ => {}
        }
    }
}

/// The README and every page beside it and in `docs/`, relative to the package.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![];
    for folder in ["", "docs", "docs/design"] {
        for entry in std::fs::read_dir(package().join(folder)).unwrap() {
            let page = Path::new(folder).join(entry.unwrap().file_name());
            if page.extension().is_some_and(|ending| ending == "md") {
                pages.push(page);
            }
        }
    }
    pages
}

fn read(file: &Path) -> Option<String> {
    std::fs::read_to_string(package().join(file)).ok()
}

/// What links call the headings of a text.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles.map(|title| {
        let kept =
            title.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    })
}

/// What stands under a heading, up to the next one of its level.
fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let rest = page.split_once(&format!("\n## {title}\n")).unwrap().1;
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// What stands in backticks in the first cell of the tables' rows.
fn first_cells(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next())
}

fn snippets_in(language: &str) -> Vec<Snippet> {
    let found: Vec<_> = snippets(README).into_iter().filter(|snippet| snippet.language == language).collect();
    assert!(!found.is_empty(), "the README has no block of {language}");
    found
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A shell in some folder, with the command on its path and a user who has no skills.
struct Shell {
    folder: PathBuf,
    home: tempfile::TempDir,
    path: std::ffi::OsString,
}

impl Shell {
    fn in_a_fresh_project(what: &str) -> Option<Self> {
        let mut shell = Self::in_this_package(what)?;
        shell.folder = shell.home.path().join("project");
        std::fs::create_dir(&shell.folder).unwrap();
        Some(shell)
    }

    fn in_this_package(what: &str) -> Option<Self> {
        let Some(metier) = METIER else {
            not_run(what, "built without cli or lua-runtime");
            return None;
        };
        let folder = Path::new(metier).parent().unwrap().to_owned();
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&inherited))).unwrap();
        Some(Self { folder: package().to_owned(), home: tempfile::tempdir().unwrap(), path })
    }

    fn write(&self, file: &Snippet) {
        let path = self.folder.join(file.path.as_ref().unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &file.text).unwrap();
    }

    fn run(&self, command: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.folder);
        shell.env_clear().env("PATH", &self.path).env("HOME", self.home.path());
        shell.output().unwrap()
    }
}
