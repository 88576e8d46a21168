//! Protected paths, which a plain `read` or `write` does not cover: version control, secrets, skills, and files that run
//! automatically.

use super::autorun::{is_in_folder, runs_on_open};

/// Which paths of a project need a permission that names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathProtection {
    skill_folders: Vec<String>,
    /// Paths that are protected because of what they are, and whether reading them is protected, too.
    discovered: Vec<(String, bool)>,
}

/// Folder or file names that hold secrets, at any depth, and begin with a dot.
const SECRET_DOTFILES: [&str; 40] = [
    ".age",
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".chef",
    ".dockercfg",
    ".env",
    ".envrc",
    ".flaskenv",
    ".fly",
    ".ftpconfig",
    ".ftppass",
    ".git-credentials",
    ".gnupg",
    ".htpasswd",
    ".msmtprc",
    ".mylogin.cnf",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".remote-sync.json",
    ".s3cfg",
    ".secrets",
    ".smbcredentials",
    ".ssh",
    ".sentryclirc",
    ".terraformrc",
    ".vault-token",
    ".vercel_auth",
    ".yarnrc.yml",
    ".zsh_history",
    ".zhistory",
];

/// Names that hold secrets and begin with another character.
const SECRET_FILES: [&str; 22] = [
    "_netrc",
    "application_default_credentials.json",
    "auth.json",
    "client_secret.json",
    "credentials.json",
    "credentials.tfrc.json",
    "gcloud-service-key.json",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "id_rsa",
    "kubeconfig",
    "local.settings.json",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account.json",
    "sftp-config.json",
    "terraform.tfvars",
];

/// Extensions of private keys, key stores, and files to which tools write their secrets.
const SECRET_EXTENSIONS: [&str; 19] = [
    "agekey",
    "agilekeychain",
    "bcfks",
    "jceks",
    "jks",
    "kdb",
    "kdbx",
    "key",
    "keystore",
    "ovpn",
    "p12",
    "p8",
    "pem",
    "pfx",
    "pkcs12",
    "ppk",
    "psafe3",
    "tfstate",
    "tfvars",
];

/// Names that hold secrets only in certain folders: the end of the folder's path, and the name.
const SECRETS_IN_FOLDER: [(&str, &str); 22] = [
    (".bundle", "config"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".composer", "auth.json"),
    (".config", "gcloud"),
    (".config", "op"),
    (".config/containers", "auth.json"),
    (".config/doctl", "config.yaml"),
    (".config/gh", "hosts.yml"),
    (".config/glab-cli", "config.yml"),
    (".config/hub", "config"),
    (".config/rclone", "rclone.conf"),
    (".config/sops", "age"),
    (".docker", "config.json"),
    (".gem", "credentials"),
    (".gradle", "gradle.properties"),
    (".kube", "config"),
    (".m2", "settings.xml"),
    (".m2", "settings-security.xml"),
    (".nuget", "nuget.config"),
    (".streamlit", "secrets.toml"),
    (".terraform.d", "credentials.tfrc.json"),
];

/// `.env.example` and similar files are meant to be read.
const SAMPLE_EXTENSIONS: [&str; 6] = ["example", "sample", "template", "tmpl", "dist", "pub"];

/// What comes before the 16 digits at the end of the name of a quarantined file.
pub const QUARANTINE_SUFFIX: &str = ".quarantine-";

/// The paths of secrets that have their names only in certain folders, at the top of a project.
pub fn secret_paths_in_folders() -> impl Iterator<Item = String> {
    SECRETS_IN_FOLDER.iter().map(|(folder, name)| format!("{folder}/{name}"))
}

impl PathProtection {
    /// Protects these skill folders (relative to the project) besides version control and secrets.
    pub fn new(skill_folders: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { skill_folders: skill_folders.into_iter().map(Into::into).collect(), discovered: Vec::new() }
    }

    /// The same protection with another path, which is protected because of what it is, whatever its name.
    pub(crate) fn with_discovered(mut self, path: &str, protects_read: bool) -> Self {
        self.discovered.push((path.to_owned(), protects_read));
        self
    }

    /// Whether reading `path` (relative, `/`-separated) needs `read:PATH`: `.git` internals and secrets.
    pub fn protects_read(&self, path: &str) -> bool {
        parts(path).any(|(above, name)| is_secret(above, name)) || self.is_discovered_secret(path)
    }

    /// The same, if reading the folder that contains `path` was permitted already.
    pub fn protects_read_of_last(&self, path: &str) -> bool {
        let (above, name) = split_last(path);
        is_secret(above, name) || self.is_discovered_secret(path)
    }

    /// Whether changing `path` needs `write:PATH`: paths whose reading is protected, skill folders, and files that other programs
    /// run as soon as a folder is opened.
    pub fn protects_write(&self, path: &str) -> bool {
        self.protects_read(path) || self.protects_change(path)
    }

    /// Whether changing `path` needs a permission that reading it does not.
    pub fn protects_change(&self, path: &str) -> bool {
        parts(path).any(|(above, name)| runs_on_open(above, name)) || self.is_in_protected_folder(path)
    }

    /// As [`protects_read_of_last`](Self::protects_read_of_last), for changing it.
    pub fn protects_change_of_last(&self, path: &str) -> bool {
        let (above, name) = split_last(path);
        runs_on_open(above, name) || self.is_in_protected_folder(path)
    }

    fn is_discovered_secret(&self, path: &str) -> bool {
        self.discovered.iter().any(|(found, reading)| *reading && is_discovered_path(path, found))
    }

    fn is_in_protected_folder(&self, path: &str) -> bool {
        self.skill_folders.iter().any(|folder| is_within(path, folder))
            || self.discovered.iter().any(|(found, _)| is_discovered_path(path, found))
    }

    /// The folders of skills, relative to the project.
    pub fn skill_folders(&self) -> impl Iterator<Item = &str> {
        self.skill_folders.iter().map(String::as_str)
    }

    /// The skill folder below `path` that is protected against change, so that removing `path` whole would remove it too. Only
    /// what this value knows by name is found; the caller walks the disk for the rest.
    pub fn skill_folder_below(&self, path: &str) -> Option<&str> {
        self.skill_folders.iter().map(String::as_str).find(|folder| is_within(folder, path))
    }
}

/// Each name in a path, after the folder above it, which is empty or ends with `/`.
fn parts(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut start = 0;
    path.split('/').map(move |name| {
        let above = path.get(..start).unwrap_or_default();
        start += name.len() + 1;
        (above, name)
    })
}

/// The last name in a path, after the folder above it, which is empty or ends with `/`.
fn split_last(path: &str) -> (&str, &str) {
    path.rfind('/').map_or(("", path), |at| path.split_at(at + 1))
}

/// Whether `path` is a discovered path or below it. If that is the project itself, a permission for the whole project does not
/// name it.
fn is_discovered_path(path: &str, found: &str) -> bool {
    is_within(path, found) && !path.is_empty()
}

/// Whether `path` is `folder` or below it; the empty folder is the project itself.
pub fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.get(..folder.len()).is_some_and(|start| start.eq_ignore_ascii_case(folder))
            && matches!(path.as_bytes().get(folder.len()), None | Some(b'/'))
}

fn is_git_dir(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Whether a name is `.git` or holds secrets in the folder `above`, which is empty or ends with `/`. Compared without case: some
/// file systems do, and an unnecessary refusal names the permission that allows the access.
fn is_secret(above: &str, name: &str) -> bool {
    if is_git_dir(name) {
        return true;
    }
    let name = strip_quarantine(name);
    is_secret_name(name) || has_secret_extension(name) || is_secret_in_folder(above, name)
}

/// A name without what metier appends to it when it quarantines a file: the file is as secret as before.
fn strip_quarantine(name: &str) -> &str {
    const DIGITS: usize = 16;
    // By its length, which is a fraction of the time of a search: every access asks this of every name in its path.
    let split = name.len().checked_sub(DIGITS).and_then(|at| name.split_at_checked(at));
    let Some((before, digits)) = split else { return name };
    let stem = before.strip_suffix(QUARANTINE_SUFFIX);
    stem.filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit())).unwrap_or(name)
}

/// Whether a name is one that metier gives to what it quarantines, which no program looks for.
pub fn is_quarantined_name(name: &str) -> bool {
    strip_quarantine(name) != name
}

fn is_secret_name(name: &str) -> bool {
    let is_among = |names: &[&str]| names.iter().any(|secret| secret.eq_ignore_ascii_case(name));
    let is_sample = || SAMPLE_EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension(name)));
    if name.starts_with('.') {
        return is_among(&SECRET_DOTFILES) || (starts_with_ignore_case(name, ".env.") && !is_sample());
    }
    is_among(&SECRET_FILES)
        || (starts_with_ignore_case(name, "id_")
            && PRIVATE_KEY_PREFIXES.iter().any(|key| starts_with_ignore_case(name, key))
            && !is_sample())
        || (starts_with_ignore_case(name, "client_secret_") && extension(name).eq_ignore_ascii_case("json"))
}

fn has_secret_extension(name: &str) -> bool {
    let Some((before, ending)) = name.rsplit_once('.') else { return false };
    let is_before = |inner: &str| extension(before).eq_ignore_ascii_case(inner);
    SECRET_EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(ending))
        || (ending.eq_ignore_ascii_case("backup") && is_before("tfstate"))
        || (ending.eq_ignore_ascii_case("json") && is_before("tfvars"))
}

fn is_secret_in_folder(above: &str, name: &str) -> bool {
    // The names of all these folders begin with a dot.
    above.contains('.')
        && SECRETS_IN_FOLDER
            .iter()
            .any(|(folder, secret)| secret.eq_ignore_ascii_case(name) && is_in_folder(above, folder))
}

/// The part of a name after its last dot; empty if it has none.
fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// Keys with a suffix in their name: `id_rsa_work`.
const PRIVATE_KEY_PREFIXES: [&str; 8] =
    ["id_rsa_", "id_dsa_", "id_ecdsa_", "id_ed25519_", "id_rsa.", "id_dsa.", "id_ecdsa.", "id_ed25519."];

fn starts_with_ignore_case(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_git_are_guarded_at_any_depth_and_in_any_case() {
        let protection = PathProtection::default();
        for path in [
            ".git/config",
            "sub/.git",
            ".GIT/HEAD",
            ".env",
            "a/.env.local",
            "tls/server.pem",
            "home/.ssh/config",
        ] {
            assert!(protection.protects_read(path), "{path}");
        }
        for path in ["git/config", ".gitignore", ".env.example", "env", "keys.md", "a.environment", ""] {
            assert!(!protection.protects_read(path), "{path}");
        }
    }

    #[test]
    fn skill_folders_may_be_read_but_not_changed() {
        let protection = PathProtection::new([".metier/skills"]);
        assert!(!protection.protects_read(".metier/skills/x/SKILL.md"));
        assert!(protection.protects_write(".metier/skills/x/SKILL.md"));
        assert_eq!(protection.skill_folder_below(".metier"), Some(".metier/skills"));
        assert!(
            protection.skill_folder_below("").is_some() && protection.skill_folder_below("src").is_none()
        );
        assert!(!protection.protects_write(".metier/skillset"));
    }

    #[test]
    fn every_name_of_a_secret_is_known_and_every_sample_is_not() {
        let protection = PathProtection::default();
        let guards = |path: &str| protection.protects_read(path) && protection.protects_read_of_last(path);
        for name in SECRET_DOTFILES.into_iter().chain(SECRET_FILES) {
            for path in [name.to_owned(), format!("a/b/{name}"), name.to_ascii_uppercase()] {
                assert!(guards(&path), "{path}");
            }
            assert!(protection.protects_read(&format!("a/{name}/below")), "{name}");
            assert!(!guards(&format!("x{name}")) || name.ends_with(".tfvars"), "x{name}");
        }
        for ending in SECRET_EXTENSIONS {
            assert!(guards(&format!("a/x.y.{ending}")) && guards(&format!("X.{}", ending.to_uppercase())));
            assert!(!guards(&format!("x.{ending}s")) && !guards(ending), "{ending}");
        }
        for (folder, name) in SECRETS_IN_FOLDER {
            assert!(guards(&format!("{folder}/{name}")) && guards(&format!("home/me/{folder}/{name}")));
            assert!(guards(&format!("{folder}/{name}").to_ascii_uppercase()), "{folder}/{name}");
            assert!(
                !guards(&format!("x{folder}/{name}")) || SECRET_FILES.contains(&name),
                "x{folder}/{name}"
            );
            assert!(
                !guards(&format!("{folder}/x/{name}")) || SECRET_FILES.contains(&name),
                "{folder}/x/{name}"
            );
        }
        for ending in SAMPLE_EXTENSIONS {
            assert!(!guards(&format!(".env.{ending}")), "{ending}");
        }
        for path in [
            "id_rsa_work",
            "id_ed25519_github",
            "id_ecdsa_sk_old",
            "id_rsa.old",
            ".env.local.bak",
            "a/terraform.tfstate.backup",
            "prod.auto.tfvars.json",
            "client_secret_123.apps.json",
            ".npmrc.quarantine-0123456789abcdef",
            "x.pem.quarantine-0123456789abcdef",
            ".kube/config.quarantine-0123456789abcdef",
        ] {
            assert!(guards(path), "{path}");
        }
        for path in [
            "id_rsa.pub",
            "id_ed25519_sk.pub",
            "id_rsaX",
            "x.pem.quarantine-0123",
            "x.pem.quarantine-0123456789abcdefg",
            "notes.quarantine-0123456789abcdef",
            "config",
            "config.json",
            "docker/config.json",
            "kube/config",
            "credentials.toml",
            "hosts.yml",
            "gh/hosts.yml",
            "keystore",
            "a.keyboard",
            "tfstate",
            "backup",
            "x.backup",
            "settings.xml",
            "gradle.properties",
            "client_secrets.md",
            ".environment",
            ".dockerignore",
            "env.local",
        ] {
            assert!(!guards(path), "{path}");
        }
    }

    #[test]
    fn what_was_found_is_protected_by_its_place() {
        let protection =
            PathProtection::default().with_discovered("meta", true).with_discovered("hooks", false);
        assert!(protection.protects_read("meta/config") && protection.protects_read("META"));
        assert!(!protection.protects_read("hooks/x") && protection.protects_write("hooks/x"));
        assert!(!protection.protects_write("metal") && !protection.protects_write(""));
    }

    /// The names between backticks in the paragraph that begins with this text, or under that heading.
    fn documented(beginning: &str) -> Vec<&'static str> {
        let page = include_str!("../../../../docs/protected.md");
        let (_, rest) = page.split_once(beginning).unwrap();
        let paragraph = rest.trim_start().split("\n\n").next().unwrap();
        paragraph.split('`').skip(1).step_by(2).filter(|name| !name.contains(['…', '*'])).collect()
    }

    /// The documented list and the lists above must agree: this test finds a name that was removed above.
    #[test]
    fn every_name_in_the_documentation_is_protected() {
        let protection = PathProtection::default();
        let samples = documented("A sample ends in");
        assert_eq!(samples, SAMPLE_EXTENSIONS);
        let hidden = documented("Names that begin with a dot:");
        for name in &hidden {
            assert!(
                protection.protects_read(name) && protection.protects_read(&format!("a/{name}")),
                "{name}"
            );
        }
        let others = documented("\nOther names:");
        for path in others.into_iter().chain(documented("In the folders that tools keep:")) {
            assert!(protection.protects_read(&format!("a/{path}")), "{path}");
        }
        for ending in documented("\nEndings:") {
            assert!(protection.protects_read(&format!("x.{ending}")), "{ending}");
        }
        let opened = documented("## What runs when a folder is opened or entered");
        for path in &opened {
            assert!(protection.protects_write(&format!("a/{path}")), "{path}");
        }
        let built = documented("## What a build, a test, an installation or a push runs");
        for path in &built {
            assert!(super::super::runs_on_build(path), "{path}");
        }
        assert!(hidden.len() >= 40 && opened.len() > 50 && built.len() > 48);
    }

    #[test]
    fn the_documentation_lists_every_name() {
        let page = include_str!("../../../../docs/protected.md");
        for name in
            SECRET_DOTFILES.into_iter().chain(SECRET_FILES).chain(SECRET_EXTENSIONS).chain(SAMPLE_EXTENSIONS)
        {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
        for (folder, name) in SECRETS_IN_FOLDER {
            assert!(page.contains(&format!("`{folder}/{name}`")), "{folder}/{name}");
        }
        for path in super::super::run_on_open_paths() {
            assert!(page.contains(&format!("`{path}`")), "{path}");
        }
    }
}
