//! A secret of a skill in the configuration: where it comes from, an environment variable, a file, or what a program prints, and the
//! hosts that it is for. It is read when a script asks for it, and no error contains it.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::home_path::expand_home;
use metier_core::host::files::Files;
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{RunContext, RunMessages, SkillContext};
use metier_core::policy::{CancelToken, normalize_secret_host};

/// A secret in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfiguredSecret {
    /// Where it comes from.
    pub source: SecretSource,
    /// The hosts whose requests it is put into, each as a permission names it: then no skill reads it. Empty if skills read it.
    pub hosts: Vec<String>,
}

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// This environment variable.
    Variable(String),
    /// The content of this file, without a line end at its end.
    File(PathBuf),
    /// What this program prints, without a line end at its end: the program and its arguments. No shell runs it.
    Command(Vec<String>),
}

/// The largest secret, in bytes.
const MAX_SIZE: usize = 64 << 10;

const EXPECTED: &str = "expected {env = \"NAME\"}, {file = \"PATH\"} or {command = [\"PROGRAM\", \"ARGUMENT\"]}, with host = \"HOST\" if it is for requests to that host";

impl ConfiguredSecret {
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let table = value.as_object().ok_or(EXPECTED)?;
        let mut sources = table.iter().filter(|(key, _)| *key != "host");
        let (Some((key, source)), None) = (sources.next(), sources.next()) else {
            return Err(EXPECTED.into());
        };
        Ok(Self {
            source: SecretSource::parse(key, source)?,
            hosts: table.get("host").map(parse_hosts).transpose()?.unwrap_or_default(),
        })
    }

    /// The secret as it is written in a file.
    pub(super) fn to_json(&self) -> Value {
        let mut table = self.source.to_json();
        match &self.hosts[..] {
            [] => {}
            [host] => table["host"] = host.as_str().into(),
            hosts => table["host"] = hosts.into(),
        }
        table
    }
}

/// The hosts of a text or a list of texts, as permissions name them.
fn parse_hosts(value: &Value) -> Result<Vec<String>, String> {
    let texts = match value {
        Value::Array(texts) if !texts.is_empty() => &texts[..],
        text => std::slice::from_ref(text),
    };
    let host = |text: &Value| {
        normalize_secret_host(text.as_str().ok_or(EXPECTED)?).map_err(|reason| format!("host: {reason}"))
    };
    texts.iter().map(host).collect()
}

impl SecretSource {
    fn parse(key: &str, source: &Value) -> Result<Self, String> {
        let text = || source.as_str().filter(|text| !text.is_empty()).ok_or(EXPECTED);
        match key {
            "env" => match text()? {
                name if name.contains(['=', '\0']) => {
                    Err("the environment variable has an invalid name".into())
                }
                name => Ok(Self::Variable(name.to_owned())),
            },
            "file" => expand_home(text()?).map(Self::File),
            "command" => {
                let words = source.as_array().filter(|words| !words.is_empty()).ok_or(EXPECTED)?;
                let words = words.iter().map(|word| word.as_str().map(str::to_owned).ok_or(EXPECTED));
                Ok(Self::Command(words.collect::<Result<_, _>>()?))
            }
            _ => Err(EXPECTED.into()),
        }
    }

    /// The source as it is written in a file.
    fn to_json(&self) -> Value {
        match self {
            Self::Variable(name) => json!({"env": name}),
            Self::File(path) => json!({"file": path.display().to_string()}),
            Self::Command(words) => json!({"command": words}),
        }
    }

    /// The place that it is read from, without arguments of the program, which may be secret.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Variable(name) => format!("variable {name}"),
            Self::File(path) => format!("file {}", path.display()),
            Self::Command(words) => format!("program {}", words.first().map_or("", String::as_str)),
        }
    }

    /// Whether there is something to read; `None` where only reading it would tell.
    pub(super) fn exists(&self) -> Option<bool> {
        match self {
            Self::Variable(name) => Some(std::env::var(name).is_ok_and(|value| !value.trim().is_empty())),
            Self::File(path) => Some(path.is_file()),
            Self::Command(_) => None,
        }
    }

    /// The secret for a run; `None` where the variable is not set. The error is a part of a sentence for the script; what failed is in
    /// the log of the run.
    pub(super) fn read(&self, ctx: &SkillContext) -> Result<Option<String>, String> {
        self.content(ctx.cancel(), &untrusted_dirs(ctx)).map_err(|reason| {
            ctx.warn(format!("a secret could not be read: {reason}"));
            "its source cannot be read; the log of the run says why".to_owned()
        })
    }

    /// The same with what failed.
    fn content(&self, cancel: &CancelToken, untrusted: &UntrustedDirs) -> Result<Option<String>, String> {
        let (content, source) = match self {
            Self::Variable(name) => match std::env::var_os(name) {
                None => return Ok(None),
                Some(value) => (value.into_encoded_bytes(), format!("the environment variable {name}")),
            },
            // A script may have put a link there.
            Self::File(path) if untrusted.may_change(path) => {
                return Err(format!(
                    "{} is in a folder where scripts work: put the file outside of the project",
                    path.display()
                ));
            }
            Self::File(path) => {
                let content =
                    read_file(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
                (content, path.display().to_string())
            }
            Self::Command(words) => {
                let program = words.first().map_or("", String::as_str);
                let content = output(words, MAX_SIZE, cancel, untrusted)
                    .map_err(|error| format!("the program {program} {error}"))?;
                (content, format!("the output of the program {program}"))
            }
        };
        let text = to_text(content).map_err(|reason| format!("{source} {reason}"))?;
        let is_line = !matches!(self, Self::Variable(_));
        Ok(Some(if is_line { without_line_end(text) } else { text }))
    }
}

/// The folders of the run, and of those that called it: scripts may have written what is there.
fn untrusted_dirs(ctx: &SkillContext) -> UntrustedDirs {
    let runs = std::iter::successors(Some(ctx), |ctx| ctx.caller());
    let folders = runs.flat_map(|ctx| [ctx.project(), ctx.skill_files()]).flatten();
    UntrustedDirs::from_canonical(folders.map(|files| Files::root(files).to_owned()))
}

/// A blank text is not a secret: nothing could be redacted.
fn to_text(content: Vec<u8>) -> Result<String, String> {
    if content.len() > MAX_SIZE {
        return Err(format!("is larger than {MAX_SIZE} bytes"));
    }
    let text = String::from_utf8(content).map_err(|_| "is not UTF-8")?;
    if text.trim().is_empty() { Err("is blank".into()) } else { Ok(text) }
}

fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// At most one byte more than a secret may have.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    metier_core::host::open_regular(path)?.take(MAX_SIZE as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(unix)]
use super::secret_command::output;

#[cfg(not(unix))]
fn output(_: &[String], _: usize, _: &CancelToken, _: &UntrustedDirs) -> Result<Vec<u8>, String> {
    Err("cannot be run on this system".into())
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn nobody() -> UntrustedDirs {
        UntrustedDirs::new([])
    }

    fn command(script: &str) -> SecretSource {
        SecretSource::Command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[test]
    fn a_secret_is_what_the_program_prints_without_its_line_end() {
        let token = CancelToken::new();
        assert_eq!(command("printf 's3cret\\n'").content(&token, &nobody()), Ok(Some("s3cret".into())));
        assert_eq!(
            command("printf 'two\\nlines\\r\\n'").content(&token, &nobody()),
            Ok(Some("two\nlines".into()))
        );
        assert_eq!(command("pwd").content(&token, &nobody()), Ok(Some("/".into())));
    }

    #[test]
    fn no_error_contains_what_was_printed() {
        let token = CancelToken::new();
        for script in ["echo s3cret; exit 3", "echo s3cret; head -c 70000 /dev/zero", "printf 's3cret\\377'"]
        {
            let error = command(script).content(&token, &nobody()).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let missing = SecretSource::Command(vec!["/nowhere/s3cret-tool".into()])
            .content(&token, &nobody())
            .unwrap_err();
        assert!(missing.contains("failed to start"), "{missing}");
    }

    #[test]
    fn what_a_program_leaves_behind_does_not_delay_the_secret_and_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (alive, script) = (folder.path().join("alive"), "(sleep 1; touch $0) & printf s3cret");
        let words = ["sh", "-c", script, alive.to_str().unwrap()].map(str::to_owned).to_vec();
        let started = Instant::now();
        assert_eq!(
            SecretSource::Command(words).content(&CancelToken::new(), &nobody()),
            Ok(Some("s3cret".into()))
        );
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(!alive.exists(), "its child went on");
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let started = Instant::now();
        let error =
            command("printf s3cret; exec sleep 60").content(&CancelToken::new(), &nobody()).unwrap_err();
        assert!(error.contains("took longer than 10 s") && !error.contains("s3cret"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn a_program_and_its_children_end_with_the_run() {
        let token = CancelToken::new();
        let other = token.clone();
        let stopping = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            other.cancel();
        });
        let started = Instant::now();
        let error = command("sleep 60 & sleep 60").content(&token, &nobody()).unwrap_err();
        assert!(error.contains("stopped") && started.elapsed() < Duration::from_secs(5), "{error}");
        stopping.join().unwrap();
    }

    #[test]
    fn a_program_that_left_its_group_ends_with_the_run() {
        let token = CancelToken::new();
        let other = token.clone();
        let stopping = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            other.cancel();
        });
        let script = "import os, time; os.setpgid(0, os.getpgid(os.getppid())); time.sleep(30)";
        let words = ["python3", "-c", script].map(str::to_owned).to_vec();
        let started = Instant::now();
        let error = SecretSource::Command(words).content(&token, &nobody()).unwrap_err();
        assert!(error.contains("stopped") && started.elapsed() < Duration::from_secs(5), "{error}");
        stopping.join().unwrap();
    }

    #[test]
    fn no_source_is_in_a_folder_where_scripts_work() {
        let (project, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (token, untrusted) = (CancelToken::new(), UntrustedDirs::new([project.path()]));
        let at = |name: &str| project.path().join(name);
        std::fs::write(home.path().join("token"), "s3cret").unwrap();
        std::fs::write(at("tool"), "#!/bin/sh\necho s3cret").unwrap();
        std::fs::set_permissions(at("tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(home.path().join("token"), at("token")).unwrap();
        std::os::unix::fs::symlink(at("token"), home.path().join("link")).unwrap();
        std::os::unix::fs::symlink(at("tool"), home.path().join("tool")).unwrap();
        let file = SecretSource::File;
        assert_eq!(file(home.path().join("token")).content(&token, &untrusted), Ok(Some("s3cret".into())));
        for source in [file(at("token")), file(home.path().join("link")), file(at("nothing"))] {
            let error = source.content(&token, &untrusted).unwrap_err();
            assert!(error.contains("where scripts work"), "{error}");
        }
        for tool in [at("tool"), home.path().join("tool")] {
            let source = SecretSource::Command(vec![tool.display().to_string()]);
            assert_eq!(source.content(&token, &nobody()), Ok(Some("s3cret".into())));
            let error = source.content(&token, &untrusted).unwrap_err();
            assert!(error.contains("may not bring it"), "{error}");
        }
        let relative = SecretSource::Command(vec!["bin/sh".into()]).content(&token, &untrusted).unwrap_err();
        assert!(relative.contains("not absolute"), "{relative}");
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_a_pipe_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| SecretSource::File(folder.path().join(name));
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        std::fs::write(folder.path().join("large"), vec![b'a'; 70_000]).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let token = CancelToken::new();
        assert_eq!(at("token").content(&token, &nobody()), Ok(Some("s3cret".into())));
        std::fs::write(folder.path().join("blank"), " \n").unwrap();
        for name in ["large", "pipe", "missing", "blank", ""] {
            assert!(at(name).content(&token, &nobody()).is_err(), "{name}");
        }
    }

    #[test]
    fn a_secret_has_one_of_three_sources_and_perhaps_hosts() {
        for (written, is_valid) in [
            (json!({"env": "X"}), true),
            (json!({"file": "/x"}), true),
            (json!({"command": ["pass", "show", "x"]}), true),
            (json!({"env": "X", "file": "/x"}), false),
            (json!({"env": "A=B"}), false),
            (json!({"file": "x"}), false),
            (json!({"command": "pass show x"}), false),
            (json!({"command": []}), false),
            (json!({"env": "X", "host": "api.example.com"}), true),
            (json!({"env": "X", "host": ["api.example.com", "localhost:8443"]}), true),
            (json!({"env": "X", "host": "https://a.example.com"}), false),
            (json!({"env": "X", "host": "*.example.com"}), false),
            (json!({"env": "X", "host": []}), false),
            (json!({"host": "api.example.com"}), false),
            (json!({}), false),
            (json!("s3cret"), false),
        ] {
            match ConfiguredSecret::parse(&written) {
                Ok(secret) => assert_eq!((secret.to_json(), true), (written, is_valid)),
                Err(error) => assert!(!is_valid && !error.contains("s3cret"), "{written}: {error}"),
            }
        }
    }
}
