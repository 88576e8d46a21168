//! The files in which a user configures package managers. None of them may lie where a project or a skill can change it.

use std::io::Read;
use std::path::{Path, PathBuf};

use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::untrusted::UntrustedDirs;

/// Maximum bytes of a configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// What the user's own configuration is read from.
pub struct UserFiles<'a> {
    /// The value of an environment variable.
    variable: &'a dyn Fn(&str) -> Option<String>,
    untrusted: &'a UntrustedDirs,
}

impl<'a> UserFiles<'a> {
    /// With the variables of that environment; no file that a script may have written is read.
    pub fn new(variable: &'a dyn Fn(&str) -> Option<String>, untrusted: &'a UntrustedDirs) -> Self {
        Self { variable, untrusted }
    }

    /// The value of an environment variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }

    /// The user's home.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// A file in the folder for configurations.
    pub(super) fn config_file(&self, path: &str) -> Option<PathBuf> {
        let set = self.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        Some(set.or_else(|| Some(self.home()?.join(".config")))?.join(path))
    }

    /// The text of a file; `None` where there is none. `denied` for one that a project or a skill can change.
    pub(super) fn read(&self, path: &Path) -> Result<Option<String>> {
        let failed = |source| SkillError::io(format_args!("failed to read {}", path.display()), source);
        if !path.is_file() {
            return Ok(None);
        }
        if self.untrusted.may_control(path) {
            let sentence = format!(
                "{} is not used: it lies in a project or a skill, which does not choose the registry",
                path.display()
            );
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("configure the registry in a file of your own, outside of any project"));
        }
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_BYTES).read_to_end(&mut text).map_err(failed)?;
        Ok(Some(without_mark(&String::from_utf8_lossy(&text)).to_owned()))
    }
}

/// The host and the port of an address on the web; `None` if it is none.
pub fn host_of(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, default),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// The password in an address, or the only word before its host.
pub(super) fn password_in(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    let password = user.split_once(':').map_or(user, |(_, password)| password);
    (!password.is_empty()).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_is_found_behind_its_user() {
        for (url, host, port) in [
            ("https://pypi.org/simple", "pypi.org", 443),
            ("http://Mirror.example:8080/simple/", "mirror.example", 8080),
            ("https://user:p%40ss@mirror.example/x@y", "mirror.example", 443),
            ("http://[::1]:8080/", "::1", 8080),
            ("https://[::1]/", "::1", 443),
        ] {
            assert_eq!(host_of(url), Some((host.to_owned(), port)), "{url}");
        }
        for url in ["file:///tmp", "ftp://x", "pypi.org", "https://", "https://x:port/"] {
            assert_eq!(host_of(url), None, "{url}");
        }
        assert_eq!(password_in("https://me:s3cret@x/"), Some("s3cret"));
        assert_eq!(password_in("https://t0ken@x/"), Some("t0ken"));
        assert_eq!(password_in("https://x/a@b"), None);
    }
}
