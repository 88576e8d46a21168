//! Several processes write the store, are killed while they do, or have no space left.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use metier::policy::SkillDigest;
use metier::trust::TrustStore;

use crate::trust::parsed;

/// The folder of the store, for a writer.
const FOLDER: &str = "METIER_TEST_TRUST_FOLDER";
/// What its permissions are called.
const NAME: &str = "METIER_TEST_TRUST_NAME";
/// How many it grants.
const COUNT: &str = "METIER_TEST_TRUST_COUNT";

fn digest() -> SkillDigest {
    format!("sha256:{}", "5a".repeat(32)).parse().unwrap()
}

/// No test by itself: the process that the tests start. It prints each permission when the store has confirmed it.
#[test]
fn writer() {
    let (Ok(folder), Ok(name), Ok(count)) =
        (std::env::var(FOLDER), std::env::var(NAME), std::env::var(COUNT))
    else {
        return;
    };
    let store = TrustStore::new(folder);
    for number in 0..count.parse::<usize>().unwrap() {
        let permission = format!("tool:{name}-{number}");
        match store.grant(("x", digest()), None, &parsed(&[&permission]), "a test") {
            Ok(()) => println!("\nconfirmed {permission}"),
            Err(error) => println!("\nfailed {error}"),
        }
    }
}

fn command(folder: &std::path::Path, name: &str, count: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trust::processes::writer", "--nocapture"]);
    with_writer(&mut command, folder, name, count);
    command
}

fn with_writer(command: &mut Command, folder: &std::path::Path, name: &str, count: usize) {
    command.env(FOLDER, folder).env(NAME, name).env(COUNT, count.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
}

fn confirmed(child: Child) -> Vec<String> {
    let mut output = String::new();
    child.stdout.unwrap().read_to_string(&mut output).unwrap();
    output.lines().filter_map(|line| line.strip_prefix("confirmed ").map(str::to_owned)).collect()
}

fn granted(store: &TrustStore) -> Vec<String> {
    let records = store.records().unwrap();
    assert!(records.warnings.is_empty(), "{:?}", records.warnings);
    records.grants.iter().map(|grant| grant.permission.clone()).collect()
}

#[test]
fn twenty_writers_lose_nothing() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("trust");
    let writers: Vec<Child> =
        (0..20).map(|writer| command(&folder, &format!("w{writer}"), 10).spawn().unwrap()).collect();
    let all: Vec<String> = writers.into_iter().flat_map(confirmed).collect();
    assert_eq!(all.len(), 200);
    let granted = granted(&TrustStore::new(&folder));
    assert!(all.iter().all(|permission| granted.contains(permission)));
    assert_eq!(granted.len(), 200);
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_store_with_all_that_it_confirmed() {
    let kills = std::env::var("METIER_SOAK_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("trust");
    let mut wrote = 0;
    for kill in 0..kills {
        let mut child = command(&folder, &format!("k{kill}"), 1000).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // It is writing from its first answer on.
        let mut seen = String::new();
        while !seen.contains("confirmed") && output.read_line(&mut seen).unwrap() > 0 {}
        std::thread::sleep(Duration::from_micros(kill * 7919 % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_to_string(&mut seen).unwrap();
        // A last line may be cut.
        let whole = seen.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let confirmed: Vec<&str> = whole.lines().filter_map(|line| line.strip_prefix("confirmed ")).collect();
        let store = TrustStore::new(&folder);
        let granted = granted(&store);
        for permission in &confirmed {
            assert!(granted.iter().any(|granted| granted == permission), "kill {kill} lost {permission}");
        }
        wrote += confirmed.len();
        // The store stays small, so that each kill meets another moment of a write.
        if granted.len() > 100 {
            store.revoke_grants(|_| true).unwrap();
        }
    }
    assert!(wrote as u64 >= kills);
}

#[test]
fn without_space_the_old_store_stays_whole() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("trust");
    assert_eq!(confirmed(command(&folder, "before", 3).spawn().unwrap()).len(), 3);
    let before = std::fs::read(folder.join("trust.json")).unwrap();
    // No file may grow beyond 0 blocks: a write fails as on a full disk.
    let mut full = Command::new("sh");
    full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" --exact trust::processes::writer --nocapture"]);
    full.arg(std::env::current_exe().unwrap());
    with_writer(&mut full, &folder, "full", 3);
    let mut output = String::new();
    full.spawn().unwrap().stdout.unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(output.matches("failed failed to write the trust store").count(), 3, "{output}");
    assert_eq!(std::fs::read(folder.join("trust.json")).unwrap(), before);
    assert!(!folder.join("trust.json.new").exists());
    assert_eq!(granted(&TrustStore::new(&folder)).len(), 3);
    assert_eq!(confirmed(command(&folder, "after", 1).spawn().unwrap()).len(), 1, "with space again");
}
