//! Looks for skills that were added, edited or removed, so that clients list them again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::disclosure;
use super::inventory::Inventory;
use super::prompts;
use super::resources::skill_files;
use crate::engine::Engine;
use crate::registry::Skill;

/// How long nothing is looked at.
const INTERVAL: Duration = Duration::from_secs(2);
/// Looking takes at most this part of the time, however many skills there are, unless it would come too late then.
const MAX_SHARE: u32 = 50;
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// What the server offers, and how often each list has changed.
#[derive(Clone, Default)]
pub(super) struct Offer {
    pub(super) inventory: Arc<Inventory>,
    pub(super) tools: u64,
    pub(super) prompts: u64,
    pub(super) resources: u64,
}

/// Digests of the lists as clients see them.
#[derive(PartialEq)]
struct ListDigests {
    tools: [u8; 32],
    prompts: [u8; 32],
    resources: [u8; 32],
}

/// Looks at the skills again and again, and announces what changed.
pub(super) async fn watch_skills(engine: Engine, offers: watch::Sender<Offer>) {
    let mut digests = None;
    let mut pause = INTERVAL;
    let mut last_duration = Duration::ZERO;
    loop {
        let (engine, inventory) = (engine.clone(), offers.borrow().inventory.clone());
        let look = move || {
            let started = Instant::now();
            let before = digests.unwrap_or_else(|| ListDigests::new(&engine, &inventory));
            // A folder that is not there at the moment changes nothing.
            if engine.reload().is_err() {
                return (inventory, None, before, started.elapsed());
            }
            let current = Arc::new(Inventory::read(&engine, &inventory.filter, Some(&inventory)));
            let after = ListDigests::new(&engine, &current);
            (current, Some(before), after, started.elapsed())
        };
        tokio::time::sleep(pause).await;
        let Ok((current, before, after, duration)) = tokio::task::spawn_blocking(look).await else { return };
        // A look that took long once met other work; one that does so again is work of its own.
        pause = (duration.min(last_duration) * MAX_SHARE).clamp(INTERVAL, MAX_PAUSE);
        last_duration = duration;
        if let Some(before) = before.filter(|before| *before != after) {
            for notice in &current.notices {
                tracing::warn!("{notice}");
            }
            offers.send_modify(|offer| {
                offer.inventory = current;
                offer.tools += u64::from(before.tools != after.tools);
                offer.prompts += u64::from(before.prompts != after.prompts);
                offer.resources += u64::from(before.resources != after.resources);
            });
        }
        digests = Some(after);
    }
}

impl ListDigests {
    fn new(engine: &Engine, inventory: &Inventory) -> Self {
        let mut tools = Sha256::new();
        for served in &inventory.tools {
            // Texts and numbers of every part are in the form for people, which differs where they do.
            tools.update(format!("{} {:?}\n", served.name, served.tool));
        }
        tools.update(serde_json::to_vec(&disclosure::tools(inventory)).unwrap_or_default());
        let prompts = serde_json::to_vec(&prompts::prompts(inventory)).unwrap_or_default();
        let mut resources = Sha256::new();
        for skill in inventory.for_models() {
            resources.update(format!("{:?}\n", skill_file_facts(engine, skill)));
        }
        Self {
            tools: tools.finalize().into(),
            prompts: Sha256::digest(prompts).into(),
            resources: resources.finalize().into(),
        }
    }
}

fn skill_file_facts(engine: &Engine, skill: &Skill) -> Vec<(String, Option<(u64, String)>)> {
    let files = skill_files(engine, skill).unwrap_or_default();
    files.into_iter().map(|file| (format!("{}/{}", skill.name(), file.path), file.facts)).collect()
}
