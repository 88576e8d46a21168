//! The infrastructure that a skill requires: variables are looked for, and services and files on request, each within a time limit.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::report::{Requirement, RequirementKind};
use metier_core::host::{HttpRequest, SkillContext, config_variable};
use metier_core::policy::{PathProtection, Permission, Permissions, RequestedPermissions};
use metier_skill::contract::{Infrastructure, InfrastructureKind, host_and_port};

/// The most time for one service.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most time for all services of one skill, and of the skills that it needs.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The most addresses of one host that are tried.
const MAX_ADDRESSES: usize = 4;
/// The most bytes of an answer of the web. Only its status counts.
const MAX_ANSWER: u64 = 64 << 10;

const NOT_PROBED: &str = "it is looked for only on request";

/// A request to look for services and files, which takes time and is seen by others.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    deadline: Instant,
}

impl Probe {
    pub(super) fn new() -> Self {
        Self { deadline: Instant::now() + MAX_TIME }
    }

    /// The time for one service; `None` when none is left.
    fn time(&self) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now())?;
        Some(left.min(TIMEOUT)).filter(|time| !time.is_zero())
    }
}

/// Whether this part of the infrastructure is there. `project` is where relative paths begin.
pub(super) fn check_infrastructure(
    part: &Infrastructure,
    ctx: &SkillContext,
    project: &Path,
    probe: Option<&Probe>,
) -> Requirement {
    let requirement = Requirement::available(RequirementKind::Infrastructure, &part.name)
        .required(part.required)
        .purpose(part.reason.clone());
    let (Some(kind), Some(target)) = (part.kind, part.target.as_deref()) else {
        return requirement.unchecked("nothing says how to look for it");
    };
    let subject = match kind {
        InfrastructureKind::Env => format!("the environment variable {target}"),
        InfrastructureKind::File => format!("the file {target}"),
        _ => target.to_owned(),
    };
    let subject = if target == part.name { subject } else { format!("{subject} of {}", part.name) };
    let missing = |state: &str, help: String| {
        let reason = requirement.describe(&subject, state);
        requirement.clone().missing(reason, help)
    };
    if kind == InfrastructureKind::Env {
        return match config_variable(ctx, target) {
            None => missing("is not set", format!("set the environment variable {target}")),
            Some((value, _)) if value.is_empty() => {
                missing("is set to empty", format!("set the environment variable {target}"))
            }
            Some(_) => requirement,
        };
    }
    let Some(probe) = probe else { return requirement.unchecked(NOT_PROBED) };
    let Some(time) = probe.time() else {
        return requirement.unchecked("no time was left to look for it");
    };
    let found = match kind {
        InfrastructureKind::Tcp => connect(target, time),
        InfrastructureKind::Http => request(target, ctx, time),
        InfrastructureKind::File => find_file(target, project),
        _ => Ok(Some("nothing looks for what is of its kind".to_owned())),
    };
    match found {
        Ok(None) => requirement,
        Ok(Some(unknown)) => requirement.unchecked(unknown),
        Err(state) => missing(&state, format!("see that {} is there", part.name)),
    }
}

/// Nothing where it is there, why that is not known, or, as an error, why it is not there.
type Found = std::result::Result<Option<String>, String>;

fn connect(target: &str, time: Duration) -> Found {
    let Some((host, port)) = host_and_port(target) else { return Err("is no HOST:PORT".to_owned()) };
    let host = host.to_owned();
    // A lookup has no time limit of its own; it ends by itself.
    let connected = within(time, move || {
        let addresses: Vec<SocketAddr> =
            (host.as_str(), port).to_socket_addrs()?.take(MAX_ADDRESSES).collect();
        let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
        let share = time / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        for address in addresses {
            match TcpStream::connect_timeout(&address, share.max(Duration::from_millis(1))) {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    match connected {
        Some(Ok(())) => Ok(None),
        Some(Err(error)) => Err(format!("cannot be reached: {}", reason(&error))),
        None => Err(format!("does not answer within {} seconds", time.as_secs_f32().ceil())),
    }
}

/// The request is made by the client of scripts, with the permission to reach the host that the target names and no other.
fn request(target: &str, ctx: &SkillContext, time: Duration) -> Found {
    let Some(client) = ctx.providers().http.clone() else {
        return Ok(Some("this build has no client for the web".to_owned()));
    };
    let Some(permission) = host_permission(target) else {
        return Err("is not an address of the web".to_owned());
    };
    let permissions = Permissions::new(
        RequestedPermissions::Listed(vec![permission.clone()]),
        [permission],
        PathProtection::default(),
    );
    let ctx = SkillContext::builder(ctx.skill()).permissions(permissions).build();
    let mut request = HttpRequest::new("GET", target, MAX_ANSWER);
    request.timeout = Some(time);
    match within(time, move || client.send(&ctx, request)) {
        Some(Ok(response)) if response.status < 500 => Ok(None),
        Some(Ok(response)) => Err(format!("answers with the status {}", response.status)),
        Some(Err(error)) => Err(format!("cannot be reached: {}", error.message())),
        None => Err(format!("does not answer within {} seconds", time.as_secs_f32().ceil())),
    }
}

/// The permission to reach the host of an address of the web.
fn host_permission(target: &str) -> Option<Permission> {
    let rest = target.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('@') {
        return None;
    }
    Permission::net(authority).ok()
}

/// A relative path leads to a file of the project, also by links.
fn find_file(target: &str, project: &Path) -> Found {
    let path = Path::new(target);
    if path.is_absolute() {
        return if path.exists() { Ok(None) } else { Err("does not exist".to_owned()) };
    }
    let real = |path: &Path| std::fs::canonicalize(path).map_err(|_| "does not exist".to_owned());
    if real(&project.join(path))?.starts_with(real(project)?) {
        return Ok(None);
    }
    Err("is outside of the project".to_owned())
}

/// What `work` returns on a thread of its own, if it does so in time.
fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let spawned = std::thread::Builder::new().name("metier-probe".into()).spawn(move || {
        sender.send(work()).ok();
    });
    spawned.ok().and_then(|_| receiver.recv_timeout(time).ok())
}

/// The kind of an error, without what the system says of it.
fn reason(error: &std::io::Error) -> String {
    error.kind().to_string()
}
