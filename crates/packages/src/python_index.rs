//! The registries of Python packages that the user has configured: for uv, or else for pip.

use std::fmt::Write;
use std::path::PathBuf;

use super::toml_text;
use super::user_files::{UserFiles, host_of, password_in};
use metier_core::error::{ErrorKind, Result, SkillError};

const DEFAULT_INDEX: &str = "https://pypi.org/simple";
/// The registry that keeps its files on another host.
const SPLIT_REGISTRY: (&str, &str) = ("pypi.org", "files.pythonhosted.org");

/// Where packages of Python come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonIndex {
    /// The main registry; none where only folders are used.
    index: Option<String>,
    extra_indexes: Vec<String>,
    /// Folders and pages with files.
    find_links: Vec<String>,
}

impl PythonIndex {
    /// What the user has configured: what uv is told, or, where it is told nothing, what pip is told.
    pub fn of_user(files: &UserFiles<'_>) -> Result<Self> {
        let mut found = Self::for_uv(files)?;
        let mut uses_no_index = files.variable("UV_NO_INDEX").is_some();
        if found == Self::default() && !uses_no_index {
            found = Self::for_pip(files)?;
            uses_no_index = files.variable("PIP_NO_INDEX").is_some();
        }
        if uses_no_index {
            found.index = None;
            found.extra_indexes.clear();
        } else if found.index.is_none() {
            found.index = Some(DEFAULT_INDEX.to_owned());
        }
        found.check()?;
        Ok(found)
    }

    fn for_uv(files: &UserFiles<'_>) -> Result<Self> {
        let list = |name: &str| files.variable(name).map(|value| words(&value)).unwrap_or_default();
        let mut found = Self {
            index: files.variable("UV_DEFAULT_INDEX").or_else(|| files.variable("UV_INDEX_URL")),
            extra_indexes: [list("UV_INDEX"), list("UV_EXTRA_INDEX_URL")].concat(),
            find_links: list("UV_FIND_LINKS"),
        };
        found.index = found.index.map(|index| without_name(&index));
        found.extra_indexes = found.extra_indexes.iter().map(|index| without_name(index)).collect();
        let named = files.variable("UV_CONFIG_FILE").map(PathBuf::from);
        let paths = match named {
            Some(named) => vec![named],
            None => files
                .config_file("uv/uv.toml")
                .into_iter()
                .chain(["/etc/xdg/uv/uv.toml", "/etc/uv/uv.toml"].map(PathBuf::from))
                .collect(),
        };
        for path in paths {
            let Some(text) = files.read(&path)? else { continue };
            let settings = toml_text::read_uv_settings(&text).map_err(|error| {
                let sentence = format!("{}, line {}: {}", path.display(), error.line, error.reason);
                SkillError::new(ErrorKind::Usage, sentence)
            })?;
            found.add(Self {
                index: settings.index,
                extra_indexes: settings.extra_indexes,
                find_links: settings.find_links,
            });
        }
        Ok(found)
    }

    fn for_pip(files: &UserFiles<'_>) -> Result<Self> {
        let list = |name: &str| files.variable(name).map(|value| words(&value)).unwrap_or_default();
        let mut found = Self {
            index: files.variable("PIP_INDEX_URL"),
            extra_indexes: list("PIP_EXTRA_INDEX_URL"),
            find_links: list("PIP_FIND_LINKS"),
        };
        let own = files.variable("PIP_CONFIG_FILE").map(PathBuf::from);
        let home = files.home().map(|home| home.join(".pip/pip.conf"));
        let paths = [own, files.config_file("pip/pip.conf"), home];
        let system = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf"].map(|path| Some(PathBuf::from(path)));
        for path in paths.into_iter().chain(system).flatten() {
            if let Some(text) = files.read(&path)? {
                found.add(read_pip_settings(&text));
            }
        }
        Ok(found)
    }

    /// Fills what was not set by a source that counts more.
    fn add(&mut self, other: Self) {
        self.index = self.index.take().or(other.index);
        if self.extra_indexes.is_empty() {
            self.extra_indexes = other.extra_indexes;
        }
        if self.find_links.is_empty() {
            self.find_links = other.find_links;
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = self.indexes().find(|url| host_of(url).is_none() || url.contains(char::is_whitespace));
        let Some(wrong) = wrong else { return Ok(()) };
        let shown = without_password(wrong);
        Err(SkillError::new(
            ErrorKind::Usage,
            format!("the index {} in your configuration is not a web address", shown.escape_debug()),
        )
        .with_help("give an address that begins with https:// or http://"))
    }

    fn indexes(&self) -> impl Iterator<Item = &str> {
        self.index.iter().chain(&self.extra_indexes).map(String::as_str)
    }

    /// The addresses, without passwords.
    pub fn addresses(&self) -> Vec<String> {
        self.indexes().chain(self.find_links.iter().map(String::as_str)).map(without_password).collect()
    }

    /// The lines of a requirements file that name the registries.
    pub fn lines(&self) -> String {
        let mut text = match &self.index {
            Some(index) => format!("--index-url {index}\n"),
            None => "--no-index\n".to_owned(),
        };
        for index in &self.extra_indexes {
            let _ = writeln!(text, "--extra-index-url {index}");
        }
        for links in &self.find_links {
            let _ = writeln!(text, "--find-links {links}");
        }
        text
    }

    /// The hosts and ports that serve them.
    pub fn hosts(&self) -> Vec<(String, u16)> {
        let pages = self.find_links.iter().map(String::as_str);
        let mut hosts: Vec<(String, u16)> = self.indexes().chain(pages).filter_map(host_of).collect();
        if hosts.iter().any(|(host, _)| host == SPLIT_REGISTRY.0) {
            hosts.push((SPLIT_REGISTRY.1.to_owned(), 443));
        }
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// The folders with files.
    pub fn folders(&self) -> Vec<PathBuf> {
        let local = |links: &String| {
            let path = PathBuf::from(links.strip_prefix("file://").unwrap_or(links));
            (path.is_absolute() && host_of(links).is_none()).then_some(path)
        };
        self.find_links.iter().filter_map(local).collect()
    }

    /// What must not be shown.
    pub fn passwords(&self) -> Vec<String> {
        let pages = self.find_links.iter().map(String::as_str);
        self.indexes().chain(pages).filter_map(password_in).map(str::to_owned).collect()
    }
}

/// uv lets an index have a name: `NAME=URL`.
fn without_name(index: &str) -> String {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    match index.split_once('=') {
        Some((name, url)) if is_name(name) => url.to_owned(),
        _ => index.to_owned(),
    }
}

fn without_password(url: &str) -> String {
    match password_in(url) {
        Some(password) => url.replacen(password, "****", 1),
        None => url.to_owned(),
    }
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

/// The sections `global` and `install` of a configuration of pip; the latter counts more.
fn read_pip_settings(text: &str) -> PythonIndex {
    let (mut global, mut install) = (PythonIndex::default(), PythonIndex::default());
    let (mut section, mut key) = (String::new(), String::new());
    for line in text.lines() {
        if line.trim().is_empty() || line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.trim().strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = name.trim().to_ascii_lowercase();
            key.clear();
            continue;
        }
        let target = match section.as_str() {
            "global" => &mut global,
            "install" => &mut install,
            _ => continue,
        };
        let is_continued = line.starts_with(char::is_whitespace) && !key.is_empty();
        let value = match line.split_once(['=', ':']) {
            Some((name, value)) if !is_continued => {
                key = name.trim().to_ascii_lowercase().replace('_', "-");
                value
            }
            _ => line,
        };
        match key.as_str() {
            "index-url" => target.index = words(value).into_iter().next().or(target.index.take()),
            "extra-index-url" => target.extra_indexes.extend(words(value)),
            "find-links" => target.find_links.extend(words(value)),
            _ => {}
        }
    }
    install.add(global);
    install
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::host::untrusted::UntrustedDirs;

    fn index(folder: &std::path::Path, variables: &[(&str, &str)]) -> Result<PythonIndex> {
        let variable = |name: &str| match name {
            "HOME" => folder.join("home").to_str().map(str::to_owned),
            _ => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
        };
        let untrusted = UntrustedDirs::new([folder.join("project").as_path()]);
        PythonIndex::of_user(&UserFiles::new(&variable, &untrusted))
    }

    fn write(path: &std::path::Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_environment_counts_before_files_and_uv_before_pip() {
        if cfg!(not(feature = "config")) {
            // Such a build reads no TOML.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("project")).unwrap();
        write(
            &at("home/.config/pip/pip.conf"),
            "[global]\nindex-url = https://pip.example/simple\nextra-index-url =\n    https://one.example\n    https://two.example\n",
        );
        let pip = index(folder.path(), &[]).unwrap();
        assert_eq!(
            pip.addresses(),
            ["https://pip.example/simple", "https://one.example", "https://two.example"]
        );
        let variables = [("PIP_INDEX_URL", "https://me:s3cret@env.example:8443/simple")];
        let env = index(folder.path(), &variables).unwrap();
        assert!(env.addresses()[0].contains("****") && !env.addresses()[0].contains("s3cret"));
        assert_eq!(env.passwords(), ["s3cret"]);
        assert!(env.hosts().contains(&("env.example".to_owned(), 8443)));
        write(&at("home/.config/uv/uv.toml"), "index-url = \"https://uv.example\"");
        let uv = index(folder.path(), &variables).unwrap();
        assert_eq!(uv.addresses(), ["https://uv.example"]);
        let both = index(folder.path(), &[("UV_DEFAULT_INDEX", "mine=https://x.example/simple")]).unwrap();
        assert_eq!(both.lines(), "--index-url https://x.example/simple\n");
    }

    #[test]
    fn without_a_configuration_the_public_registry_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let found = index(folder.path(), &[]).unwrap();
        if found.addresses() == [DEFAULT_INDEX] {
            let hosts = [("files.pythonhosted.org".to_owned(), 443), ("pypi.org".to_owned(), 443)];
            assert_eq!(found.hosts(), hosts);
        }
        let folders = index(folder.path(), &[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", "/wheels")]).unwrap();
        assert_eq!((folders.hosts(), folders.folders()), (vec![], vec!["/wheels".into()]));
        assert_eq!(folders.lines(), "--no-index\n--find-links /wheels\n");
    }

    #[test]
    fn a_file_of_the_project_and_what_is_no_address_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("project/pip.conf");
        write(&file, "[global]\nindex-url = https://evil.example");
        let error = index(folder.path(), &[("PIP_CONFIG_FILE", file.to_str().unwrap())]).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Denied && error.message().contains("lies in a project"),
            "{error}"
        );
        for url in ["ftp://x", "https://x\n--find-links y", "nonsense"] {
            assert!(index(folder.path(), &[("UV_INDEX_URL", url)]).is_err(), "{url}");
        }
    }
}
