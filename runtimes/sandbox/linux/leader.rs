//! The last steps of a process before it is the script: every limit and every wall, then the program.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit, setsid};
use serde::{Deserialize, Serialize};

use super::super::sandbox::{API, Ceilings, Enforced, Order};
use super::calls::Filter;
use super::namespaces::Made;
use super::{capabilities, files, system};

/// What the leader tells the stub, a line each.
#[derive(Serialize, Deserialize)]
pub(super) enum Setup {
    /// All of this is on; the program comes next.
    Ready(Enforced),
    /// A step failed; nothing ran.
    Failed { step: String, errno: i32 },
}

/// Becomes the program of the order, caged. The pipe to the stub closes when the program starts.
pub(super) fn become_program(
    order: &Order,
    streams: [OwnedFd; 3],
    api: Option<OwnedFd>,
    made: Option<Made>,
    filter: Option<&Filter>,
    stub: OwnedFd,
) -> ! {
    // Whatever has the number of the API, nothing that is still needed may have it.
    let Ok(stub) = elsewhere(stub) else { system::exit(127) };
    let mut stub = File::from(stub);
    let (step, error) = match prepared(order, streams, api, made) {
        Ok((enforced, mut command)) => {
            say(&mut stub, &Setup::Ready(enforced));
            let unknown = || io::ErrorKind::Unsupported.into();
            let put_on = || filter.ok_or_else(unknown).and_then(Filter::put_on);
            match if order.cage.guard_calls { put_on() } else { Ok(()) } {
                Ok(()) => ("program", command.exec()),
                Err(error) => ("system calls", error),
            }
        }
        Err(failed) => failed,
    };
    say(&mut stub, &Setup::Failed { step: step.to_owned(), errno: errno(&error) });
    system::exit(127)
}

/// The number the system gave, however deep it lies.
pub(super) fn errno(error: &io::Error) -> i32 {
    let first = error.get_ref().map(|inner| -> &(dyn std::error::Error + 'static) { inner });
    let mut causes = std::iter::successors(first, |cause| cause.source());
    let deeper = || causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    error.raw_os_error().or_else(deeper).unwrap_or(0)
}

fn say(stub: &mut File, line: &Setup) {
    if let Ok(mut text) = serde_json::to_vec(line) {
        text.push(b'\n');
        // A stub that is gone has taken this process with it.
        stub.write_all(&text).ok();
    }
}

/// The same descriptor by a number above that of the API.
#[allow(clippy::needless_pass_by_value, reason = "the other number is given up")]
fn elsewhere(descriptor: OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(&descriptor, API + 1)
}

fn prepared(
    order: &Order,
    streams: [OwnedFd; 3],
    api: Option<OwnedFd>,
    made: Option<Made>,
) -> Result<(Enforced, Command), (&'static str, io::Error)> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    // Should the stub be killed for want of memory, this process goes with it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("parent"))?;
    setsid().map_err(at("session"))?;
    rustix::process::chdir(order.folder.as_os_str()).map_err(at("folder"))?;
    // When memory is short, the script goes before its host.
    std::fs::write("/proc/self/oom_score_adj", "500").ok();
    limit(order.cage.ceilings, made.and_then(|made| made.process_limit)).map_err(at("limits"))?;
    rustix::thread::set_no_new_privs(true).map_err(at("privileges"))?;
    capabilities::drop_all().map_err(at("capabilities"))?;
    let mut enforced = match &order.cage.files {
        Some(rules) => files::confine(rules, order.cage.shut_network).map_err(|error| ("files", error))?,
        None => Enforced::default(),
    };
    enforced.calls = order.cage.guard_calls;
    enforced.shut_network = order.cage.guard_calls && order.cage.shut_network;
    enforced.namespaces = made.is_some();
    if let Some(wall) = enforced.missing(&order.cage).next().filter(|_| order.cage.required) {
        return Err((wall, io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    let [stdin, stdout, stderr] = streams.map(|stream| elsewhere(stream).map_err(at("descriptors")));
    let mut command = Command::new(&order.program);
    command.args(&order.args).env_clear().envs(order.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::from(stdin?)).stdout(Stdio::from(stdout?)).stderr(Stdio::from(stderr?));
    hand_on(api).map_err(|error| ("descriptors", error))?;
    // What they mean, the helper has reset for all.
    system::unblock_signals();
    Ok((enforced, command))
}

/// To the kernel, one byte means no picture of the memory at all, not even to a program that collects them, which 0 allows.
const NO_CORE: u64 = 1;

/// Leaves the program its standard streams and, by its number, the end of the API.
fn hand_on(api: Option<OwnedFd>) -> io::Result<()> {
    let Some(api) = api else { return system::close_from(API) };
    system::place(&elsewhere(api)?, API)?;
    system::close_from(API + 1)
}

fn limit(ceilings: Ceilings, processes: Option<u64>) -> rustix::io::Result<()> {
    let all = [
        (Resource::Core, Some(NO_CORE)),
        (Resource::Data, ceilings.memory),
        (Resource::Cpu, ceilings.cpu_seconds),
        (Resource::Fsize, ceilings.file_size),
        (Resource::Nofile, ceilings.open_files),
        // Counted for each user of each namespace; outside of one, all that runs for the user would count.
        (Resource::Nproc, processes),
    ];
    for (resource, most) in all {
        let Some(most) = most else { continue };
        // A second more than it is told of, so that a process that is out of time is ended by the signal that says so.
        let last = if resource == Resource::Cpu { most.saturating_add(1) } else { most };
        let highest = rustix::process::getrlimit(resource).maximum.map_or(last, |maximum| maximum.min(last));
        setrlimit(resource, Rlimit { current: Some(highest.min(most)), maximum: Some(highest) })?;
    }
    Ok(())
}
