//! What a program prints that has a secret. It ends, with all that it started in its process group, before the answer is there.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use metier_core::host::untrusted::UntrustedDirs;
use metier_core::policy::CancelToken;

/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a waiting provider looks whether its run was stopped.
const CANCEL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How often it looks whether a program has ended that prints nothing more.
const END_INTERVAL: Duration = Duration::from_millis(1);

/// How long a program may take to end after it was killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The folders that are searched if the host has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a program prints, if it ends well; the error is the end of a sentence about it. It runs in the root folder, and neither it nor
/// what it finds on `PATH` is in an untrusted folder: a file of the project must not decide what it does.
pub(super) fn output(
    words: &[String],
    max_size: usize,
    cancel: &CancelToken,
    untrusted: &UntrustedDirs,
) -> Result<Vec<u8>, String> {
    let (name, arguments) = words.split_first().ok_or("is missing")?;
    let folders = search_path(untrusted);
    let mut command = Command::new(locate(name, &folders, untrusted)?);
    command
        .args(arguments)
        .env("PATH", std::env::join_paths(&folders).unwrap_or_default())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let number = Arc::new(Mutex::new(None));
    // The program that embeds metier may end with the run, before this thread sees that: what stops the run kills the group itself.
    // While the program is started the lock is held, so that a stop in between waits for the number.
    let stopped = number.clone();
    let _on_stop = cancel.on_stop(move |_| kill(&stopped));
    let mut started = number.lock().unwrap_or_else(PoisonError::into_inner);
    if cancel.cause().is_some() {
        return Err("was stopped with the run".into());
    }
    let program = command.spawn().map_err(|error| format!("failed to start: {}", error.kind()))?;
    *started = Some(Pid::from_child(&program));
    drop(started);
    let mut group = ProcessGroup { program, number };
    let mut stdout = group.program.stdout.take();
    let (mut printed, until) = (Vec::new(), Instant::now() + TIMEOUT);
    loop {
        if cancel.cause().is_some() {
            return Err("was stopped with the run".into());
        }
        if Instant::now() >= until {
            return Err(format!(
                "took longer than {} s; it cannot ask for anything on the terminal",
                TIMEOUT.as_secs()
            ));
        }
        let has_ended = group.has_ended()?;
        // A child of the program may hold the pipe open; what the program itself printed is in it by now.
        let wait = if has_ended { Timespec::default() } else { CANCEL_INTERVAL };
        let Some(pipe) = &mut stdout else {
            if has_ended {
                return group.end().map(|()| printed);
            }
            std::thread::sleep(END_INTERVAL);
            continue;
        };
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&wait)) {
            Ok(0) if has_ended => stdout = None,
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let mut part = [0; 4096];
                match pipe.read(&mut part) {
                    Ok(0) => stdout = None,
                    Ok(count) => printed.extend(part.iter().take(count)),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(format!("could not be read: {}", error.kind())),
                }
            }
            Err(error) => return Err(format!("could not be read: {}", error.kind())),
        }
        if printed.len() > max_size {
            return Err(format!("printed more than {max_size} bytes"));
        }
    }
}

/// The absolute folders of `PATH` that are not in an untrusted one.
fn search_path(untrusted: &UntrustedDirs) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute() && !untrusted.may_control(folder))
        .collect()
}

/// The program of that name: at its absolute path, or in the first folder that has it.
fn locate(name: &str, folders: &[PathBuf], untrusted: &UntrustedDirs) -> Result<PathBuf, String> {
    let is_program =
        |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    let is_path = name.contains('/');
    if is_path && !Path::new(name).is_absolute() {
        return Err("failed to start: its path is not absolute".into());
    }
    let named = Some(PathBuf::from(name)).filter(|_| is_path);
    let on_path = folders.iter().filter(|_| !is_path).map(|folder| folder.join(name));
    let found = named.into_iter().chain(on_path).filter(is_program);
    let mut is_refused = false;
    for program in found {
        if !untrusted.may_control(&program) {
            return Ok(program);
        }
        is_refused = true;
    }
    Err(if is_refused {
        "is in the project or in a skill, which may not bring it".into()
    } else if is_path {
        "failed to start: it is not there, or no program".into()
    } else {
        "failed to start: it is not on PATH outside of the project".into()
    })
}

/// A program and what it started; all of them are killed in the end.
struct ProcessGroup {
    program: Child,
    /// Its number, until the program is awaited: after that it may be that of another one.
    number: Arc<Mutex<Option<Pid>>>,
}

fn kill(number: &Mutex<Option<Pid>>) {
    if let Some(program) = *number.lock().unwrap_or_else(PoisonError::into_inner) {
        kill_process_group(program, Signal::KILL).ok();
        // It may have left its group.
        kill_process(program, Signal::KILL).ok();
    }
}

impl ProcessGroup {
    /// Whether the program has ended. It is not awaited, so its number is not taken by another one before the group is killed.
    fn has_ended(&self) -> Result<bool, String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.program)), options)
            .map(|status| status.is_some())
            .map_err(|_| "could not be awaited".to_owned())
    }

    /// Kills what is left of the group; the error says how the program ended unless it ended well.
    fn end(&mut self) -> Result<(), String> {
        kill(&self.number);
        self.number.lock().unwrap_or_else(PoisonError::into_inner).take();
        let until = Instant::now() + END_TIMEOUT;
        loop {
            match self.program.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("failed ({status})")),
                Ok(None) if Instant::now() < until => std::thread::sleep(END_INTERVAL),
                Ok(None) => return Err("was killed and does not end".into()),
                Err(_) => return Err("could not be awaited".into()),
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.number.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.end().ok();
        }
    }
}
