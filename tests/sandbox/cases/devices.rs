//! Devices, and the windows that /proc and /sys are.

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{Fixture, has_mount_root, is_in_private_folder, private_home};

pub const CASES: &[Case] = &[
    case("E26", "devices, /dev/shm, /tmp, /proc, /sys, folders of the system", devices),
    case("E27", "a device made in the project, and a link to /etc/shadow", made_device),
    case("F21", "a pipe and a device in the project", existing_device),
];

/// What a script sees of itself, and the folders that lead to what it sees.
const OF_ITS_OWN_ROOT: [&str; 14] = [
    "/proc/self/mem: done",
    "/proc/self/environ: done",
    "/proc/self/smaps: done",
    "/proc/self/status: done",
    "/proc: done",
    "/sys: done",
    "/: done",
    "/dev: done",
    "/run: done",
    "/var: done",
    "/etc: done",
    "/home: done",
    "/root: done",
    "/tmp: done",
];

fn devices() -> CaseResult {
    // What is not there at all is as good as refused.
    let mut own = Vec::new();
    if is_in_private_folder("/tmp/x") {
        own.extend(["/tmp/metier-x: done", "/tmp: done"]);
    }
    if has_mount_root() {
        own.extend(OF_ITS_OWN_ROOT);
    }
    let home = private_home().map(|home| format!("{home}: done"));
    own.extend(home.as_deref());
    let ran = Fixture::attacker("files", &["devices"])?.grant("write").run();
    ran.assert_refused_but(33, &["EPERM", "EACCES", "ENOENT", "ENXIO", "EROFS"], &own);
    assert!(!std::path::Path::new("/tmp/metier-x").exists());
    Ok(())
}

fn made_device() -> CaseResult {
    let fixture = Fixture::bash(
        "exec 2>/dev/null
        mknod null c 1 3 && echo 'null: done' || echo 'null: refused'
        mknod disk b 8 0 && echo 'disk: done' || echo 'disk: refused'
        ln -s /etc/shadow shadow; cat shadow && echo 'shadow: done' || echo 'shadow: refused'
        chmod u+s own && echo set",
    )
    .grant("write");
    let ran = fixture.run();
    ran.assert_refused(3, &["refused"]);
    assert!(ran.stdout().ends_with("set\n"), "programs need chmod: {}", ran.stdout());
    Ok(())
}

fn existing_device() -> CaseResult {
    let fixture =
        Fixture::bash("mkfifo pipe; (echo through > pipe &) ; cat pipe; cat /dev/zero | head -c 3 | wc -c")
            .grant("write");
    fixture.run().assert_stdout("through\n3\n");
    Ok(())
}
