//! Files outside of the project.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{Fixture, has_mount_root, is_in_private_folder, private_home};

pub const CASES: &[Case] = &[
    case("E19", "to read, list and run what is outside", see),
    case("E19b", "lists of passwords, keys, homes", homes),
    case("E20", "to ask about what is outside without opening it", look),
    case("E21", "to create, change, move, link and remove outside", change),
    case("E22", "modes, times and attributes outside", mark),
    case("E23", "to watch a folder outside", spy),
    case("M4", "private keys beside the certificates that programs read", keys),
    case("M5", "a granted folder that is a link out of the project", linked_grant),
    case("M6", "a granted folder below a link out of the project", below_linked_grant),
    case("F32", "the skill's own files", own_skill),
    case("F31", "the project, without a grant to write", read_only),
];

fn see() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?;
    let outside = fixture.name("outside");
    fixture.args(&["see", &outside]).run().assert_refused(6, &["EACCES", "ENOENT", "EBADF"]);
    Ok(())
}

fn homes() -> CaseResult {
    let ran = Fixture::bash(
        "for path in /etc/shadow /etc/gshadow /etc/sudoers /root/.bashrc /root/.ssh /root /home /var/log /var/lib /run \\
            /etc/hostname /etc/machine-id /etc/ssh /boot /srv /mnt; do
            [ -e $path ] || { echo \"$path: absent\"; continue; }
            (exec 3<$path) 2>/dev/null && echo \"$path: done\" || echo \"$path: refused\"
        done",
    )
    .grant("write")
    .run();
    // Folders on the way to what a script sees have nothing else in them.
    let own = ["/root: done", "/home: done", "/run: done", "/var/lib: done", "/srv: done", "/mnt: done"];
    let own = if has_mount_root() { own.to_vec() } else { Vec::new() };
    // The home is the run's own.
    let home = private_home().map(|home| format!("{home}: done"));
    let own: Vec<&str> = own.into_iter().chain(home.as_deref()).collect();
    ran.assert_refused_but(16, &["refused", "absent"], &own);
    Ok(())
}

/// No level hides that a file is there, nor its size, but for what a private `/tmp` does not have; a handle to it opens nothing.
fn look() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?;
    let outside = fixture.name("outside");
    let expected = if is_in_private_folder(&outside) || has_mount_root() {
        "stat: ENOENT\nhandle: ENOENT\nchdir: ENOENT\n"
    } else {
        "stat: done\nhandle: done\nchdir: done\n"
    };
    fixture.args(&["look", &outside]).run().assert_stdout(expected);
    Ok(())
}

fn change() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?.grant("write");
    let outside = fixture.name("outside");
    let fixture = fixture.args(&["change", &outside]);
    fixture.run().assert_refused(17, &["EACCES", "EXDEV", "EROFS", "EPERM", "ENOENT"]);
    assert_eq!(fs::read(fixture.at("outside/secret")).unwrap(), b"secret\n");
    assert_eq!(fs::read_dir(fixture.at("outside")).unwrap().count(), 1);
    assert!(fixture.at("project/own").exists() && !fixture.at("project/stolen").exists());
    Ok(())
}

/// Landlock guards no metadata; where the level does not either, the outcome must not say so.
fn mark() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?.grant("write");
    fs::set_permissions(fixture.at("outside/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let outside = fixture.name("outside");
    let ran = fixture.args(&["mark", &outside]).run();
    let changed = ran.assert_ok().stdout().contains("done");
    assert_eq!(changed, !ran.sandbox().metadata_outside, "{} {:?}", ran.stdout(), ran.sandbox());
    Ok(())
}

fn spy() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?;
    let outside = fixture.name("outside");
    fixture.args(&["spy", &outside]).run().assert_refused(1, &["EPERM"]);
    Ok(())
}

/// Root may read what only root may read, so that no such thing may lie in what every script reads.
fn keys() -> CaseResult {
    let ran = Fixture::bash(
        "for folder in /etc/ssl/private /etc/pki/tls/private /etc/pki/private /etc/ssh; do
            [ -e $folder ] || { echo \"$folder: absent\"; continue; }
            ls $folder >/dev/null 2>&1 && echo \"$folder: done\" || echo \"$folder: refused\"
        done",
    )
    .run();
    ran.assert_refused(4, &["refused", "absent"]);
    Ok(())
}

/// A project may come from anywhere, and so may its links.
fn linked_grant() -> CaseResult {
    let fixture =
        Fixture::bash("echo in > out/new; cat out/secret; touch out/secret; echo changed > out/secret")
            .link("../outside", "project/out")
            .grant("write:out");
    let ran = fixture.run();
    assert_eq!(fs::read(fixture.at("outside/secret")).unwrap(), b"secret\n");
    assert!(!fixture.at("outside/new").exists(), "a link led out of the project");
    assert!(!ran.0.process.is_some_and(|process| process.stdout.contains("secret")));
    Ok(())
}

fn below_linked_grant() -> CaseResult {
    let fixture = Fixture::bash("echo changed > out/deep/file; cat out/deep/file")
        .file("outside/deep/file", "theirs\n")
        .link("../outside", "project/out")
        .grant("write:out/deep");
    let ran = fixture.run();
    assert_eq!(fs::read(fixture.at("outside/deep/file")).unwrap(), b"theirs\n");
    assert!(!ran.0.process.is_some_and(|process| process.stdout.contains("theirs")));
    Ok(())
}

fn own_skill() -> CaseResult {
    let ran = Fixture::bash(
        "cd \"$METIER_SKILL_DIR\"
        for file in SKILL.md scripts/run.bash; do
            (echo x >> $file) 2>/dev/null && echo \"$file: done\" || echo \"$file: refused\"
        done
        touch new 2>/dev/null && echo 'new: done' || echo 'new: refused'
        rm SKILL.md 2>/dev/null && echo 'rm: done' || echo 'rm: refused'",
    )
    .grant("write")
    .run();
    ran.assert_refused(4, &["refused"]);
    Ok(())
}

fn read_only() -> CaseResult {
    let fixture = Fixture::bash(
        "exec 2>/dev/null
        (echo x >> own) && echo 'append: done' || echo 'append: refused'
        (: > own) && echo 'truncate: done' || echo 'truncate: refused'
        touch new && echo 'create: done' || echo 'create: refused'
        mkdir d && echo 'mkdir: done' || echo 'mkdir: refused'
        rm own && echo 'remove: done' || echo 'remove: refused'
        mv own other && echo 'move: done' || echo 'move: refused'
        ln own other && echo 'link: done' || echo 'link: refused'
        truncate -s 0 own && echo 'cut: done' || echo 'cut: refused'",
    );
    fixture.run().assert_refused(8, &["refused"]);
    assert_eq!(fs::read(fixture.at("project/own")).unwrap(), b"own\n");
    Ok(())
}
