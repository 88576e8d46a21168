//! Runs a shell command that sees the current folder and changes a temporary one instead, which is listed afterwards:
//! `cargo run --example overlay -- 'rm *; echo new > file'`.

use std::error::Error;
use std::fs::File;
use std::os::fd::AsFd;

use metier_sandbox::{
    FileRules, LaunchRequest, Launcher, OverlayRequest, SandboxPolicy, fork_server_main, remove_folder,
};

fn main() -> Result<(), Box<dyn Error>> {
    fork_server_main(remove_folder);
    let script = std::env::args_os().nth(1).ok_or("which command?")?;
    let project = std::env::current_dir()?;
    let changes = std::env::temp_dir().join(format!("changes-{}", std::process::id()));
    let (upper, work) = (changes.join("upper"), changes.join("work"));
    std::fs::create_dir_all(&upper)?;
    std::fs::create_dir(&work)?;
    let launcher = Launcher::default();
    let lower = File::open(&project)?;
    let overlay =
        launcher.mount_overlay(OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work })?;
    let readable = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"];
    let files = FileRules {
        read: readable.map(Into::into).to_vec(),
        write: vec![project.as_path().into(), "/dev/null".into()],
        overlay: Some(overlay.mount_at(&project)),
        ..FileRules::default()
    };
    let request = LaunchRequest {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        folder: project.into(),
        sandbox: SandboxPolicy { files, required: true, ..SandboxPolicy::default() },
        cleanup_dirs: Vec::new(),
        timeout_ms: 60_000,
    };
    let streams = [
        std::io::stdin().as_fd().try_clone_to_owned()?,
        std::io::stdout().as_fd().try_clone_to_owned()?,
        std::io::stderr().as_fd().try_clone_to_owned()?,
    ];
    let report = launcher.start(&request, streams, None)?.wait().ok_or("the supervisor was killed")?;
    println!(
        "{:?}; what was created, changed or deleted (as a device 0:0) is in {}",
        report.end,
        upper.display()
    );
    Ok(())
}
