//! The registries of npm that the user has configured, and what they ask for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use super::user_files::{UserFiles, host_of};
use metier_core::error::{ErrorKind, Result, SkillError};

const DEFAULT_REGISTRY: &str = "https://registry.npmjs.org/";
/// What a registry asks for, behind its address.
const CREDENTIALS: [&str; 4] = [":_authToken", ":_auth", ":_password", ":username"];

/// Where packages of npm come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NpmRegistry {
    /// `registry` and `@scope:registry`.
    registries: BTreeMap<String, String>,
    /// `//host/:_authToken` and the like.
    credentials: BTreeMap<String, String>,
    certificates: Option<PathBuf>,
}

impl NpmRegistry {
    /// What the user has configured, for npm alone: the environment, the user's file, and those of the machine.
    pub fn of_user(files: &UserFiles<'_>) -> Result<Self> {
        let variable = |key: &str| {
            let names = [format!("npm_config_{key}"), format!("NPM_CONFIG_{}", key.to_uppercase())];
            names.iter().find_map(|name| files.variable(name))
        };
        let mut found = Self::default();
        if let Some(registry) = variable("registry") {
            found.registries.insert("registry".into(), registry);
        }
        found.certificates = variable("cafile").map(PathBuf::from);
        let own = variable("userconfig").map(PathBuf::from);
        let own = own.or_else(|| Some(files.home()?.join(".npmrc")));
        let machine = match variable("globalconfig") {
            Some(path) => vec![PathBuf::from(path)],
            None => ["/usr/local/etc/npmrc", "/usr/etc/npmrc", "/etc/npmrc"].map(PathBuf::from).to_vec(),
        };
        for path in own.into_iter().chain(machine) {
            if let Some(text) = files.read(&path)? {
                found.add(&text, files);
            }
        }
        found.registries.entry("registry".into()).or_insert_with(|| DEFAULT_REGISTRY.to_owned());
        found.check()?;
        Ok(found)
    }

    /// Fills what was not set by a source that counts more.
    fn add(&mut self, text: &str, files: &UserFiles<'_>) {
        for line in text.lines().map(str::trim) {
            let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else {
                continue;
            };
            let (key, value) = (key.trim(), expand(value.trim().trim_matches('"'), files));
            if key == "registry" || key.starts_with('@') && key.ends_with(":registry") {
                self.registries.entry(key.to_owned()).or_insert(value);
            } else if key.starts_with("//") && CREDENTIALS.iter().any(|end| key.ends_with(end)) {
                self.credentials.entry(key.to_owned()).or_insert(value);
            } else if key == "cafile" && self.certificates.is_none() {
                self.certificates = Some(PathBuf::from(value));
            }
        }
    }

    fn check(&self) -> Result<()> {
        let is_odd = |text: &str| text.contains(|c: char| c.is_control() || c.is_whitespace());
        let wrong =
            self.registries.iter().find(|(key, url)| is_odd(key) || is_odd(url) || host_of(url).is_none());
        let Some((key, _)) = wrong else { return Ok(()) };
        let sentence = format!("{} in your configuration of npm is not a web address", key.escape_debug());
        Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("give an address that begins with https:// or http://"))
    }

    /// The addresses.
    pub fn addresses(&self) -> Vec<String> {
        self.registries.values().cloned().collect()
    }

    /// The hosts and ports that serve them.
    pub fn hosts(&self) -> Vec<(String, u16)> {
        self.registries.values().filter_map(|url| host_of(url)).collect()
    }

    /// The file with certificates that is trusted besides those of the system.
    pub fn certificates(&self) -> Option<&PathBuf> {
        self.certificates.as_ref()
    }

    /// The text of a configuration with only this, and the variables that it refers to: no secret is in the text.
    pub fn configuration(&self) -> (String, Vec<(String, String)>) {
        let (mut text, mut variables) = (String::new(), Vec::new());
        for (key, url) in &self.registries {
            let _ = writeln!(text, "{key}={url}");
        }
        for (index, (key, value)) in self.credentials.iter().enumerate() {
            if key.contains(char::is_control) {
                continue;
            }
            let name = format!("REGISTRY_TOKEN_{index}");
            let _ = writeln!(text, "{key}=${{{name}}}");
            variables.push((name, value.clone()));
        }
        if let Some(file) = &self.certificates {
            let _ = writeln!(text, "cafile={}", file.display());
        }
        (text, variables)
    }
}

/// `${NAME}` is the value of a variable, as npm has it.
fn expand(value: &str, files: &UserFiles<'_>) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        text.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            rest = &rest[before.len()..];
            break;
        };
        match files.variable(name.trim_end_matches('?')) {
            Some(value) => text.push_str(&value),
            None => {
                let _ = write!(text, "${{{name}}}");
            }
        }
        rest = behind;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::host::untrusted::UntrustedDirs;

    fn registry(home: &std::path::Path, variables: &[(&str, &str)]) -> Result<NpmRegistry> {
        let variable = |name: &str| match name {
            "HOME" => home.to_str().map(str::to_owned),
            "NPM_CONFIG_GLOBALCONFIG" => Some("/nowhere".into()),
            _ => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
        };
        let untrusted = UntrustedDirs::new([home.join("project").as_path()]);
        NpmRegistry::of_user(&UserFiles::new(&variable, &untrusted))
    }

    #[test]
    fn only_registries_and_what_they_ask_for_are_passed_on() {
        let home = tempfile::tempdir().unwrap();
        let text = "registry=https://npm.example/r/\n@me:registry = https://me.example:8443/\n//npm.example/r/:_authToken=${TOKEN}\nscript-shell=/tmp/evil\nignore-scripts=false\nnode-options=--require x\n# registry=https://no.example\n";
        std::fs::write(home.path().join(".npmrc"), text).unwrap();
        let found = registry(home.path(), &[("TOKEN", "s3cret")]).unwrap();
        assert_eq!(found.hosts(), [("me.example".into(), 8443), ("npm.example".into(), 443)]);
        let (text, variables) = found.configuration();
        assert_eq!(
            text,
            "@me:registry=https://me.example:8443/\nregistry=https://npm.example/r/\n//npm.example/r/:_authToken=${REGISTRY_TOKEN_0}\n"
        );
        assert_eq!(variables, [("REGISTRY_TOKEN_0".to_owned(), "s3cret".to_owned())]);
        let env = registry(home.path(), &[("npm_config_registry", "http://127.0.0.1:4873/")]).unwrap();
        assert!(env.hosts().contains(&("127.0.0.1".into(), 4873)));
    }

    #[test]
    fn without_a_configuration_the_public_registry_is_used_and_nonsense_is_refused() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(registry(home.path(), &[]).unwrap().addresses(), [DEFAULT_REGISTRY]);
        assert!(registry(home.path(), &[("npm_config_registry", "file:///x")]).is_err());
        let project = home.path().join("project/.npmrc");
        std::fs::create_dir_all(project.parent().unwrap()).unwrap();
        std::fs::write(&project, "registry=https://evil.example/").unwrap();
        let error =
            registry(home.path(), &[("npm_config_userconfig", project.to_str().unwrap())]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
    }
}
