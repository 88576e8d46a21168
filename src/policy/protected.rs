//! Paths a plain `read` or `write` does not reach: version control, secrets, and the skills themselves.

/// Which paths of a project need a permission that names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    skill_folders: Vec<String>,
}

/// Folder or file names that hold secrets, wherever they lie.
const SECRET_NAMES: [&str; 13] = [
    ".env",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".ssh",
    ".gnupg",
    ".aws",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// File name endings of private keys and key stores.
const SECRET_ENDINGS: [&str; 4] = [".pem", ".key", ".p12", ".pfx"];

/// `.env.example` and its like are written to be read.
const SAMPLE_ENDINGS: [&str; 4] = [".example", ".sample", ".template", ".dist"];

impl Protection {
    /// Protects these skill folders (relative to the project) besides version control and secrets.
    pub fn new(skill_folders: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { skill_folders: skill_folders.into_iter().map(Into::into).collect() }
    }

    /// Whether reading `path` (relative, `/`-separated) takes `read:PATH`: `.git` internals and secrets.
    pub fn guards_read(&self, path: &str) -> bool {
        path.split('/').any(|part| is_git(part) || is_secret(part))
    }

    /// Whether changing `path` takes `write:PATH`: what reading guards, and the folders skills live in.
    pub fn guards_write(&self, path: &str) -> bool {
        self.guards_read(path) || self.skill_folders.iter().any(|folder| within(path, folder))
    }

    /// The folders of skills, relative to the project.
    pub(crate) fn skill_folders(&self) -> impl Iterator<Item = &str> {
        self.skill_folders.iter().map(String::as_str)
    }

    /// Whether something below `path` is guarded against change, so that removing `path` whole would remove it too.
    /// Only what this value knows by name is found; what the disk holds, the caller walks.
    pub fn guards_below(&self, path: &str) -> bool {
        self.skill_folders.iter().any(|folder| within(folder, path))
    }
}

/// Whether `path` is `folder` or lies below it; the empty folder is the project itself.
pub(super) fn within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.get(..folder.len()).is_some_and(|start| start.eq_ignore_ascii_case(folder))
            && matches!(path.as_bytes().get(folder.len()), None | Some(b'/'))
}

fn is_git(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Compared without case: some file systems do, and a refusal too many names its own way out.
fn is_secret(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is =
        |part: Option<&[u8]>, word: &str| part.is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    let ends_with =
        |ending: &&str| is(bytes.len().checked_sub(ending.len()).map(|start| &bytes[start..]), ending);
    SECRET_NAMES.iter().any(|secret| secret.eq_ignore_ascii_case(name))
        || SECRET_ENDINGS.iter().any(ends_with)
        || (is(bytes.get(..5), ".env.") && !SAMPLE_ENDINGS.iter().any(ends_with))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_git_are_guarded_at_any_depth_and_in_any_case() {
        let protection = Protection::default();
        for path in [
            ".git/config",
            "sub/.git",
            ".GIT/HEAD",
            ".env",
            "a/.env.local",
            "tls/server.pem",
            "home/.ssh/config",
        ] {
            assert!(protection.guards_read(path), "{path}");
        }
        for path in ["git/config", ".gitignore", ".env.example", "env", "keys.md", "a.environment", ""] {
            assert!(!protection.guards_read(path), "{path}");
        }
    }

    #[test]
    fn skill_folders_may_be_read_but_not_changed() {
        let protection = Protection::new([".metier/skills"]);
        assert!(!protection.guards_read(".metier/skills/x/SKILL.md"));
        assert!(protection.guards_write(".metier/skills/x/SKILL.md"));
        assert!(protection.guards_below(".metier") && protection.guards_below(""));
        assert!(!protection.guards_write(".metier/skillset") && !protection.guards_below("src"));
    }
}
