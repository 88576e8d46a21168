//! The store: what it holds is complete, of this user, and read as it was written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use metier::error::ErrorKind;
use metier::policy::SkillDigest;
use metier::trust::{ProjectIdentity, TrustStore};
use serde_json::{Value, json};

use crate::support::engine::write;
use crate::trust::{Stage, for_model, parsed, state};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("data/trust").join(name)
    }

    fn store(&self) -> TrustStore {
        TrustStore::new(self.path(""))
    }

    fn grant(&self, permission: &str) -> metier::error::Result<()> {
        self.store().grant(("x", digest()), None, &parsed(&[permission]), "a test")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("trust.json")).unwrap()).unwrap()
    }

    fn permissions(&self) -> Vec<String> {
        permissions(&self.store())
    }
}

fn permissions(store: &TrustStore) -> Vec<String> {
    store.records().unwrap().grants.iter().map(|grant| grant.permission.clone()).collect()
}

fn digest() -> SkillDigest {
    format!("sha256:{}", "5a".repeat(32)).parse().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn records_are_kept_once_and_for_their_user_alone() {
    let place = Place::new();
    assert!(place.permissions().is_empty());
    assert!(!place.path("").exists(), "nothing is created to read it");
    for _ in 0..2 {
        place.grant("write:out").unwrap();
        place.grant("tool:a").unwrap();
        place.store().trust_folder(ProjectIdentity::new(place.0.path()).unwrap()).unwrap();
    }
    let store = place.store();
    assert_eq!(permissions(&store), ["write:out", "tool:a"]);
    assert_eq!(store.records().unwrap().folders.len(), 1);
    let project = ProjectIdentity::new(place.0.path()).unwrap();
    store.grant(("x", digest()), Some(&project), &parsed(&["tool:a"]), "a test").unwrap();
    assert_eq!(
        permissions(&place.store()),
        ["write:out", "tool:a", "tool:a"],
        "in a project, and everywhere"
    );
    assert_eq!((mode(&place.path("")), mode(&place.path("trust.json"))), (0o700, 0o600));
    assert_eq!(store.revoke_grants(|grant| grant.project.is_none()).unwrap(), 2);
    assert_eq!(store.revoke_grants(|grant| grant.project.is_none()).unwrap(), 0);
    assert_eq!(permissions(&place.store()), ["tool:a"]);
    assert!(!place.path("trust.previous.json").exists(), "nothing brings back what was revoked");
    assert!(store.revoke_folder(place.0.path()).unwrap());
    assert!(!store.revoke_folder(place.0.path()).unwrap());
}

#[test]
fn the_lists_of_files_go_with_the_last_record_that_needs_them() {
    let stage = Stage::lua("read", "return 1");
    stage.trust("x");
    let lists = stage.store().folder().join("files");
    assert_eq!(fs::read_dir(&lists).unwrap().count(), 1);
    stage.store().revoke_skills(|_| true).unwrap();
    assert_eq!(fs::read_dir(&lists).unwrap().count(), 0);
}

#[test]
fn what_was_revoked_is_revoked_though_a_list_of_files_stays() {
    let stage = Stage::lua("read", "return 1");
    stage.trust("x");
    fs::create_dir(stage.store().folder().join("files/cannot-be-removed.json")).unwrap();
    assert_eq!(stage.store().revoke_skills(|_| true).unwrap(), 1);
    assert!(stage.store().records().unwrap().skills.is_empty());
}

#[test]
fn what_this_version_does_not_know_is_kept() {
    let place = Place::new();
    place.grant("write:out").unwrap();
    let mut content = place.json();
    content["later"] = json!({"a": [1, 18_446_744_073_709_551_615_u64]});
    content["grants"][0]["note"] = json!("kept");
    content["grants"][0]["permission"] = json!("teleport:home");
    write(&place.path("trust.json"), content.to_string());
    place.grant("tool:a").unwrap();
    let now = place.json();
    assert_eq!(now["later"], content["later"]);
    assert_eq!(now["grants"][0], content["grants"][0]);
    assert_eq!(place.store().records().unwrap().grants[0].permission(), None);
    // As an older version may have written it.
    write(&place.path("trust.json"), r#"{"metier_trust": 1}"#);
    assert!(place.permissions().is_empty());
    place.grant("tool:b").unwrap();
    assert_eq!(place.permissions(), ["tool:b"]);
}

#[test]
fn the_store_of_a_newer_version_is_not_read_and_not_written() {
    let place = Place::new();
    place.grant("write:out").unwrap();
    let newer = r#"{"metier_trust": 2, "grants": "in another form"}"#;
    write(&place.path("trust.json"), newer);
    let error = place.store().records().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("its format is 2, and this version reads 1"), "{error}");
    assert_eq!(place.grant("tool:a").unwrap_err().message(), error.message());
    assert!(place.store().revoke_grants(|_| true).is_err());
    assert_eq!(fs::read_to_string(place.path("trust.json")).unwrap(), newer);
}

#[test]
fn a_damaged_file_is_replaced_by_its_previous_version_and_kept_aside() {
    let damages: [&[u8]; 6] = [
        b"",
        b"{",
        b"\0\0\0\0",
        b"[]",
        b"{\"metier_trust\": \"1\"}",
        b"{\"metier_trust\":1,\"grants\":[{}]}",
    ];
    for damage in damages {
        let place = Place::new();
        place.grant("tool:a").unwrap();
        place.grant("tool:b").unwrap();
        write(&place.path("trust.json"), damage);
        let records = place.store().records().unwrap();
        assert_eq!(permissions(&place.store()), ["tool:a"]);
        assert!(
            records.warnings[0].starts_with("the trust store is damaged, so its previous version is used")
        );
        place.grant("tool:c").unwrap();
        assert_eq!(place.permissions(), ["tool:a", "tool:c"]);
        assert!(place.store().records().unwrap().warnings.is_empty());
        assert_eq!(fs::read(place.path("trust.broken-1.json")).unwrap(), damage);
    }
    let place = Place::new();
    for number in 0..20 {
        place.grant("tool:a").unwrap();
        fs::remove_file(place.path("trust.previous.json")).ok();
        write(&place.path("trust.json"), format!("torn {number}"));
        assert!(place.permissions().is_empty(), "without a previous one nothing is granted");
    }
    let broken = fs::read_dir(place.path(""))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("trust.broken-"));
    assert_eq!(broken.count(), 5);
}

#[test]
fn a_store_that_others_could_have_written_is_not_used() {
    let make = || {
        let place = Place::new();
        place.grant("tool:a").unwrap();
        place
    };
    let refused = |place: &Place, reason: &str| {
        let error = place.store().records().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.message().contains(reason), "{reason}: {error}");
        assert!(place.grant("tool:b").is_err(), "{reason}");
    };
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let place = make();
    set_mode(&place.path("trust.json"), 0o666);
    refused(&place, "it can be written by others");
    let place = make();
    set_mode(&place.path(""), 0o777);
    refused(&place, "can be written by others");
    let place = make();
    let elsewhere = place.0.path().join("elsewhere.json");
    fs::rename(place.path("trust.json"), &elsewhere).unwrap();
    symlink(&elsewhere, place.path("trust.json")).unwrap();
    refused(&place, "it is not a regular file");
    assert!(elsewhere.exists());
    let place = make();
    let moved = place.0.path().join("moved");
    fs::rename(place.path(""), &moved).unwrap();
    symlink(&moved, place.0.path().join("data/trust")).unwrap();
    refused(&Place(place.0), "it is not a folder but a link or a file");
    let place = make();
    fs::create_dir(place.0.path().join("data/.metier")).unwrap();
    refused(&place, "which is a project or a skill");
    let place = make();
    fs::write(place.path("trust.json"), vec![b' '; (16 << 20) + 1]).unwrap();
    refused(&place, "larger than 16 MiB");
    let place = make();
    fs::remove_file(place.path("trust.json")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(place.path("trust.json")).status().unwrap().success());
    refused(&place, "it is not a regular file");
    if rustix::process::geteuid().is_root() {
        let place = make();
        std::os::unix::fs::chown(place.path("trust.json"), Some(12345), None).unwrap();
        refused(&place, "it belongs to somebody else");
        let place = make();
        std::os::unix::fs::chown(place.path(""), Some(12345), None).unwrap();
        refused(&place, "belongs to somebody else");
    }
}

#[test]
fn no_engine_has_a_store_in_its_project() {
    let stage = Stage::lua("read", "return 1");
    symlink(stage.project.path("data"), stage.project.path("link")).unwrap();
    for folder in ["data/trust", "link/trust", "data/../data/trust"] {
        let store = TrustStore::new(stage.project.path(folder));
        let error = stage.project.builder().trust(store).build().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{folder}");
        fs::create_dir_all(stage.project.path("data")).unwrap();
    }
}

#[test]
fn a_folder_that_is_swapped_for_a_link_while_an_engine_runs_trusts_nothing() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    stage.trust("x");
    assert!(for_model(&engine).result.is_ok());
    let folder = stage.store().folder().to_owned();
    let moved = folder.with_file_name("moved");
    fs::rename(&folder, &moved).unwrap();
    assert!(!state(&engine, "x").is_trusted(), "it is gone");
    symlink(&moved, &folder).unwrap();
    assert!(!state(&engine, "x").is_trusted(), "a link leads to it");
    fs::remove_file(&folder).unwrap();
    fs::rename(&moved, &folder).unwrap();
    assert!(state(&engine, "x").is_trusted());
}

#[test]
fn a_list_of_files_that_somebody_changed_is_not_believed() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    stage.trust("x");
    let list = fs::read_dir(stage.store().folder().join("files")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&list).unwrap();
    write(&list, text.replace("scripts/main.lua", "scripts/evil.lua"));
    write(&stage.project.path(".metier/skills/x/scripts/main.lua"), "return 2");
    let metier::engine::TrustState::Changed { files } = state(&engine, "x") else { panic!() };
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn there_are_at_most_ten_thousand_records_of_a_kind() {
    let place = Place::new();
    place.grant("tool:a").unwrap();
    let mut content = place.json();
    let grant = content["grants"][0].clone();
    let many = (0..10_000).map(|number| {
        let mut grant = grant.clone();
        grant["permission"] = json!(format!("tool:t{number}"));
        grant
    });
    content["grants"] = many.collect();
    write(&place.path("trust.json"), content.to_string());
    let error = place.grant("tool:one-more").unwrap_err();
    assert!(error.message().contains("it holds at most 10000 grants"), "{error}");
    place.grant("tool:t7").unwrap();
    assert_eq!(place.permissions().len(), 10_000);
}

#[test]
fn a_store_that_others_could_read_is_closed_to_them_by_the_next_change() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    for folder in [place.path(""), place.0.path().join("data")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    place.grant("write:out").unwrap();
    assert_eq!(mode(&place.path("")), 0o700);
}
