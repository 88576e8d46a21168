//! Runs a program twice, the second time watched, and prints what it wanted to access and how long both took:
//! `cargo run --example watched -- python3 -c 'open("/etc/passwd")'`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use metier_sandbox::{
    AccessKinds, FileRules, LaunchRequest, Launcher, SandboxPolicy, SupervisorReport, WatchRules,
    WatchedFolder,
};

fn main() -> io::Result<()> {
    metier_sandbox::fork_server_main(metier_sandbox::remove_folder);
    let mut command = std::env::args_os().skip(1);
    let program = command.next().ok_or(io::ErrorKind::InvalidInput)?;
    let read = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Into::into).to_vec();
    let files = FileRules { read, write: vec!["/dev/null".into()], ..FileRules::default() };
    let folder = |path: &str| WatchedFolder { path: path.into(), accesses: AccessKinds::all() };
    let mut request = LaunchRequest {
        program: if Path::new(&program).is_absolute() {
            program
        } else {
            Path::new("/usr/bin").join(program).into()
        },
        args: command.collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        folder: "/".into(),
        sandbox: SandboxPolicy { files, required: true, ..SandboxPolicy::default() },
        cleanup_dirs: Vec::new(),
        timeout_ms: 60_000,
    };
    let launcher = Launcher::default();
    let (plain, _) = run(&launcher, &request)?;
    let folders = ["/home", "/root", "/etc", "/tmp"].map(folder).to_vec();
    request.sandbox.watch = Some(WatchRules { folders, programs: true });
    let (watched, report) = run(&launcher, &request)?;
    let observed = report.observations.ok_or_else(|| io::Error::other("the run could not be watched"))?;
    for access in &observed.accesses {
        eprintln!("{:?} {} ({})", access.kind, access.path.display(), access.count);
    }
    eprintln!("{} more; {plain:?}, and watched {watched:?}", observed.unrecorded);
    Ok(())
}

fn run(launcher: &Launcher, request: &LaunchRequest) -> io::Result<(Duration, SupervisorReport)> {
    let stdout = || io::stdout().as_fd().try_clone_to_owned();
    let streams: [OwnedFd; 3] = [std::fs::File::open("/dev/null")?.into(), stdout()?, stdout()?];
    let began = Instant::now();
    let report = launcher.start(request, streams, None)?.wait();
    Ok((began.elapsed(), report.ok_or_else(|| io::Error::other("the supervisor was killed"))?))
}
