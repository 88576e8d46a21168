//! Tests of journals: records are read back as they were written, whatever a crash left of the file.

use serde_json::json;

use super::*;
use crate::{from_sequence, open_journal};
use metier_core::policy::RequestedPermissions;

/// The calling skill, and skills whose digests the test sets.
struct Digests(&'static str);

impl Callees for Digests {
    fn skill(&self, name: &str) -> CalleeLookup<Callee> {
        CalleeLookup::Found(Callee {
            identity: name.to_owned(),
            input_schema: None,
            output_schema: None,
            calls: vec!["a".to_owned(), "b".to_owned()],
            requested: RequestedPermissions::All,
            is_process: false,
            has_review: false,
        })
    }

    fn tool(&self, _name: &str) -> CalleeLookup<Value> {
        CalleeLookup::Unknown
    }

    fn digest(&self, identity: &str) -> Option<String> {
        Some(self.0.split(' ').find_map(|said| said.strip_prefix(identity)).unwrap_or("=0").to_owned())
    }
}

const PLAN: &str = r#"[{"tool": "tree"}, {"skill": "a"}]"#;

fn opened(path: &Path) -> Result<Journal> {
    opened_for(path, ["x", "/p", PLAN, "d"], &json!({"a": 1}))
}

/// Opens the journal of a skill in a project with a plan and these digests.
fn opened_for(
    path: &Path,
    [skill, project, plan, digest]: [&'static str; 4],
    input: &Value,
) -> Result<Journal> {
    let run = JournaledRun {
        skill,
        identity: skill,
        qualified_name: None,
        project: Some(Path::new(project)),
        project_identity: None,
        plan: &from_sequence(plan.as_bytes(), "scripts/sequence.json").unwrap(),
        input,
        saves_input: true,
        callees: &Digests(digest),
        token: &CancelToken::new(),
    };
    open_journal(path, &run)
}

/// A temp dir, and the path of a journal in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = journal_path(&folder.path().join("deep/er"), "x");
    (folder, path)
}

fn values() -> Vec<Value> {
    let deep = (0..126).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!({"tab\t": "line\nend", "n": [0.1, 1e300, u64::MAX, i64::MIN, -0.0]}),
        json!(null),
        json!(0.1 + 0.2),
        deep,
    ]
}

#[test]
fn what_finished_is_known_to_the_last_digit_and_written_once() {
    let (_folder, path) = place();
    let journal = opened(&path).unwrap();
    for (at, value) in values().into_iter().enumerate() {
        journal.record_start((at, None), "id").unwrap();
        journal.record_outcome((at, Some(at)), "id", &RecordedOutcome::Done(value), Vec::new()).unwrap();
    }
    journal.record_outcome((7, None), "id", &RecordedOutcome::Failed("why".into()), Vec::new()).unwrap();
    journal.record_outcome((8, None), "id", &RecordedOutcome::Withheld, Vec::new()).unwrap();
    drop(journal);
    let journal = opened(&path).unwrap();
    for (at, value) in values().into_iter().enumerate() {
        assert_eq!(journal.recorded_outcome((at, Some(at))), Some(&RecordedOutcome::Done(value)));
        assert!(journal.was_interrupted((at, None)));
    }
    assert_eq!(journal.recorded_outcome((7, None)), Some(&RecordedOutcome::Failed("why".into())));
    assert_eq!(journal.recorded_outcome((8, None)), Some(&RecordedOutcome::Withheld));
    assert_eq!(journal.recorded_outcome((0, None)), None);
}

#[test]
fn a_crash_at_any_byte_of_a_write_costs_no_finished_step() {
    let (_folder, path) = place();
    let journal = opened(&path).unwrap();
    for at in 0..3 {
        journal
            .record_outcome((at, None), "id", &RecordedOutcome::Done(json!({"step": at})), Vec::new())
            .unwrap();
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in 0..=whole.len() {
        for tail in [&b""[..], b"\0\0\0\0"] {
            let mut torn = whole[..cut].to_vec();
            if cut < whole.len() {
                torn.extend(tail);
            }
            std::fs::write(&path, &torn).unwrap();
            let journal = opened(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let kept = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            for at in 0..3 {
                assert_eq!(journal.recorded_outcome((at, None)).is_some(), at < kept, "cut at {cut}");
            }
            journal
                .record_outcome((9, None), "id", &RecordedOutcome::Done(json!("after")), Vec::new())
                .unwrap();
            drop(journal);
            let again = opened(&path).unwrap();
            assert_eq!(
                again.recorded_outcome((9, None)),
                Some(&RecordedOutcome::Done(json!("after"))),
                "cut at {cut}"
            );
            assert_eq!(again.recorded_outcome((0, None)).is_some(), kept > 0);
        }
    }
}

#[test]
fn a_fault_before_the_last_line_is_refused_and_changes_nothing() {
    let (_folder, path) = place();
    let journal = opened(&path).unwrap();
    for at in 0..3 {
        journal.record_outcome((at, None), "id", &RecordedOutcome::Done(json!(at)), Vec::new()).unwrap();
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    for at in 0..last {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert!(opened(&path).is_err(), "byte {at}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "byte {at}");
    }
}

#[test]
fn a_file_of_somebody_elses_is_left_as_it_is() {
    let (folder, path) = place();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for text in ["my notes", "0123456789abcdef x", "{}\n", "0123456789abcdef {\"metier-journal\":1}\n", "\n"]
    {
        std::fs::write(&path, text).unwrap();
        let refused = opened(&path).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Usage, "{text}: {refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    std::fs::remove_file(&path).unwrap();
    #[cfg(unix)]
    {
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert_eq!(opened(&path).err().unwrap().kind(), ErrorKind::Usage);
        assert!(!target.exists());
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::create_dir(&path).unwrap();
    assert!(opened(&path).is_err());
    drop(folder);
}

#[test]
fn another_project_plan_input_file_or_callee_is_reported_and_not_resumed() {
    let (_folder, path) = place();
    drop(opened(&path).unwrap());
    let input = json!({"a": 1});
    let words = |run, input: &Value| opened_for(&path, run, input).err().unwrap().to_string();
    assert!(words(["y", "/p", PLAN, "d"], &input).contains("belongs to the skill x"));
    assert!(words(["x", "/q", PLAN, "d"], &input).contains("belongs to the project /p"));
    let spaced = r#"[{"tool": "tree"} , {"skill": "a"}]"#;
    assert!(words(["x", "/p", spaced, "d"], &input).contains("before the plan of x changed"));
    assert!(words(["x", "/p", PLAN, "d"], &json!({"a": 2})).contains("another input"));
    let told = words(["x", "/p", PLAN, "x=1"], &input);
    assert!(told.contains("before a file in the folder of x changed"), "{told}");
    assert!(words(["x", "/p", PLAN, "a=1"], &input).contains("before the skill a changed"));
    assert!(words(["x", "/p", PLAN, "b=1"], &input).contains("before the skill b changed"), "which a calls");
    let refused = opened_for(&path, ["x", "/p", PLAN, "d"], &json!(1)).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Usage);
    assert!(refused.help().unwrap().contains("another folder"));
    assert!(opened(&path).is_ok());
}

#[test]
fn a_journal_of_another_version_is_reported_and_not_resumed() {
    let (_folder, path) = place();
    drop(opened(&path).unwrap());
    let whole = std::fs::read_to_string(&path).unwrap();
    let (head, _) = line::decode(whole.trim_end().as_bytes()).unwrap();
    let other = line::encode(&head.replace("\"metier-journal\":4", "\"metier-journal\":3"), None);
    assert_ne!(other, whole);
    std::fs::write(&path, &other).unwrap();
    let refused = opened(&path).err().unwrap();
    assert!(refused.to_string().contains("was written by another version of metier"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
}

#[test]
fn one_run_at_a_time_has_a_journal() {
    let (_folder, path) = place();
    let first = opened(&path).unwrap();
    assert!(opened(&path).err().unwrap().to_string().contains("another run is writing"));
    drop(first);
    assert!(opened(&path).is_ok());
}

#[test]
fn a_journal_that_is_removed_while_a_run_opens_it_is_made_again() {
    let (_folder, path) = place();
    drop(opened(&path).unwrap());
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| std::iter::repeat_with(|| opened(&path)).find_map(Result::ok).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(15));
        std::fs::remove_file(&path).unwrap();
        held.unlock().unwrap();
        let journal = run.join().unwrap();
        journal.record_outcome((0, None), "id", &RecordedOutcome::Done(json!(1)), Vec::new()).unwrap();
    });
    assert!(opened(&path).unwrap().recorded_outcome((0, None)).is_some(), "it was written to another file");
}

#[test]
fn a_list_counts_what_it_reads_of_files_that_are_no_journals() {
    let (folder, path) = place();
    drop(opened(&path).unwrap());
    let (good, folder) = (std::fs::read_to_string(&path).unwrap(), folder.path());
    // The first line has a fault, so that the file is read and refused.
    let faulty = good.replacen("metier-journal\":", "metier-journal\": ", 1) + good.as_str();
    for name in ["a", "b", "c"] {
        std::fs::write(folder.join(format!("{name}.journal")), &faulty).unwrap();
    }
    std::fs::write(folder.join("d.journal"), "x".repeat(100)).unwrap();
    let said = |most| -> Vec<String> {
        let listed = Journal::list_within(folder, most).unwrap();
        listed.into_iter().map(|journal| journal.damage.unwrap().message().to_owned()).collect()
    };
    let is_too_large =
        |texts: Vec<String>| texts.iter().map(|text| text.contains("too large")).collect::<Vec<_>>();
    let size = faulty.len() as u64;
    assert!(said(10 * size)[..3].iter().all(|text| text.contains("is damaged")), "{:?}", said(10 * size));
    assert_eq!(is_too_large(said(3 * size)), [false, false, false, true]);
    assert_eq!(is_too_large(said(3 * size - 1)), [false, false, true, false]);
}

#[test]
fn every_name_of_a_skill_is_a_plain_file_name_of_its_own() {
    let folder = Path::new("/j");
    let long = "é".repeat(100);
    let names = ["a", "a/b", "../a", "..", "", "a%2Fb", "é", &long, &format!("{long}x")];
    let files: std::collections::BTreeSet<PathBuf> =
        names.iter().map(|name| journal_path(folder, name)).collect();
    assert_eq!(files.len(), names.len());
    for file in &files {
        assert_eq!(file.parent(), Some(folder));
        assert!(file.file_name().unwrap().len() < 150);
    }
    assert_eq!(journal_path(folder, "word-count"), folder.join("word-count.journal"));
    assert_eq!(nested_journal_path(&journal_path(folder, "a"), (2, Some(5))), folder.join("a.2-5.journal"));
}

#[cfg(unix)]
#[test]
fn a_journal_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = place();
    drop(opened(&path).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[cfg(unix)]
#[test]
fn every_folder_that_is_made_for_a_journal_is_kept_by_the_one_around_it() {
    let place = tempfile::tempdir().unwrap();
    let mut kept = Vec::new();
    let mut keep = |folder: &Path| {
        kept.push(folder.to_owned());
        Ok(())
    };
    file::create_folder_synced(&place.path().join("a/b/c"), &mut keep).unwrap();
    file::create_folder_synced(&place.path().join("a/b/c"), &mut keep).unwrap();
    file::create_folder_synced(&place.path().join("a/d"), &mut keep).unwrap();
    let within = ["", "a", "a/b", "a"].map(|path| place.path().join(path));
    assert_eq!(kept, within);
    assert!(place.path().join("a/b/c").is_dir() && place.path().join("a/d").is_dir());
    std::fs::write(place.path().join("file"), "").unwrap();
    assert!(file::create_folder_synced(&place.path().join("file/x"), &mut |_| Ok(())).is_err());
}

#[cfg(unix)]
#[test]
fn a_journal_of_another_user_is_not_resumed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_folder, path) = place();
    drop(opened(&path).unwrap());
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    let refused = opened(&path).err().unwrap();
    assert!(refused.kind() == ErrorKind::Usage && refused.message().contains("another user"), "{refused}");
}
