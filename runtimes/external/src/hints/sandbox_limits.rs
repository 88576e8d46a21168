//! What no script in a sandbox has, recognized by the words of interpreters and programs that miss it: no observation shows it.

use crate::error_line::error_line;
use crate::hints::words::{last_lines, matches_any};
use crate::permission_hint::{Help, permission_hint};
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// Something that a sandbox does not have.
struct SandboxLimit {
    /// In lower case, as `matches_any` reads them.
    words: &'static str,
    sentence: &'static str,
    /// What would give it, if that is no more than it.
    access: Option<fn() -> Access>,
}

/// The first match counts.
const SANDBOX_LIMITS: [SandboxLimit; 8] = [
    SandboxLimit {
        words: "/dev/shm|semlock|shm_open|shared_memory",
        sentence: "the sandbox has no memory that programs share by name (/dev/shm)",
        access: Some(Access::shm),
    },
    SandboxLimit {
        words: "flock+function not implemented|flock+errno 38|enosys+flock|cannot lock+function not implemented",
        sentence: "a script that may write nothing of the project cannot lock whole files (flock)",
        access: Some(|| Access::write("it")),
    },
    // Git names no path.
    SandboxLimit {
        words: "could not write index|unable to create temporary file: read-only|unable to create temporary file: permission",
        sentence: "the sandbox lets this script read .git, not change it",
        access: Some(|| Access::write(".git")),
    },
    SandboxLimit {
        words: "pseudo-terminal|pty devices|openpty|forkpty|/dev/ptmx|/dev/pts|open terminal failed",
        sentence: "a script in a sandbox has no terminal and can make none",
        access: None,
    },
    SandboxLimit {
        words: "inotify|operation not permitted, watch",
        sentence: "a script in a sandbox cannot have the system watch files (inotify), but may look at them again and again",
        access: None,
    },
    SandboxLimit {
        words: "uv_interface_addresses",
        sentence: "a script sees the network interfaces of the machine only with the whole network",
        access: None,
    },
    SandboxLimit {
        words: "docker daemon|docker.sock|d-bus+bus|connection to server on socket|unix:///|/run/+.sock",
        sentence: "the sandbox reaches no service of this machine through a local socket, with or without the network",
        access: None,
    },
    SandboxLimit {
        words: "listen eperm: operation not permitted /|connect eperm /|dial unix|listen unix|\
                error connecting to /+operation not permitted|no agent running|multiprocessing/managers.py+eoferror|\
                multiprocessing/connection.py+operation not permitted|operation not permitted+socket",
        sentence: "a script in a sandbox has no local sockets with a path (AF_UNIX) but its own in /tmp and TMPDIR, and those only without \
                   a grant for the network; pipes and `socketpair` connect its own processes",
        access: None,
    },
];

/// The hint for a script that failed with this output.
pub(crate) fn sandbox_limit_hint(ctx: &SkillContext, text: &str) -> Option<Help> {
    // A traceback shows the call in lines of its own, and git goes on after the reason.
    let all = last_lines(text).collect::<Vec<_>>().join("\n").to_lowercase();
    let line = error_line(text)?.to_lowercase();
    let is_traceback = all.contains("  file \"");
    let said = |limit: &&SandboxLimit| if limit.access.is_some() || is_traceback { &all } else { &line };
    SANDBOX_LIMITS.iter().filter(|limit| matches_any(said(limit), limit.words)).find_map(|limit| match limit
        .access
    {
        None => Some((limit.sentence.to_owned(), None)),
        Some(access) => {
            let (help, hint) = permission_hint(ctx, &access())?;
            Some((format!("{}; if the script needs it, {help}", limit.sentence), hint))
        }
    })
}
