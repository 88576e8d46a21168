//! Other processes: the host, the stub, and what processes share by number or name.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use metier::policy::SandboxLevel;

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{Fixture, has_mount_root, landlock_abi, level};
use crate::sandbox::{attackers, survivors};

pub const CASES: &[Case] = &[
    case("E7", "to kill everyone, its parent, and its group", everyone),
    case("E28", "to look into, signal, limit, slow down, pin and schedule the host", host),
    case("E28b", "the same with the stub that watches it", supervisor),
    case("E29", "what /proc shows of others", proc),
    case("E30", "limits and priorities of the host, by the tools there are", tools),
    case("E31", "memory, semaphores and queues that are shared by number or name", shared),
    case("M2", "to stop another run beside it", neighbour),
];

/// A process of the host's, for as long as a case takes.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Whether a mass kill stays inside; where it does not, it is not tried.
fn signals_stay_inside() -> CaseResult {
    let held = Fixture::bash("true").run().sandbox().signals;
    if held { Ok(()) } else { SkipReason::unsupported("signals are not kept inside on this kernel") }
}

fn everyone() -> CaseResult {
    signals_stay_inside()?;
    let mut bystander = Bystander(Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap());
    Fixture::attacker("processes", &["everyone"])?.run().assert_stdout("still here\n");
    let ran = Fixture::bash("kill -9 0").run();
    assert_eq!(ran.process().signal, Some(9));
    let ran = Fixture::bash("kill -9 $PPID; kill -9 1; kill -9 -1; echo still here").run();
    // Bash spares itself where it is asked to kill everyone.
    assert!(ran.process().signal == Some(9) || ran.stdout() == "still here\n", "{ran:?}");
    assert!(ran.process().signal == Some(9) || ran.process().exit_code == Some(0));
    assert!(bystander.0.try_wait().unwrap().is_none(), "a bystander was killed");
    Ok(())
}

fn host() -> CaseResult {
    signals_stay_inside()?;
    let host = std::process::id().to_string();
    Fixture::attacker("processes", &["touch", &host])?.run().assert_refused(21, &["EPERM", "ESRCH"]);
    Ok(())
}

fn supervisor() -> CaseResult {
    signals_stay_inside()?;
    // The first process of a PID namespace ignores what the others send it.
    let ignored = ["signal", "wake", "signal a thread", "queue a signal", "signal by handle"];
    let ignored = ignored.map(|attempt| format!("{attempt}: done"));
    let ignored: Vec<&str> = ignored.iter().map(String::as_str).collect();
    let is_scoped = level() != SandboxLevel::Namespaces || landlock_abi() >= 6;
    let ran = Fixture::attacker("processes", &["stub"])?.run();
    ran.assert_refused_but(21, &["EPERM", "ESRCH"], if is_scoped { &[] } else { &ignored });
    Ok(())
}

fn proc() -> CaseResult {
    let host = std::process::id();
    let ran = Fixture::bash(&format!(
        "for file in environ maps mem cmdline stat status limits mountinfo auxv exe fd/0 root/etc/passwd cwd/Cargo.toml; do
            for process in {host} $PPID; do
                (exec 3</proc/$process/$file) 2>/dev/null && echo \"$process $file: done\" || echo \"$process $file: refused\"
            done
        done
        ls /proc 2>/dev/null && echo 'proc: done' || echo 'proc: refused'"
    ))
    .run();
    let own = if has_mount_root() { &["proc: done"][..] } else { &[] };
    ran.assert_refused_but(27, &["refused"], own);
    Ok(())
}

fn tools() -> CaseResult {
    let host = std::process::id().to_string();
    let ran = Fixture::bash(
        "exec 2>/dev/null
        for tool in 'renice -n 5 -p' 'renice -n 5 -u' 'prlimit --nofile=64 --pid' 'taskset -p 1' 'ionice -c 3 -p' 'chrt -b -p 0' 'kill -9'; do
            command -v ${tool%% *} >/dev/null || { echo \"$tool: absent\"; continue; }
            target=$1; case $tool in *-u) target=$UID;; esac
            $tool $target >/dev/null && echo \"$tool: done\" || echo \"$tool: refused\"
        done",
    )
    .args(&[&host])
    .run();
    ran.assert_refused(7, &["refused", "absent"]);
    Ok(())
}

fn shared() -> CaseResult {
    let queue = format!("/metier-sandbox-{}", std::process::id());
    let mut owner = Command::new(attackers::program("owner")?);
    let mut owner =
        Bystander(owner.arg(&queue).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut made = String::new();
    BufReader::new(owner.0.stdout.take().unwrap()).read_line(&mut made).unwrap();
    let made: Vec<&str> = made.split_whitespace().collect();
    let ran = Fixture::attacker("shared", &[made[0], made[1]])?.grant("write").run();
    drop(owner.0.stdin.take());
    assert!(owner.0.wait().unwrap().success(), "the host's queue was ended: {}", ran.stdout());
    ran.assert_refused(9, &["EPERM", "EACCES", "EROFS", "ENOENT"]);
    Ok(())
}

fn neighbour() -> CaseResult {
    signals_stay_inside()?;
    let quiet = Fixture::bash("echo $$ > pid; sleep 1; echo unharmed").grant("write");
    let engine = quiet.engine();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(quiet.invocation()));
        let pid = loop {
            let said = std::fs::read_to_string(quiet.at("project/pid")).unwrap_or_default();
            if let Some(pid) = said.strip_suffix('\n') {
                break pid.to_owned();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        // Where numbers are its own, the script gave none of the machine's.
        let (own, there) = (survivors::first_process(quiet.mark()).to_string(), pid);
        let loud = Fixture::bash(
            "for pid in $1 $2; do [ $pid -lt 100 ] || { kill -9 $pid 2>&1; kill -9 -$pid 2>&1; }; done; exit 0",
        );
        let ran = loud.args(&[&own, &there]).run();
        let refused =
            ran.stdout().matches("not permitted").count() + ran.stdout().matches("o such process").count();
        assert!(refused >= 2 && refused == ran.stdout().lines().count(), "{}", ran.stdout());
        assert_eq!(run.join().unwrap().process.unwrap().stdout, "unharmed\n");
    });
    survivors::assert_none(quiet.mark());
    Ok(())
}
