//! What a look at all skills reads grows as their number does, and no faster: counted in bytes, not in time.
#![cfg(all(target_os = "linux", feature = "lua-runtime"))]
#![allow(missing_docs)]

use std::sync::{Mutex, PoisonError};

use metier::config::Configuration;
use metier::engine::{Availability, Engine, TrustState};
use metier::registry::{Scope, Skill};
use metier::trust::{LockFile, SkillFiles, TrustStore};
use tempfile::TempDir;

/// The bytes are those of the whole process, so one test reads at a time.
static READING: Mutex<()> = Mutex::new(());

/// Bytes that this process has read so far, whatever it read them from.
fn bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// What this reads.
fn bytes_of(work: impl FnOnce()) -> u64 {
    let before = bytes_read();
    work();
    bytes_read() - before
}

/// A project with many skills, and a store of a user outside of it.
struct Stage {
    project: TempDir,
    data: TempDir,
}

impl Stage {
    fn with_skills(count: usize) -> Self {
        let stage = Self { project: tempfile::tempdir().unwrap(), data: tempfile::tempdir().unwrap() };
        for number in 0..count {
            let name = format!("skill-{number}");
            let folder = stage.project.path().join(".metier/skills").join(&name);
            std::fs::create_dir_all(folder.join("scripts")).unwrap();
            let text =
                format!("---\nname: {name}\ndescription: Does what number {number} does.\n---\nDo it.\n");
            std::fs::write(folder.join("SKILL.md"), text).unwrap();
            std::fs::write(folder.join("scripts/main.lua"), format!("return {number}")).unwrap();
        }
        stage
    }

    fn engine(&self, configuration: Configuration) -> Engine {
        let store = TrustStore::new(self.data.path().join("trust"));
        Engine::builder(self.project.path()).trust(store).configuration(configuration).build().unwrap()
    }

    /// Trusts and locks all skills of the project as they are.
    fn trust_and_lock(&self) {
        let engine = self.engine(Configuration::new());
        let registry = engine.registry();
        let own: Vec<&Skill> =
            registry.skills().iter().filter(|skill| skill.scope() == Scope::Project).collect();
        let files: Vec<SkillFiles> = own.iter().map(|skill| engine.skill_files(skill).unwrap()).collect();
        let project = engine.project_identity(own[0]).unwrap();
        engine.trust_store().unwrap().trust_skills(&project, &files).unwrap();
        let mut lock = LockFile::default();
        lock.lock_all(&files, None);
        lock.write(engine.project()).unwrap();
        // What changed just now may change again without a change of its times, and is read each time.
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
}

/// All that the lists of a person and of a model show.
fn look_at_all(engine: &Engine) {
    let registry = engine.registry();
    let skills: Vec<&Skill> = registry.skills().iter().collect();
    assert!(engine.trust_states(&skills).iter().all(TrustState::is_trusted));
    assert!(skills.iter().all(|skill| engine.trust_state(skill).is_trusted()));
    assert_eq!(engine.availabilities(&skills).len(), skills.len());
    let project = skills.iter().filter(|skill| skill.scope() == Scope::Project).copied();
    let project: Vec<&Skill> = project.collect();
    assert!(engine.catalog(&registry).skills().len() >= project.len());
    let answers = engine.availabilities_for_model(&project);
    assert!(answers.iter().all(Availability::is_runnable));
}

#[test]
fn twice_as_many_trusted_and_locked_skills_take_twice_as_much_reading() {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    let read = |count| {
        let stage = Stage::with_skills(count);
        stage.trust_and_lock();
        let configuration = Configuration::new().with("trust.locked", true).unwrap();
        bytes_of(|| look_at_all(&stage.engine(configuration)))
    };
    let (few, many) = (read(300), read(600));
    assert!(many < few * 5 / 2, "{few} bytes for 300 skills, {many} for 600");
}

#[test]
fn what_has_not_changed_is_not_read_again_however_many_skills_there_are() {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::with_skills(1_200);
    stage.trust_and_lock();
    let engine = stage.engine(Configuration::new());
    let registry = engine.registry();
    let skills: Vec<&Skill> = registry.skills().iter().collect();
    let look = || assert!(engine.trust_states(&skills).iter().all(TrustState::is_trusted));
    let (first, second) = (bytes_of(look), bytes_of(look));
    assert!(second < first / 10, "{first} bytes at first, {second} again");
}

#[test]
fn a_damaged_store_is_read_once_for_all_skills() {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    let read = |count| {
        let stage = Stage::with_skills(count);
        stage.trust_and_lock();
        let damaged = vec![b'x'; 1_000 * count];
        std::fs::write(stage.data.path().join("trust/trust.json"), damaged).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
        let engine = stage.engine(Configuration::new());
        let registry = engine.registry();
        let skills: Vec<&Skill> = registry.skills().iter().collect();
        bytes_of(|| assert!(!engine.trust_states(&skills).iter().all(TrustState::is_trusted)))
    };
    let (few, many) = (read(100), read(200));
    assert!(many < few * 5 / 2, "{few} bytes for 100 skills, {many} for 200");
}

#[test]
fn skills_that_were_edited_are_read_again_whichever_of_them_is_asked_for() {
    let stage = Stage::with_skills(20);
    let engine = stage.engine(Configuration::new());
    let registry = engine.registry();
    let before: Vec<&Skill> =
        registry.skills().iter().filter(|skill| skill.scope() == Scope::Project).collect();
    for (number, skill) in before.iter().enumerate() {
        let name = if number == 0 { "renamed" } else { skill.name() };
        let text = format!("---\nname: {name}\ndescription: Does something else.\n---\nDo it.\n");
        std::fs::write(skill.folder().disk_path().unwrap().join("SKILL.md"), text).unwrap();
    }
    assert!(engine.availabilities(&before).iter().all(Availability::is_runnable));
    let registry = engine.registry();
    let now: Vec<&Skill> =
        before.iter().map(|skill| registry.skill_with_folder(skill.folder()).unwrap()).collect();
    assert!(now.iter().all(|skill| skill.description() == "Does something else."));
    assert_eq!((now.len(), now[0].name()), (20, "renamed"));
    assert!(registry.find("renamed").is_ok() && registry.find(before[0].name()).is_err());
}
