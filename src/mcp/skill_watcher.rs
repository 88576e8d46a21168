//! Looks for skills that were added, edited or removed, so that clients list them again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::inventory::{FileFacts, FileVersions, Inventory, Offer, OfferedResource};
use super::notices::{self, McpNotice};
use super::resources::skill_files;
use super::skill_content::file_uri;
use super::{disclosure, prompts};
use crate::engine::Engine;
use crate::registry::{Root, Skill};
use metier_skill::contract::ResourceSource;

/// How long nothing is looked at.
const INTERVAL: Duration = Duration::from_secs(2);
/// Looking takes at most this part of the time, however many skills there are, unless it would come too late then.
const MAX_SHARE: u32 = 50;
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// How often it is checked meanwhile whether a look is worth it. A check reads no file.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Looks that a check asks for take at most this part of the time.
const MAX_CHECKED_SHARE: u32 = 4;

/// The lists as clients see them, or digests of them.
struct ListVersions {
    tools: [u8; 32],
    prompts: [u8; 32],
    files: Arc<FileVersions>,
}

/// Looks at the skills again and again, announces what changed, and tells a person by `report`.
pub(super) async fn watch_skills(
    engine: Engine,
    offers: watch::Sender<Offer>,
    report: impl Fn(McpNotice) + Send,
) {
    let (mut states, mut reported) = {
        let inventory = &offers.borrow().inventory;
        (inventory.states.clone(), inventory.notices.clone())
    };
    let project = engine.project().to_owned();
    let mut pause = INTERVAL;
    let mut last_duration = Duration::ZERO;
    let first = {
        let (engine, inventory) = (engine.clone(), offers.borrow().inventory.clone());
        move || (ListVersions::new(&engine, &inventory), root_times(&engine))
    };
    // At once, so that no change after the start of the server is missed.
    let Ok((mut versions, mut roots)) = tokio::task::spawn_blocking(first).await else { return };
    offers.send_modify(|offer| offer.files = Some(versions.files.clone()));
    loop {
        let (engine, inventory) = (engine.clone(), offers.borrow().inventory.clone());
        wait(&engine, roots, last_duration * MAX_CHECKED_SHARE, pause).await;
        let look = move || {
            let (started, before) = (Instant::now(), versions);
            let roots = root_times(&engine);
            // A folder that is not there at the moment changes nothing.
            if engine.reload().is_err() {
                return (inventory, None, before, roots, started.elapsed());
            }
            let current = Arc::new(Inventory::read(&engine, &inventory.filter, Some(&inventory)));
            let after = ListVersions::new(&engine, &current);
            (current, Some(before), after, roots, started.elapsed())
        };
        let Ok((current, before, after, root_times, duration)) = tokio::task::spawn_blocking(look).await
        else {
            return;
        };
        // A look that took long once met other work; one that does so again is work of its own.
        pause = (duration.min(last_duration) * MAX_SHARE).clamp(INTERVAL, MAX_PAUSE);
        last_duration = duration;
        let changes = before.map(|before| {
            (before.tools != after.tools, before.prompts != after.prompts, before.files != after.files)
        });
        if changes.is_some() {
            for sentence in current.notices.iter().filter(|sentence| !reported.contains(sentence)) {
                report(McpNotice::not_offered(sentence));
            }
            notices::changes(&states, &current.states, &project).into_iter().for_each(&report);
            (states, reported) = (current.states.clone(), current.notices.clone());
        }
        if let Some((tools, prompts, files)) = changes
            && (tools || prompts || files)
        {
            offers.send_modify(|offer| {
                offer.inventory = current;
                offer.tools += u64::from(tools);
                offer.prompts += u64::from(prompts);
                offer.files = Some(after.files.clone());
            });
        }
        (versions, roots) = (after, root_times);
    }
}

/// Waits for a while; and for less, but at least this long, if something is seen to have changed.
async fn wait(engine: &Engine, roots: RootTimes, least: Duration, most: Duration) {
    let end = Instant::now() + most;
    let mut interval = CHECK_INTERVAL.max(least);
    let roots = Arc::new(roots);
    while Instant::now() + interval < end {
        tokio::time::sleep(interval).await;
        let (engine, roots) = (engine.clone(), roots.clone());
        let check = move || {
            let started = Instant::now();
            (is_changed(&engine, &roots), started.elapsed())
        };
        match tokio::task::spawn_blocking(check).await {
            Ok((false, duration)) => interval = CHECK_INTERVAL.max(duration * MAX_SHARE),
            Ok((true, _)) | Err(_) => return,
        }
    }
    tokio::time::sleep(end.saturating_duration_since(Instant::now())).await;
}

/// When an entry of each root was added or removed last, as far as it is there.
type RootTimes = Vec<Option<SystemTime>>;

fn root_times(engine: &Engine) -> RootTimes {
    let time = |root: &Root| root.path.metadata().and_then(|found| found.modified()).ok();
    engine.skill_roots().iter().map(time).collect()
}

/// Whether a skill came or went, or was edited: its folder, its `SKILL.md` or its contract.
fn is_changed(engine: &Engine, roots: &[Option<SystemTime>]) -> bool {
    root_times(engine).as_slice() != roots
        || !engine.registry().skills().iter().all(|skill| skill.is_current(None))
}

impl ListVersions {
    fn new(engine: &Engine, inventory: &Inventory) -> Self {
        let mut tools = Sha256::new();
        for served in &inventory.tools {
            // Texts and numbers of every part are in the form for people, which differs where they do.
            tools.update(format!("{} {:?}\n", served.name, served.tool));
        }
        tools.update(serde_json::to_vec(&disclosure::tools(inventory)).unwrap_or_default());
        let prompts = serde_json::to_vec(&prompts::prompts(inventory)).unwrap_or_default();
        let mut files: BTreeMap<String, FileFacts> =
            inventory.for_models().flat_map(|skill| file_versions(engine, skill)).collect();
        let offered: Vec<_> =
            inventory.resources.iter().map(|offered| offered_version(offered, &files)).collect();
        files.extend(offered);
        Self {
            tools: tools.finalize().into(),
            prompts: Sha256::digest(prompts).into(),
            files: Arc::new(files),
        }
    }
}

fn file_versions(engine: &Engine, skill: &Skill) -> Vec<(String, FileFacts)> {
    let files = skill_files(engine, skill).unwrap_or_default();
    files.into_iter().map(|file| (file_uri(skill.name(), &file.path), file.facts)).collect()
}

/// What differs where a resource that a skill offers is another one, or its file has another content. What a tool answers is not
/// looked at.
fn offered_version(offered: &OfferedResource, files: &FileVersions) -> (String, FileFacts) {
    let declared = format!("{:?}", offered.resource);
    let file = match &offered.resource.source {
        ResourceSource::File(path) => files.get(&file_uri(&offered.skill, path)).cloned().flatten(),
        _ => None,
    };
    let (size, digest) = file.unwrap_or_default();
    (offered.resource.uri.as_str().to_owned(), Some((size, format!("{declared} {digest}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_sees_a_skill_that_comes_goes_or_is_edited() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join(".metier/skills");
        let write = |name: &str, description: &str| {
            std::fs::create_dir_all(root.join(name)).unwrap();
            let text = format!("---\nname: {name}\ndescription: {description}\n---\n");
            std::fs::write(root.join(name).join("SKILL.md"), text).unwrap();
        };
        write("first", "d");
        let engine = Engine::builder(folder.path()).build().unwrap();
        let changes: [&dyn Fn(); 3] =
            [&|| write("second", "d"), &|| write("first", "edited, and longer"), &|| {
                std::fs::remove_dir_all(root.join("second")).unwrap();
            }];
        for change in changes {
            let seen = root_times(&engine);
            assert!(!is_changed(&engine, &seen));
            // The times of a folder are those of the clock's ticks.
            std::thread::sleep(Duration::from_millis(20));
            change();
            assert!(is_changed(&engine, &seen));
            engine.reload().unwrap();
        }
    }
}
