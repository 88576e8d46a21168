//! Paths a plain `read` or `write` does not reach: version control, secrets, the skills themselves, and what runs by itself.

use super::autorun::{lies_in, runs_when_opened};

/// Which paths of a project need a permission that names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    skill_folders: Vec<String>,
    /// What turned out to be protected for what it is, and whether reading it is, too.
    found: Vec<(String, bool)>,
}

/// Folder or file names that hold secrets, wherever they lie, and begin with a dot.
const HIDDEN_SECRETS: [&str; 40] = [
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

/// The others.
const PLAIN_SECRETS: [&str; 22] = [
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

/// What follows the last dot of private keys, key stores, and what tools write their secrets to.
const SECRET_ENDINGS: [&str; 19] = [
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

/// Where the name alone says little: the end of the folder it lies in, and the name.
const SECRETS_IN: [(&str, &str); 22] = [
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

/// `.env.example` and its like are written to be read.
const SAMPLE_ENDINGS: [&str; 6] = ["example", "sample", "template", "tmpl", "dist", "pub"];

impl Protection {
    /// Protects these skill folders (relative to the project) besides version control and secrets.
    pub fn new(skill_folders: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { skill_folders: skill_folders.into_iter().map(Into::into).collect(), found: Vec::new() }
    }

    /// The same, with another path that is protected for what it is, whatever its name.
    pub(crate) fn with_found(mut self, path: &str, guards_read: bool) -> Self {
        self.found.push((path.to_owned(), guards_read));
        self
    }

    /// Whether reading `path` (relative, `/`-separated) takes `read:PATH`: `.git` internals and secrets.
    pub fn guards_read(&self, path: &str) -> bool {
        let mut start = 0;
        let is_secret_part = |part: &str| {
            let above = path.get(..start).unwrap_or_default();
            start += part.len() + 1;
            is_git(part) || is_secret(above, part)
        };
        path.split('/').any(is_secret_part)
            || self.found.iter().any(|(found, reading)| *reading && lies_at(path, found))
    }

    /// The same, where reading the folder that `path` lies in was permitted already.
    pub fn guards_last(&self, path: &str) -> bool {
        let (above, name) = path
            .rsplit_once('/')
            .map_or(("", path), |(_, name)| (path.get(..path.len() - name.len()).unwrap_or_default(), name));
        is_git(name)
            || is_secret(above, name)
            || self.found.iter().any(|(found, reading)| *reading && lies_at(path, found))
    }

    /// Whether changing `path` takes `write:PATH`: what reading guards, the folders skills live in, and what other programs run as
    /// soon as a folder is opened.
    pub fn guards_write(&self, path: &str) -> bool {
        self.guards_read(path) || self.guards_change(path)
    }

    /// As [`guards_last`](Self::guards_last), for changing it.
    pub(crate) fn guards_change_of_last(&self, path: &str) -> bool {
        let (above, name) = path.rfind('/').map_or(("", path), |at| path.split_at(at + 1));
        runs_when_opened(above, name)
            || self.skill_folders.iter().any(|folder| within(path, folder))
            || self.found.iter().any(|(found, _)| lies_at(path, found))
    }

    /// Whether changing `path` takes a permission that reading it does not.
    pub(crate) fn guards_change(&self, path: &str) -> bool {
        let mut start = 0;
        let runs_part = |part: &str| {
            let above = path.get(..start).unwrap_or_default();
            start += part.len() + 1;
            runs_when_opened(above, part)
        };
        path.split('/').any(runs_part)
            || self.skill_folders.iter().any(|folder| within(path, folder))
            || self.found.iter().any(|(found, _)| lies_at(path, found))
    }

    /// The folders of skills, relative to the project.
    pub(crate) fn skill_folders(&self) -> impl Iterator<Item = &str> {
        self.skill_folders.iter().map(String::as_str)
    }

    /// What is guarded below `path` against change, so that removing `path` whole would remove it too. Only what this value
    /// knows by name is found; what the disk holds, the caller walks.
    pub fn guarded_below(&self, path: &str) -> Option<&str> {
        self.skill_folders.iter().map(String::as_str).find(|folder| within(folder, path))
    }
}

/// Whether `path` is what was found or lies below it. Where that is the project itself, a permission for all of it names nothing.
fn lies_at(path: &str, found: &str) -> bool {
    within(path, found) && !path.is_empty()
}

/// Whether `path` is `folder` or lies below it; the empty folder is the project itself.
pub(crate) fn within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.get(..folder.len()).is_some_and(|start| start.eq_ignore_ascii_case(folder))
            && matches!(path.as_bytes().get(folder.len()), None | Some(b'/'))
}

fn is_git(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Whether a name holds secrets in the folder `above`, which is empty or ends with `/`. Compared without case: some file systems
/// do, and a refusal too many names its own way out.
fn is_secret(above: &str, name: &str) -> bool {
    let is_among = |names: &[&str]| names.iter().any(|secret| secret.eq_ignore_ascii_case(name));
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let ends_with = |endings: &[&str]| endings.iter().any(|known| known.eq_ignore_ascii_case(ending));
    if name.starts_with('.') {
        if is_among(&HIDDEN_SECRETS) || (starts_with(name, ".env.") && !ends_with(&SAMPLE_ENDINGS)) {
            return true;
        }
    } else if is_among(&PLAIN_SECRETS)
        || (starts_with(name, "id_")
            && KEYS.iter().any(|key| starts_with(name, key))
            && !ends_with(&SAMPLE_ENDINGS))
        || (starts_with(name, "client_secret_") && ending.eq_ignore_ascii_case("json"))
    {
        return true;
    }
    ends_with(&SECRET_ENDINGS)
        || (ending.eq_ignore_ascii_case("backup") && ends_twice(name, &["tfstate"]))
        || (ending.eq_ignore_ascii_case("json") && ends_twice(name, &["tfvars"]))
        || (!above.is_empty()
            && SECRETS_IN
                .iter()
                .any(|(folder, secret)| secret.eq_ignore_ascii_case(name) && lies_in(above, folder)))
}

/// Keys with something after their name: `id_rsa_work`.
const KEYS: [&str; 8] =
    ["id_rsa_", "id_dsa_", "id_ecdsa_", "id_ed25519_", "id_rsa.", "id_dsa.", "id_ecdsa.", "id_ed25519."];

/// Whether the ending before the last is one of these: `x.tfstate.backup`.
fn ends_twice(name: &str, endings: &[&str]) -> bool {
    let before = name.rsplit_once('.').map_or("", |(before, _)| before);
    let ending = before.rsplit_once('.').map_or("", |(_, ending)| ending);
    endings.iter().any(|known| known.eq_ignore_ascii_case(ending))
}

fn starts_with(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start))
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
        assert_eq!(protection.guarded_below(".metier"), Some(".metier/skills"));
        assert!(protection.guarded_below("").is_some() && protection.guarded_below("src").is_none());
        assert!(!protection.guards_write(".metier/skillset"));
    }

    #[test]
    fn every_name_of_a_secret_is_known_and_every_sample_is_not() {
        let protection = Protection::default();
        let guards = |path: &str| protection.guards_read(path) && protection.guards_last(path);
        for name in HIDDEN_SECRETS.into_iter().chain(PLAIN_SECRETS) {
            for path in [name.to_owned(), format!("a/b/{name}"), name.to_ascii_uppercase()] {
                assert!(guards(&path), "{path}");
            }
            assert!(protection.guards_read(&format!("a/{name}/below")), "{name}");
            assert!(!guards(&format!("x{name}")) || name.ends_with(".tfvars"), "x{name}");
        }
        for ending in SECRET_ENDINGS {
            assert!(guards(&format!("a/x.y.{ending}")) && guards(&format!("X.{}", ending.to_uppercase())));
            assert!(!guards(&format!("x.{ending}s")) && !guards(ending), "{ending}");
        }
        for (folder, name) in SECRETS_IN {
            assert!(guards(&format!("{folder}/{name}")) && guards(&format!("home/me/{folder}/{name}")));
            assert!(guards(&format!("{folder}/{name}").to_ascii_uppercase()), "{folder}/{name}");
            assert!(
                !guards(&format!("x{folder}/{name}")) || PLAIN_SECRETS.contains(&name),
                "x{folder}/{name}"
            );
            assert!(
                !guards(&format!("{folder}/x/{name}")) || PLAIN_SECRETS.contains(&name),
                "{folder}/x/{name}"
            );
        }
        for ending in SAMPLE_ENDINGS {
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
        ] {
            assert!(guards(path), "{path}");
        }
        for path in [
            "id_rsa.pub",
            "id_ed25519_sk.pub",
            "id_rsaX",
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
        let protection = Protection::default().with_found("meta", true).with_found("hooks", false);
        assert!(protection.guards_read("meta/config") && protection.guards_read("META"));
        assert!(!protection.guards_read("hooks/x") && protection.guards_write("hooks/x"));
        assert!(!protection.guards_write("metal") && !protection.guards_write(""));
    }

    /// The names between backticks in the paragraph that begins so, or stands under that heading.
    fn documented(beginning: &str) -> Vec<&'static str> {
        let page = include_str!("../../docs/protected.md");
        let (_, rest) = page.split_once(beginning).unwrap();
        let paragraph = rest.trim_start().split("\n\n").next().unwrap();
        paragraph.split('`').skip(1).step_by(2).filter(|name| !name.contains(['…', '*'])).collect()
    }

    /// What the page promises is kept: a name that is lost from a list above is missed here.
    #[test]
    fn every_name_in_the_documentation_is_protected() {
        let protection = Protection::default();
        let samples = documented("anything after it but the endings of samples");
        assert_eq!(samples, SAMPLE_ENDINGS);
        let hidden = documented("Names that begin with a dot:");
        for name in hidden.iter().filter(|name| !samples.contains(name)) {
            assert!(protection.guards_read(name) && protection.guards_read(&format!("a/{name}")), "{name}");
        }
        let others = documented("\nOther names:");
        for path in others.into_iter().chain(documented("In the folders that tools keep:")) {
            assert!(protection.guards_read(&format!("a/{path}")), "{path}");
        }
        for ending in documented("\nEndings:") {
            assert!(protection.guards_read(&format!("x.{ending}")), "{ending}");
        }
        let opened = documented("## What runs when a folder is opened or entered");
        for path in &opened {
            assert!(protection.guards_write(&format!("a/{path}")), "{path}");
        }
        let built = documented("## What a build, a test, an installation or a push runs");
        for path in &built {
            assert!(super::super::runs_when_built(path), "{path}");
        }
        assert!(hidden.len() > 40 && opened.len() > 50 && built.len() > 48);
    }

    #[test]
    fn the_documentation_lists_every_name() {
        let page = include_str!("../../docs/protected.md");
        for name in
            HIDDEN_SECRETS.into_iter().chain(PLAIN_SECRETS).chain(SECRET_ENDINGS).chain(SAMPLE_ENDINGS)
        {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
        for (folder, name) in SECRETS_IN {
            assert!(page.contains(&format!("`{folder}/{name}`")), "{folder}/{name}");
        }
        for path in super::super::opened_at_the_top() {
            assert!(page.contains(&format!("`{path}`")), "{path}");
        }
    }
}
