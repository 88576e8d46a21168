//! What programs look for by themselves, whatever a script does: it says nothing about the script.
//!
//! A list and not a run of the same interpreter with an empty script: that would cost a start, and libraries such as readline, curl and
//! git look for their settings only when they are used.

use std::path::Path;

/// Files and folders of a home in which interpreters, shells, libraries and common tools look for settings or packages. Without any of
/// them they do what they do on a new machine.
const HOME_SETTINGS: [&str; 34] = [
    ".Renviron",
    ".Rprofile",
    ".Xauthority",
    ".ackrc",
    ".bash_profile",
    ".bashrc",
    ".config/fish",
    ".config/fontconfig",
    ".config/git",
    ".config/matplotlib",
    ".config/pip",
    ".config/user-dirs.dirs",
    ".curlrc",
    ".dircolors",
    ".fonts",
    ".gitconfig",
    ".inputrc",
    ".irbrc",
    ".local/lib",
    ".local/share/fonts",
    ".matplotlib",
    ".netrc",
    ".node_libraries",
    ".node_modules",
    ".npmrc",
    ".perldb",
    ".pip",
    ".profile",
    ".pythonrc.py",
    ".terminfo",
    ".vimrc",
    ".wgetrc",
    ".zshenv",
    ".zshrc",
];

/// Folders of caches that programs make, and do without if they cannot.
const CACHE_NAMES: [&str; 4] = ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];

/// Places of the machine, not of the user. What is open of them has a rule, and of the rest programs test what there is.
const SYSTEM_FOLDERS: [&str; 11] =
    ["/bin", "/dev", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"];

/// Files of `/etc` that the C library and shells read.
const SYSTEM_SETTINGS: [&str; 16] = [
    "/etc/bash.bashrc",
    "/etc/environment",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.preload",
    "/etc/machine-id",
    "/etc/os-release",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/private",
];

/// Whether programs look for this path of a home by themselves.
pub(super) fn is_home_setting(rest: &Path) -> bool {
    HOME_SETTINGS.iter().any(|known| rest.starts_with(known)) || is_cache(rest)
}

/// Whether programs write this by themselves, and do without it.
pub(super) fn is_cache(path: &Path) -> bool {
    path.components().any(|part| CACHE_NAMES.iter().any(|name| part.as_os_str() == *name))
}

/// Whether programs look for this path of the system by themselves.
pub(super) fn is_system_setting(path: &Path) -> bool {
    system_folders().any(|folder| path.starts_with(folder))
        || SYSTEM_SETTINGS.iter().any(|known| path.starts_with(known))
}

/// The places of the machine that are not observed.
pub(super) fn system_folders() -> impl Iterator<Item = &'static Path> {
    SYSTEM_FOLDERS.iter().map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_settings_are_left_out_with_all_below_them() {
        for path in
            [".local/lib/python3.11/site-packages", ".netrc", ".config/git/ignore", "a/__pycache__/x.pyc"]
        {
            assert!(is_home_setting(Path::new(path)), "{path}");
        }
        for path in ["", ".app", ".config", ".config/app", ".local/share/app", ".npmrcs", "notes/.env"] {
            assert!(!is_home_setting(Path::new(path)), "{path}");
        }
        assert!(is_system_setting(Path::new("/etc/hosts")) && is_system_setting(Path::new("/usr/x")));
        assert!(!is_system_setting(Path::new("/etc/app.conf")) && !is_system_setting(Path::new("/users/x")));
    }
}
