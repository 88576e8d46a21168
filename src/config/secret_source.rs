//! Where a secret of a skill comes from: an environment variable, a file, or what a program prints. It is read when a script
//! asks for it, and no error contains it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::value::expand_home;
use crate::policy::CancelToken;

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
const MAX_SIZE: u64 = 64 << 10;

/// How long a program may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a waiting provider looks whether its run was stopped.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);

const EXPECTED: &str =
    "expected {env = \"NAME\"}, {file = \"PATH\"} or {command = [\"PROGRAM\", \"ARGUMENT\"]}";

impl SecretSource {
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let table = value.as_object().filter(|table| table.len() == 1).ok_or(EXPECTED)?;
        let (key, source) = table.iter().next().ok_or(EXPECTED)?;
        let text = || source.as_str().filter(|text| !text.is_empty()).ok_or(EXPECTED);
        match key.as_str() {
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
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Variable(name) => json!({"env": name}),
            Self::File(path) => json!({"file": path.display().to_string()}),
            Self::Command(words) => json!({"command": words}),
        }
    }

    /// The secret; `None` where the variable is not set. The error says what failed, as a part of a sentence.
    pub(super) fn read(&self, cancel: &CancelToken) -> Result<Option<String>, String> {
        match self {
            Self::Variable(name) => match std::env::var(name) {
                Ok(value) => Ok(Some(value)),
                Err(std::env::VarError::NotPresent) => Ok(None),
                Err(std::env::VarError::NotUnicode(_)) => {
                    Err(format!("the environment variable {name} is not UTF-8"))
                }
            },
            Self::File(path) => {
                let content =
                    read_file(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
                text_without_line_end(content, &path.display().to_string()).map(Some)
            }
            Self::Command(words) => {
                let program = words.first().map_or("", String::as_str);
                let content = run(words, cancel).map_err(|error| format!("the program {program} {error}"))?;
                text_without_line_end(content, &format!("the output of the program {program}")).map(Some)
            }
        }
    }
}

fn text_without_line_end(content: Vec<u8>, of: &str) -> Result<String, String> {
    if content.len() as u64 > MAX_SIZE {
        return Err(format!("{of} is larger than {MAX_SIZE} bytes"));
    }
    let mut text = String::from_utf8(content).map_err(|_| format!("{of} is not UTF-8"))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// At most one byte more than a secret may have.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    super::open::open_regular(path)?.take(MAX_SIZE + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// What a program prints, at most one byte more than a secret may have. It runs in the root folder: a file of the project must
/// not decide what it does.
fn run(words: &[String], cancel: &CancelToken) -> Result<Vec<u8>, String> {
    let (program, arguments) = words.split_first().ok_or("is missing")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|error| format!("failed to start: {}", error.kind()))?;
    let (sender, receiver) = channel();
    let stdout = child.stdout.take();
    let reader = std::thread::Builder::new().name("secret".into()).spawn(move || {
        let mut output = Vec::new();
        let read = stdout.map_or(Ok(0), |stdout| stdout.take(MAX_SIZE + 1).read_to_end(&mut output));
        // Nobody listens any more if it took too long.
        sender.send(read.map(|_| output)).ok();
    });
    let result = match reader {
        Ok(_) => wait_for_output(&receiver, &mut child, cancel),
        Err(_) => Err("could not be read: no thread could be started".to_owned()),
    };
    if result.is_err() {
        kill(&mut child);
    }
    child.wait().ok();
    result
}

fn wait_for_output(
    receiver: &std::sync::mpsc::Receiver<std::io::Result<Vec<u8>>>,
    child: &mut std::process::Child,
    cancel: &CancelToken,
) -> Result<Vec<u8>, String> {
    let until = Instant::now() + COMMAND_TIMEOUT;
    let mut output = None;
    loop {
        if cancel.is_cancelled() {
            return Err("was stopped with the run".into());
        }
        if Instant::now() >= until {
            return Err(format!("took longer than {} s", COMMAND_TIMEOUT.as_secs()));
        }
        match &output {
            None => match receiver.recv_timeout(CANCEL_INTERVAL) {
                Ok(Ok(bytes)) if bytes.len() as u64 > MAX_SIZE => {
                    return Ok(bytes).and_then(|bytes: Vec<u8>| {
                        Err(format!("printed more than {} bytes", bytes.len() - 1))
                    });
                }
                Ok(Ok(bytes)) => output = Some(bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err("could not be read".into()),
            },
            // What it printed counts only if it ended well.
            Some(bytes) => match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(bytes.clone()),
                Ok(Some(status)) => return Err(format!("failed ({status})")),
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return Err("could not be awaited".into()),
            },
        }
    }
}

/// Ends the program and what it started.
fn kill(child: &mut std::process::Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
    }
    child.kill().ok();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn command(script: &str) -> SecretSource {
        SecretSource::Command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[test]
    fn a_secret_is_what_the_program_prints_without_its_line_end() {
        let token = CancelToken::new();
        assert_eq!(command("printf 's3cret\\n'").read(&token), Ok(Some("s3cret".into())));
        assert_eq!(command("printf 'two\\nlines\\r\\n'").read(&token), Ok(Some("two\nlines".into())));
        assert_eq!(command("pwd").read(&token), Ok(Some("/".into())));
    }

    #[test]
    fn no_error_contains_what_was_printed() {
        let token = CancelToken::new();
        for script in ["echo s3cret; exit 3", "echo s3cret; head -c 70000 /dev/zero", "printf 's3cret\\377'"]
        {
            let error = command(script).read(&token).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let missing = SecretSource::Command(vec!["/nowhere/s3cret-tool".into()]).read(&token).unwrap_err();
        assert!(missing.contains("failed to start"), "{missing}");
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
        let error = command("sleep 60 & sleep 60").read(&token).unwrap_err();
        assert!(error.contains("stopped") && started.elapsed() < Duration::from_secs(5), "{error}");
        stopping.join().unwrap();
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_a_pipe_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| SecretSource::File(folder.path().join(name));
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        std::fs::write(folder.path().join("large"), vec![b'a'; 70_000]).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let token = CancelToken::new();
        assert_eq!(at("token").read(&token), Ok(Some("s3cret".into())));
        for name in ["large", "pipe", "missing", ""] {
            assert!(at(name).read(&token).is_err(), "{name}");
        }
    }

    #[test]
    fn a_source_is_one_of_three() {
        for (written, is_valid) in [
            (json!({"env": "X"}), true),
            (json!({"file": "/x"}), true),
            (json!({"command": ["pass", "show", "x"]}), true),
            (json!({"env": "X", "file": "/x"}), false),
            (json!({"env": "A=B"}), false),
            (json!({"file": "x"}), false),
            (json!({"command": "pass show x"}), false),
            (json!({"command": []}), false),
            (json!({}), false),
            (json!("s3cret"), false),
        ] {
            let source = SecretSource::parse(&written);
            assert_eq!(source.is_ok(), is_valid, "{written}");
            assert!(source.err().is_none_or(|error| !error.contains("s3cret")));
        }
    }
}
