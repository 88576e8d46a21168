//! What no grant lets a script change in the home folder of the user: files that programs of the user execute or obey by themselves,
//! and secrets.

use super::autorun::runs_on_open;
use super::path_protection::{PathProtection, is_within};

/// Files and folders of a home that shells, desktops, package managers and other programs execute or obey by themselves. Programs on
/// `PATH` are among them. What runs wherever it lies is in lists of its own, and need not stand here.
const RUN_BY_THEMSELVES: &[&str] = &[
    ".Rprofile",
    ".Xauthority",
    ".Xdefaults",
    ".Xresources",
    ".agents",
    ".aider.conf.yml",
    ".aliases",
    ".ansible",
    ".antidote",
    ".antigen",
    ".asdf",
    ".asdfrc",
    ".augment",
    ".aws",
    ".azure",
    ".bin",
    ".bitcoin",
    ".bun",
    ".cabal",
    ".cache/Cypress",
    ".cache/bazelisk",
    ".cache/deno",
    ".cache/gitstatus",
    ".cache/go-build",
    ".cache/huggingface",
    ".cache/ms-playwright",
    ".cache/node",
    ".cache/nvim",
    ".cache/oh-my-zsh",
    ".cache/pip",
    ".cache/pre-commit",
    ".cache/puppeteer",
    ".cache/pypoetry",
    ".cache/selenium",
    ".cache/starship",
    ".cache/torch",
    ".cache/uv",
    ".cache/zinit",
    ".cache/zsh",
    ".cargo",
    ".claude.json",
    ".cline",
    ".codeium",
    ".composer",
    ".conda",
    ".condarc",
    ".config/Antigravity",
    ".config/BraveSoftware",
    ".config/Claude",
    ".config/Code",
    ".config/Cursor",
    ".config/JetBrains",
    ".config/Kiro",
    ".config/Trae",
    ".config/VSCodium",
    ".config/Windsurf",
    ".config/agents",
    ".config/alacritty",
    ".config/amp",
    ".config/autorandr",
    ".config/autostart-scripts",
    ".config/awesome",
    ".config/bash",
    ".config/bspwm",
    ".config/chromium",
    ".config/containers",
    ".config/crush",
    ".config/dconf",
    ".config/direnv",
    ".config/dunst",
    ".config/emacs",
    ".config/environment.d",
    ".config/espanso",
    ".config/fish",
    ".config/gcloud",
    ".config/gdb",
    ".config/gh",
    ".config/ghostty",
    ".config/git",
    ".config/google-chrome",
    ".config/goose",
    ".config/helix",
    ".config/hg",
    ".config/hypr",
    ".config/i3",
    ".config/jj",
    ".config/kitty",
    ".config/labwc",
    ".config/lazygit",
    ".config/lf",
    ".config/mcp",
    ".config/microsoft-edge",
    ".config/mimeapps.list",
    ".config/mise",
    ".config/mpv",
    ".config/neomutt",
    ".config/niri",
    ".config/nix",
    ".config/npm",
    ".config/nushell",
    ".config/nvim",
    ".config/openbox",
    ".config/opencode",
    ".config/pip",
    ".config/plasma-workspace",
    ".config/polybar",
    ".config/powershell",
    ".config/pulse",
    ".config/qtile",
    ".config/ranger",
    ".config/rclone",
    ".config/river",
    ".config/rofi",
    ".config/shell",
    ".config/solana",
    ".config/sops",
    ".config/starship.toml",
    ".config/sublime-text",
    ".config/sway",
    ".config/sxhkd",
    ".config/systemd",
    ".config/tmux",
    ".config/uv",
    ".config/waybar",
    ".config/wezterm",
    ".config/xfce4",
    ".config/yazi",
    ".config/zed",
    ".config/zsh",
    ".copilot",
    ".cshrc",
    ".curlrc",
    ".cursor-server",
    ".deno",
    ".docker",
    ".doom.d",
    ".dotnet",
    ".elan",
    ".electrum",
    ".emacs",
    ".emacs.d",
    ".ethereum",
    ".exports",
    ".factory",
    ".fnm",
    ".forward",
    ".functions",
    ".fzf",
    ".gem",
    ".ghci",
    ".ghcup",
    ".git-templates",
    ".gnupg",
    ".goenv",
    ".gradle",
    ".gvimrc",
    ".gvm",
    ".hg",
    ".hgrc",
    ".huggingface",
    ".inputrc",
    ".ipython",
    ".irbrc",
    ".ivy2",
    ".jenv",
    ".julia",
    ".juliaup",
    ".jupyter",
    ".k5login",
    ".kaggle",
    ".krew",
    ".kshrc",
    ".kube",
    ".lessfilter",
    ".lesskey",
    ".local/bin",
    ".local/lib",
    ".local/opt",
    ".local/pipx",
    ".local/sbin",
    ".local/share/JetBrains",
    ".local/share/Steam",
    ".local/share/applications",
    ".local/share/bash-completion",
    ".local/share/cargo",
    ".local/share/claude",
    ".local/share/code-server",
    ".local/share/coursier",
    ".local/share/cursor-agent",
    ".local/share/dbus-1",
    ".local/share/direnv",
    ".local/share/fish",
    ".local/share/flatpak",
    ".local/share/fnm",
    ".local/share/gem",
    ".local/share/gh",
    ".local/share/gnome-shell",
    ".local/share/jupyter",
    ".local/share/keyrings",
    ".local/share/kio",
    ".local/share/mise",
    ".local/share/nautilus",
    ".local/share/nemo",
    ".local/share/nvim",
    ".local/share/nvm",
    ".local/share/opencode",
    ".local/share/pipx",
    ".local/share/plasma",
    ".local/share/pnpm",
    ".local/share/powershell",
    ".local/share/rustup",
    ".local/share/systemd",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".local/share/vulkan",
    ".local/share/zed",
    ".local/share/zinit",
    ".local/share/zsh",
    ".local/state/nix",
    ".login",
    ".logout",
    ".luarocks",
    ".m2",
    ".mailcap",
    ".mcp.json",
    ".mix",
    ".moon",
    ".mozilla",
    ".muttrc",
    ".netrc",
    ".nix-profile",
    ".node_libraries",
    ".node_modules",
    ".nodenv",
    ".npm",
    ".npm-global",
    ".nvm",
    ".ocamlinit",
    ".oh-my-zsh",
    ".opam",
    ".opt",
    ".p10k.zsh",
    ".pam_environment",
    ".password-store",
    ".pdbrc",
    ".perl5",
    ".pip",
    ".pixi",
    ".procmailrc",
    ".proto",
    ".pryrc",
    ".psqlrc",
    ".pub-cache",
    ".pyenv",
    ".qwen",
    ".rbenv",
    ".rhosts",
    ".rustup",
    ".rvm",
    ".rye",
    ".sbt",
    ".screenrc",
    ".sdkman",
    ".selected_editor",
    ".shosts",
    ".sqliterc",
    ".ssh",
    ".stack",
    ".steam",
    ".subversion",
    ".tcshrc",
    ".terraform.d",
    ".tfenv",
    ".thunderbird",
    ".tigrc",
    ".tmux",
    ".tmux.conf",
    ".trae",
    ".venv",
    ".vim",
    ".virtualenvs",
    ".volta",
    ".vscode-oss",
    ".vscode-server",
    ".wgetrc",
    ".windsurf-server",
    ".wine",
    ".xbindkeysrc",
    ".xinitrc",
    ".xinputrc",
    ".xmonad",
    ".xonshrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".zcompdump",
    ".zinit",
    ".zplug",
];

/// The same, of which there are many: names at the top of a home, and in `.config`, that begin so.
const PREFIXES: [&str; 4] = [".bash", ".vscode-", ".yarn", ".zsh"];
const PREFIXES_IN_CONFIG: [&str; 2] = ["Code - ", "Cursor - "];

/// Folders of programs at the top of a home that do not begin with a dot.
const PROGRAM_FOLDERS: [&str; 9] =
    ["Applications", "Library", "anaconda3", "bin", "go", "miniconda3", "node_modules", "snap", "venv"];

/// Folders of agents, which hold their settings and their records.
const AGENT_FOLDERS: [&str; 9] =
    [".claude", ".codex", ".continue", ".cursor", ".gemini", ".kiro", ".openclaw", ".roo", ".windsurf"];

/// How the names of the files and folders in them begin that agents obey or run. The rest are their records.
const AGENT_SETTINGS: &[&str] = &[
    ".credentials",
    ".mcp",
    "AGENTS",
    "CLAUDE",
    "GEMINI",
    "agents",
    "antigravity",
    "argv",
    "auth",
    "bin",
    "chrome",
    "cli-config",
    "cloud",
    "command",
    "config",
    "cron",
    "cursor",
    "exec",
    "extension",
    "hook",
    "ide",
    "instructions",
    "local",
    "mcp",
    "memories",
    "modes",
    "oauth",
    "openclaw",
    "output-styles",
    "plugins",
    "policies",
    "powers",
    "projects",
    "prompts",
    "remote-settings",
    "rules",
    "scheduled",
    "session-env",
    "settings",
    "shell-snapshots",
    "skills",
    "statusline",
    "steering",
    "tools",
    "trusted",
];

/// What agents, editors and version control obey wherever it lies, besides what runs as soon as a folder is opened.
const OBEYED_ANYWHERE: &[&str] = &[
    ".agents",
    ".amazonq",
    ".amp",
    ".augment",
    ".clinerules",
    ".crush",
    ".cursorrules",
    ".factory",
    ".goosehints",
    ".hg",
    ".jj",
    ".junie",
    ".kilocode",
    ".local.vimrc",
    ".metier",
    ".npmrc",
    ".nvim",
    ".opencode",
    ".pdbrc",
    ".qwen",
    ".roomodes",
    ".svn",
    ".trae",
    ".vimspector.json",
    ".windsurfrules",
    ".yarnrc",
    ".yarnrc.yml",
    ".ycm_extra_conf.py",
    ".zenv",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "GEMINI.md",
    "QWEN.md",
    "SKILL.md",
    "copilot-instructions.md",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
];

/// What keeps a script from changing this path of the home folder (relative, `/`-separated): a path at, above or below it.
pub fn protected_home_path(path: &str) -> Option<String> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let is = |known: &&str| known.eq_ignore_ascii_case(first);
    if AGENT_FOLDERS.iter().any(is) {
        return protected_agent_path(first, rest);
    }
    let has_prefix = PREFIXES.iter().any(|start| starts_with(first, start))
        || is(&".config") && PREFIXES_IN_CONFIG.iter().any(|start| starts_with(rest, start));
    if PathProtection::default().protects_write(path)
        || is_obeyed_anywhere(path)
        || PROGRAM_FOLDERS.iter().any(is)
        || has_prefix
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
    // The workspace of an agent has its instructions at the top.
    let is_obeyed =
        ["", "workspace"].contains(&rest) || AGENT_SETTINGS.iter().any(|start| starts_with(name, start));
    let is_protected =
        is_obeyed || is_obeyed_anywhere(rest) || PathProtection::default().protects_write(rest);
    is_protected.then(|| format!("{folder}/{name}"))
}

/// The known paths of a home that no script may change.
pub fn protected_home_paths() -> impl Iterator<Item = String> {
    let known =
        RUN_BY_THEMSELVES.iter().chain(&PROGRAM_FOLDERS).chain(&AGENT_FOLDERS).map(|path| (*path).to_owned());
    known.chain(super::run_on_open_paths()).chain(super::path_protection::secret_paths_in_folders())
}

/// Whether a part of this path is obeyed wherever it lies.
fn is_obeyed_anywhere(path: &str) -> bool {
    let mut folder = "";
    path.split('/').any(|name| is_protected_in_home(std::mem::replace(&mut folder, name), name))
}

/// Whether the entry `name` in a folder of that name is something that programs run or obey as soon as a folder is opened or entered, or
/// a folder of skills.
pub fn is_protected_in_home(folder: &str, name: &str) -> bool {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    name.eq_ignore_ascii_case(".git")
        || runs_on_open(&format!("{folder}/"), name)
        || OBEYED_ANYWHERE.iter().any(is)
        || folder.starts_with('.') && name.eq_ignore_ascii_case("skills")
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
            ".xyz",
            "Code/app",
            ".openclaw/workspace/app",
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
            ".agents",
            ".agents/skills/x/scripts",
            ".app/skills",
            ".metier",
            "work/.metier/skills/x",
            ".bash_functions",
            ".config/Code - OSS",
            ".claude.json",
            ".claude/shell-snapshots",
            ".openclaw/workspace",
            ".local/share/fish",
        ] {
            assert!(protected_home_path(path).is_some(), "{path}");
        }
    }
}
