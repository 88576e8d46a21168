//! What no grant lets a script change in the home folder of the user: files that programs of the user execute or obey by themselves,
//! and secrets.

use super::autorun::runs_on_open;
use super::path_protection::{PathProtection, is_within};

/// Files and folders of a home that shells, desktops, package managers and other programs execute or obey by themselves, besides those
/// that run wherever they lie. Programs on `PATH` are among them.
const RUN_BY_THEMSELVES: &[&str] = &[
    ".Rprofile",
    ".Xresources",
    ".asdf",
    ".asdfrc",
    ".bun",
    ".cabal",
    ".cargo",
    ".composer",
    ".conda",
    ".condarc",
    ".cache/deno",
    ".cache/go-build",
    ".cache/ms-playwright",
    ".cache/pip",
    ".cache/pre-commit",
    ".cache/puppeteer",
    ".cache/uv",
    ".config/Code",
    ".config/Cursor",
    ".config/JetBrains",
    ".config/VSCodium",
    ".config/alacritty",
    ".config/chromium",
    ".config/containers",
    ".config/direnv",
    ".config/emacs",
    ".config/environment.d",
    ".config/ghostty",
    ".config/google-chrome",
    ".config/hypr",
    ".config/i3",
    ".config/kitty",
    ".config/mimeapps.list",
    ".config/npm",
    ".config/nushell",
    ".config/opencode",
    ".config/pip",
    ".config/plasma-workspace",
    ".config/powershell",
    ".config/sway",
    ".config/systemd",
    ".config/tmux",
    ".config/uv",
    ".config/wezterm",
    ".config/zed",
    ".cshrc",
    ".curlrc",
    ".deno",
    ".doom.d",
    ".dotnet",
    ".emacs",
    ".emacs.d",
    ".gem",
    ".git-templates",
    ".gradle",
    ".hgrc",
    ".inputrc",
    ".ipython",
    ".irbrc",
    ".jupyter",
    ".kshrc",
    ".lesskey",
    ".local/bin",
    ".local/lib",
    ".local/share/JetBrains",
    ".local/share/applications",
    ".local/share/dbus-1",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/nvim",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/systemd",
    ".local/share/uv",
    ".login",
    ".logout",
    ".m2",
    ".mailcap",
    ".mozilla",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".oh-my-zsh",
    ".opam",
    ".pam_environment",
    ".pip",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".screenrc",
    ".sdkman",
    ".tcshrc",
    ".tmux.conf",
    ".vim",
    ".volta",
    ".wgetrc",
];

/// The same, of which there are many: names at the top of a home that begin so.
const RUN_BY_THEMSELVES_PREFIXES: [&str; 4] = [".vscode-", ".x", ".yarn", ".zsh"];

/// Folders of programs at the top of a home that do not begin with a dot.
const PROGRAM_FOLDERS: [&str; 5] = ["Library", "bin", "go", "node_modules", "snap"];

/// Folders of agents, which hold their settings and their records.
const AGENT_FOLDERS: [&str; 9] =
    [".claude", ".codex", ".continue", ".cursor", ".gemini", ".kiro", ".openclaw", ".roo", ".windsurf"];

/// How the names of the files and folders in them begin that agents obey or run. The rest are their records.
const AGENT_SETTINGS: [&str; 24] = [
    ".mcp",
    "AGENTS",
    "CLAUDE",
    "GEMINI",
    "agents",
    "argv",
    "command",
    "config",
    "cursor",
    "exec",
    "extension",
    "hook",
    "instructions",
    "mcp",
    "openclaw",
    "output-styles",
    "plugins",
    "powers",
    "prompts",
    "rules",
    "settings",
    "skills",
    "statusline",
    "steering",
];

/// Files that agents obey wherever they lie.
const INSTRUCTIONS: [&str; 4] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "SKILL.md"];

/// What keeps a script from changing this path of the home folder (relative, `/`-separated): a path at, above or below it.
pub(crate) fn protected_home_path(path: &str) -> Option<String> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let is = |known: &&str| known.eq_ignore_ascii_case(first);
    if AGENT_FOLDERS.iter().any(is) {
        return protected_agent_path(first, rest);
    }
    if PathProtection::default().protects_write(path)
        || PROGRAM_FOLDERS.iter().any(is)
        || RUN_BY_THEMSELVES_PREFIXES.iter().any(|start| starts_with(first, start))
    {
        return Some(path.to_owned());
    }
    let overlaps = |known: &&&str| is_within(path, known) || is_within(known, path);
    let own = RUN_BY_THEMSELVES.iter().find(overlaps).map(|known| (*known).to_owned());
    own.or_else(|| {
        let mut elsewhere =
            super::run_on_open_paths().chain(super::path_protection::secret_paths_in_folders());
        elsewhere.find(|known| is_within(known, path))
    })
}

/// The same for a path in the folder of an agent, in which only its records may be changed.
fn protected_agent_path(folder: &str, rest: &str) -> Option<String> {
    let (name, _) = rest.split_once('/').unwrap_or((rest, ""));
    let is_obeyed = name.is_empty() || AGENT_SETTINGS.iter().any(|start| starts_with(name, start));
    (is_obeyed || PathProtection::default().protects_write(rest)).then(|| format!("{folder}/{name}"))
}

/// Whether the entry `name` of a granted folder, whose path below it is `above` and empty or ends with `/`, is something that programs
/// run or obey as soon as the folder is opened or entered.
pub(crate) fn is_protected_in_home(above: &str, name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
        || runs_on_open(above, name)
        || INSTRUCTIONS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn starts_with(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_one_program_may_be_changed() {
        for path in [
            ".app",
            ".app/settings.json",
            ".config/app",
            ".local/share/app",
            ".cache/app",
            ".claude/history.jsonl",
            ".claude/app/sessions",
            "notes/today.md",
            "Documents",
        ] {
            assert_eq!(protected_home_path(path), None, "{path}");
        }
    }

    #[test]
    fn what_runs_by_itself_may_not_be_changed_nor_what_holds_it() {
        for path in [
            ".bashrc",
            ".BASHRC",
            ".zshrc.local",
            ".xinitrc",
            ".vscode-server/data",
            "bin/x",
            ".local",
            ".local/share",
            ".local/bin/x",
            ".config",
            ".config/autostart/x.desktop",
            ".config/git",
            ".gitconfig",
            ".ssh/authorized_keys",
            ".aws",
            ".cargo/bin",
            ".app/.git/hooks",
            ".claude",
            ".claude/settings.local.json",
            ".claude/Skills/x",
            ".claude/plugins/x",
            ".claude/app/.git",
            ".docker/config.json",
            ".docker",
        ] {
            assert!(protected_home_path(path).is_some(), "{path}");
        }
    }
}
