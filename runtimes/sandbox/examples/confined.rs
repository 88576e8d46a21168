//! Runs a command that can read the system's programs and libraries, change the current folder, and reach no network; then says how that
//! went: `cargo run --example confined -- COMMAND [ARGUMENT…]`.

use std::error::Error;
use std::ffi::OsString;
use std::os::fd::AsFd;

use metier_sandbox::{FileRules, LaunchRequest, Launcher, SandboxPolicy, fork_server_main, remove_folder};

fn main() -> Result<(), Box<dyn Error>> {
    fork_server_main(remove_folder);
    let mut command = std::env::args_os().skip(1);
    let program = command.next().ok_or("which command?")?;
    let folder = std::env::current_dir()?;
    let readable = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"];
    let files = FileRules {
        read: readable.map(Into::into).to_vec(),
        write: vec![folder.as_path().into(), "/dev/null".into()],
        ..FileRules::default()
    };
    let request = LaunchRequest {
        program: find(&program),
        args: command.collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        folder: folder.into(),
        sandbox: SandboxPolicy { files, required: true, ..SandboxPolicy::default() },
        cleanup_dirs: Vec::new(),
        timeout_ms: 60_000,
    };
    let streams = [
        std::io::stdin().as_fd().try_clone_to_owned()?,
        std::io::stdout().as_fd().try_clone_to_owned()?,
        std::io::stderr().as_fd().try_clone_to_owned()?,
    ];
    let started = Launcher::default().start(&request, streams, None)?;
    let report = started.wait().ok_or("the supervisor was killed")?;
    println!("{report:#?}");
    Ok(())
}

/// The command as a path.
fn find(command: &OsString) -> OsString {
    let found = ["/usr/bin", "/bin"].map(|folder| std::path::Path::new(folder).join(command));
    found.into_iter().find(|path| path.exists()).map_or_else(|| command.clone(), Into::into)
}
