//! A host does not read folders again that have not changed. What a script puts there is protected in the next run all the same,
//! whatever the script does to pass the folder off as the one it was.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use metier::policy::SandboxLevel;

use crate::fixture::{self, Fixture};
use crate::not_run::not_run;

/// How long a folder must not have changed to be remembered.
const TIME_TO_SETTLE: Duration = Duration::from_millis(3200);

/// What a script does, where the secret is then, and the folder that is to look unchanged.
const ATTEMPTS: [(&str, &str, &str); 7] = [
    ("echo hunter2 > new; mv new one/.env; touch -r two one", "one/.env", "one"),
    ("cp -p one/b/plain saved; echo hunter2 > one/b/plain; mv one/b/plain one/b/.env", "one/b/.env", "one/b"),
    (
        "mkdir new; echo hunter2 > new/.netrc; mv two/b away; mv new two/b; touch -r away two two/b",
        "two/b/.netrc",
        "two/b",
    ),
    (
        "mkdir -p new/b; echo hunter2 > new/b/.pgpass; mv three old; mv new three; touch -r old three",
        "three/b/.pgpass",
        "three/b",
    ),
    (
        "echo hunter2 > plain; ln plain four/b/id_rsa; rm plain; touch -d '2001-01-01' four/b",
        "four/b/id_rsa",
        "four/b",
    ),
    ("rm five/b/plain; echo hunter2 > five/b/.npmrc; touch -r one five/b", "five/b/.npmrc", "five/b"),
    ("rm -r six/b; mkdir six/b; echo hunter2 > six/b/x.pem; touch -r one six/b", "six/b/x.pem", "six/b"),
];

#[test]
fn what_a_script_puts_into_a_remembered_folder_is_protected_in_the_next_run() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("what a script puts into a remembered folder", &reason);
    }
    let fixture = Fixture::bash("eval \"$1\"").grant("write");
    for folder in ["one", "two", "three", "four", "five", "six"] {
        fixture.write(&format!("project/{folder}/b/plain"), "plain");
    }
    let engine = fixture.engine();
    let run = |script: &str| fixture.result(engine.run(fixture.invocation().args([script])));
    std::thread::sleep(TIME_TO_SETTLE);
    run("true").assert_ok();
    for (script, secret, folder) in ATTEMPTS {
        let before = fs::metadata(fixture.at(&format!("project/{folder}"))).unwrap();
        run(script).assert_ok();
        let after = fs::metadata(fixture.at(&format!("project/{folder}"))).unwrap();
        assert_ne!(
            (before.ino(), before.ctime(), before.ctime_nsec()),
            (after.ino(), after.ctime(), after.ctime_nsec())
        );
        let read = run(&format!("cat {secret} || echo refused"));
        assert_eq!(read.stdout(), "refused\n", "{script}");
    }
}
