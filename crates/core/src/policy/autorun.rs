//! Lists files that other programs run automatically: when a folder is opened or entered, or when somebody builds, tests or
//! installs.

/// Files and folders that a shell, an editor, an agent or git runs or obeys as soon as a folder is opened or entered, at any
/// depth. Changing them needs a permission that names them.
const RUN_ON_OPEN: [&str; 48] = [
    ".aider.conf.yml",
    ".autoenv",
    ".autoenv.zsh",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".claude",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals-2.el",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".fleet",
    ".gdbinit",
    ".gemini",
    ".gitconfig",
    ".githooks",
    ".husky",
    ".idea",
    ".kiro",
    ".lldbinit",
    ".lvimrc",
    ".mcp.json",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".nvim.lua",
    ".nvimrc",
    ".profile",
    ".roo",
    ".vimrc",
    ".vs",
    ".vscode",
    ".windsurf",
    ".zed",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "mise.local.toml",
    "mise.toml",
];

/// The same for names that are protected only in certain folders: the end of the folder's path, and the name.
const RUN_ON_OPEN_IN_FOLDER: [(&str, &str); 8] = [
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".config", "autostart"),
    (".config", "fish"),
    (".config", "git"),
    (".config", "mise"),
    (".config", "nvim"),
    (".config/systemd", "user"),
];

/// Files that run when somebody builds, tests, installs or pushes: a run that changes one logs a warning.
const RUN_ON_BUILD: [&str; 48] = [
    ".gitattributes",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".lintstagedrc",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    ".tool-versions",
    "agents.md",
    "azure-pipelines.yml",
    "binding.gyp",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
    "cargo.toml",
    "claude.md",
    "cmakelists.txt",
    "compose.yaml",
    "compose.yml",
    "composer.json",
    "configure",
    "conftest.py",
    "deno.json",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "gemfile",
    "gnumakefile",
    "go.mod",
    "gulpfile.js",
    "jenkinsfile",
    "justfile",
    "lefthook.yml",
    "makefile",
    "meson.build",
    "noxfile.py",
    "package.json",
    "pom.xml",
    "procfile",
    "pyproject.toml",
    "rakefile",
    "settings.gradle",
    "settings.gradle.kts",
    "setup.cfg",
    "setup.py",
    "sitecustomize.py",
    "tox.ini",
    "usercustomize.py",
    "vagrantfile",
];

/// Files that run on a build only in certain folders.
const RUN_ON_BUILD_IN_FOLDER: [(&str, &str); 5] = [
    (".github", "workflows"),
    (".github", "actions"),
    (".circleci", "config.yml"),
    ("gradle/wrapper", "gradle-wrapper.properties"),
    (".yarn", "releases"),
];

/// Extensions of configuration files that are programs: `vite.config.ts`.
const SCRIPT_EXTENSIONS: [&str; 8] = ["js", "cjs", "mjs", "ts", "cts", "mts", "py", "pth"];

/// Whether the last component of this path runs automatically as soon as its folder is opened or entered; `above` is empty or
/// ends with `/`.
pub(super) fn runs_on_open(above: &str, name: &str) -> bool {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    RUN_ON_OPEN.iter().any(&is)
        || RUN_ON_OPEN_IN_FOLDER.iter().any(|(folder, known)| is(known) && is_in_folder(above, folder))
}

/// The paths of all of these at the top of a project.
pub fn run_on_open_paths() -> impl Iterator<Item = String> {
    let inner = RUN_ON_OPEN_IN_FOLDER.iter().map(|(folder, name)| format!("{folder}/{name}"));
    RUN_ON_OPEN.iter().map(|name| (*name).to_owned()).chain(inner)
}

/// Whether a build, a test, an installation or a push runs what lies at this path (relative, `/`-separated).
pub fn runs_on_build(path: &str) -> bool {
    let mut start = 0;
    path.split('/').any(|name| {
        let above = path.get(..start).unwrap_or_default();
        start += name.len() + 1;
        let is_last = start > path.len();
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        let is_configuration = || {
            let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
            let is_program = SCRIPT_EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(ending));
            is_program && (ending.eq_ignore_ascii_case("pth") || is_config_name(stem))
        };
        (is_last && (RUN_ON_BUILD.iter().any(&is) || is_configuration()))
            || RUN_ON_BUILD_IN_FOLDER.iter().any(|(folder, known)| is(known) && is_in_folder(above, folder))
    })
}

/// Whether a name without its extension is one like `vite.config` or `.eslintrc`.
fn is_config_name(stem: &str) -> bool {
    let stem = stem.to_ascii_lowercase();
    stem.ends_with(".config") || (stem.starts_with('.') && stem.ends_with("rc"))
}

/// Whether `above`, which ends with `/`, is this folder at any depth.
pub(super) fn is_in_folder(above: &str, folder: &str) -> bool {
    let above = above.strip_suffix('/').unwrap_or(above);
    let Some(start) = above.len().checked_sub(folder.len()) else { return false };
    above.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(folder))
        && (start == 0 || above.as_bytes().get(start - 1) == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_known_by_its_name_wherever_it_lies() {
        for name in RUN_ON_OPEN {
            assert!(runs_on_open("", name) && runs_on_open("a/b/", &name.to_uppercase()), "{name}");
            assert!(!runs_on_open("", &format!("{name}x")), "{name}");
        }
        for (folder, name) in RUN_ON_OPEN_IN_FOLDER {
            assert!(runs_on_open(&format!("{folder}/"), name) && !runs_on_open("a/", name), "{name}");
        }
        for name in RUN_ON_BUILD {
            assert!(runs_on_build(name) && runs_on_build(&format!("a/{}", name.to_uppercase())), "{name}");
            assert!(!runs_on_build(&format!("{name}/below")) && !runs_on_open("", name), "{name}");
        }
        for path in [".github/workflows/x.yml", "vite.config.ts", "a/.eslintrc.cjs", "lib/x.pth"] {
            assert!(runs_on_build(path), "{path}");
        }
        for path in ["src/main.rs", "a.md", "config.py", "workflows/x.yml", "x.config.json", "rc.js"] {
            assert!(!runs_on_build(path) && !runs_on_open("", path), "{path}");
        }
    }
}
