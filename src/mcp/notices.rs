//! What the server says to the person who started it: what it serves, and what of it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::skill_content::shown_line;
use metier_core::error::Hint;
use metier_core::excerpt::shorten;

/// Names in one sentence; of more, their number is said.
const MAX_NAMES: usize = 10;
/// Sentences about what changed at once.
const MAX_CHANGES: usize = 10;
/// Notices that wait for a reader.
const MAX_WAITING: usize = 64;
/// Characters of a name.
const MAX_NAME: usize = 80;
/// Characters of a path, or of why a skill cannot be loaded.
const MAX_TEXT: usize = 300;

/// Something that the person should know who started the server. It is one line, without invisible characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpNotice {
    /// The sentence, which names no option of any program.
    pub message: String,
    /// The name of the skill that it is about, if that is one.
    pub skill: Option<String>,
    /// What the person can do about it.
    pub hint: Option<Hint>,
}

pub(super) type NoticeListener = Arc<dyn Fn(&McpNotice) + Send + Sync>;

/// How a skill stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SkillState {
    Served,
    Untrusted,
    /// It, or its contract, cannot be loaded, for this reason.
    Broken(String),
}

/// How each skill stands, by its name.
pub(super) type SkillStates = BTreeMap<String, SkillState>;

impl McpNotice {
    fn new(message: String) -> Self {
        Self { message, skill: None, hint: None }
    }

    /// What is not offered, and why.
    pub(super) fn not_offered(sentence: &str) -> Self {
        Self::new(shorten(&shown_line(sentence), MAX_TEXT * 2))
    }
}

/// Passes notices on to who listens, on a thread: whoever writes them may wait for a reader that does not come.
pub(super) struct NoticeSender(Option<SyncSender<McpNotice>>);

impl NoticeSender {
    /// Says the first one before it returns.
    pub(super) fn start(listener: Option<NoticeListener>, first: &McpNotice) -> Self {
        tracing::info!("{}", first.message);
        let Some(listener) = listener else { return Self(None) };
        listener(first);
        let (sender, notices) = sync_channel::<McpNotice>(MAX_WAITING);
        let listen = move || notices.into_iter().for_each(|notice| listener(&notice));
        let thread = std::thread::Builder::new().name("metier-mcp-notice".to_owned()).spawn(listen);
        Self(thread.is_ok().then_some(sender))
    }

    /// Says one more. Of those that wait for a reader, later ones are left out.
    pub(super) fn send(&self, notice: McpNotice) {
        tracing::info!("{}", notice.message);
        if let Some(sender) = &self.0 {
            sender.try_send(notice).ok();
        }
    }
}

/// How many tools and skills are served, and which skills are not.
pub(super) fn serving_notice(states: &SkillStates, tools: usize, project: &Path) -> McpNotice {
    let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let skills = states.values().filter(|state| **state == SkillState::Served).count();
    let place = shorten(&shown_line(&project.display().to_string()), MAX_TEXT);
    let message = format!("serving {} of {} for {place}", count(tools, "tool"), count(skills, "skill"));
    let untrusted: Vec<&String> =
        states.iter().filter(|(_, state)| **state == SkillState::Untrusted).map(|(name, _)| name).collect();
    let mut notice = McpNotice::new(message);
    if !untrusted.is_empty() {
        let names: Vec<String> = untrusted.iter().take(MAX_NAMES).map(|name| shown_name(name)).collect();
        let more = untrusted.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notice.message = format!("{}; not trusted: {}{more}", notice.message, names.join(", "));
        notice.hint = Some(Hint::Trust(project.display().to_string()));
    }
    notice
}

/// What changed, a sentence for each skill.
pub(super) fn changes(before: &SkillStates, after: &SkillStates, project: &Path) -> Vec<McpNotice> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let mut notices: Vec<McpNotice> =
        changed.map(|name| change(name, (before.get(name), after.get(name)), project)).collect();
    if notices.len() > MAX_CHANGES {
        let more = format!("{} more skills changed", notices.len() - MAX_CHANGES);
        notices.truncate(MAX_CHANGES);
        notices.push(McpNotice::new(more));
    }
    notices
}

fn change(name: &str, states: (Option<&SkillState>, Option<&SkillState>), project: &Path) -> McpNotice {
    use SkillState::{Broken, Served, Untrusted};
    let what = match states {
        (_, None) => "was removed".to_owned(),
        (None, Some(Served)) => "was added, and is served".to_owned(),
        (Some(Untrusted), Some(Served)) => "is trusted now, and is served".to_owned(),
        (_, Some(Served)) => "is served again".to_owned(),
        (None, Some(Untrusted)) => "was added, and is not trusted".to_owned(),
        (_, Some(Untrusted)) => {
            "is not trusted any more: it was changed, or its trust was revoked".to_owned()
        }
        (_, Some(Broken(reason))) => {
            format!("cannot be loaded, so that its calls fail: {}", shorten(&shown_line(reason), MAX_TEXT))
        }
    };
    let is_untrusted = states.1 == Some(&Untrusted);
    let mut notice = McpNotice::new(format!("the skill {} {what}", shown_name(name)));
    notice.skill = Some(name.to_owned());
    notice.hint = is_untrusted.then(|| Hint::Trust(project.display().to_string()));
    notice
}

fn shown_name(name: &str) -> String {
    shorten(&shown_line(name), MAX_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(states: &[(&str, SkillState)]) -> SkillStates {
        states.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect()
    }

    fn sentences(before: &[(&str, SkillState)], after: &[(&str, SkillState)]) -> Vec<String> {
        let notices = changes(&states(before), &states(after), Path::new("/p"));
        notices.into_iter().map(|notice| notice.message).collect()
    }

    #[test]
    fn the_first_line_says_what_is_served_and_what_is_not_trusted() {
        use SkillState::{Served, Untrusted};
        let notice = serving_notice(&states(&[("a", Served)]), 1, Path::new("/p"));
        assert_eq!((notice.message.as_str(), notice.hint), ("serving 1 tool of 1 skill for /p", None));
        let found = states(&[("a", Served), ("b", Untrusted), ("c\u{1b}[31m\nd", Untrusted)]);
        let notice = serving_notice(&found, 3, Path::new("/p"));
        assert!(
            notice.message.starts_with("serving 3 tools of 1 skill for /p; not trusted: b, c"),
            "{notice:?}"
        );
        assert!(!notice.message.contains(['\u{1b}', '\n']) && notice.hint.is_some());
        let many: SkillStates = (0..1_000).map(|n| (format!("{n}{}", "x".repeat(500)), Untrusted)).collect();
        let notice = serving_notice(&many, 0, Path::new("/p"));
        assert!(notice.message.len() < 1_500 && notice.message.ends_with(" and 990 more"), "{notice:?}");
    }

    #[test]
    fn each_change_of_a_skill_is_a_sentence() {
        use SkillState::{Broken, Served, Untrusted};
        let broken = || Broken("line 1:\n\u{1b}[31m no end".to_owned());
        for (before, after, sentence) in [
            (None, Some(Served), "the skill a was added, and is served"),
            (None, Some(Untrusted), "the skill a was added, and is not trusted"),
            (Some(Served), None, "the skill a was removed"),
            (
                Some(Served),
                Some(Untrusted),
                "the skill a is not trusted any more: it was changed, or its trust was revoked",
            ),
            (Some(Untrusted), Some(Served), "the skill a is trusted now, and is served"),
            (Some(broken()), Some(Served), "the skill a is served again"),
        ] {
            let state =
                |state: Option<SkillState>| state.map(|state| ("a", state)).into_iter().collect::<Vec<_>>();
            assert_eq!(sentences(&state(before), &state(after)), [sentence]);
        }
        assert_eq!(
            sentences(&[("a", Served), ("b", Untrusted)], &[("a", Served), ("b", Untrusted)]),
            [""; 0]
        );
        let found = sentences(&[("a", Served)], &[("a", broken())]);
        assert!(found[0].contains("cannot be loaded") && !found[0].contains(['\u{1b}', '\n']), "{found:?}");
        let many: Vec<String> = (0..100).map(|number| format!("s{number:02}")).collect();
        let many: Vec<(&str, SkillState)> = many.iter().map(|name| (name.as_str(), Served)).collect();
        let found = sentences(&[], &many);
        assert_eq!((found.len(), found[10].as_str()), (11, "90 more skills changed"));
    }
}
