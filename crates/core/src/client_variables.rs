//! The variables by which skills that were written for other clients find their own folder and the project.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What a variable stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Skill,
    /// The folder that holds the folder `skills` of the skill.
    Plugin,
    Project,
}

/// Set for every script: other clients set them as well, besides their own.
const COMMON: [(&str, Place); 3] = [
    ("CLAUDE_SKILL_DIR", Place::Skill),
    ("CLAUDE_PLUGIN_ROOT", Place::Plugin),
    ("CLAUDE_PROJECT_DIR", Place::Project),
];

/// Set only for a script that names them: by some of them programs tell which client they run in.
const ON_REQUEST: [(&str, Place); 8] = [
    ("CODEX_PROJECT_DIR", Place::Project),
    ("COPILOT_PLUGIN_ROOT", Place::Plugin),
    ("CURSOR_PLUGIN_ROOT", Place::Plugin),
    ("CURSOR_PROJECT_DIR", Place::Project),
    ("DROID_PLUGIN_ROOT", Place::Plugin),
    ("FACTORY_PROJECT_DIR", Place::Project),
    ("GEMINI_PROJECT_DIR", Place::Project),
    ("QWEN_PROJECT_DIR", Place::Project),
];

/// Names the folder in which a plugin of another client keeps data between runs: here the home folder of the run, which is kept with the
/// permission `state`. Set for every script in a sandbox.
pub const PLUGIN_DATA: &str = "CLAUDE_PLUGIN_DATA";

/// A word in braces that is no variable, for the folder of the skill.
const BASE_DIR: &str = "{baseDir}";

/// The variables of a script with this source, of a skill in `skill`, on `project`.
pub fn client_variables(skill: &Path, project: &Path, source: &[u8]) -> Vec<(&'static str, PathBuf)> {
    let is_named = |(name, _): &(&str, Place)| memchr::memmem::find(source, name.as_bytes()).is_some();
    let named = ON_REQUEST.into_iter().filter(is_named);
    COMMON.into_iter().chain(named).map(|(name, place)| (name, folder(place, skill, project))).collect()
}

/// A text for a model with the folders in place of these variables, written `${NAME}` or `$NAME`.
pub fn fill_client_variables<'t>(text: &'t str, skill: &Path, project: &Path) -> Cow<'t, str> {
    if !text.contains(['$', '{']) {
        return Cow::Borrowed(text);
    }
    let mut filled = text.replace(BASE_DIR, &skill.to_string_lossy());
    for (name, place) in COMMON.into_iter().chain(ON_REQUEST) {
        if filled.contains(name) {
            let folder = folder(place, skill, project);
            filled = fill(&filled, name, &folder.to_string_lossy());
        }
    }
    Cow::Owned(filled)
}

fn fill(text: &str, name: &str, value: &str) -> String {
    let mut parts = text.split(name);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_word = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if filled.ends_with("${") && part.starts_with('}') {
            filled.truncate(filled.len() - 2);
            filled.push_str(value);
            filled.push_str(&part[1..]);
        } else if filled.ends_with('$') && !is_word {
            filled.pop();
            filled.push_str(value);
            filled.push_str(part);
        } else {
            filled.push_str(name);
            filled.push_str(part);
        }
    }
    filled
}

fn folder(place: Place, skill: &Path, project: &Path) -> PathBuf {
    let above = skill.parent().filter(|above| above.ends_with("skills")).and_then(Path::parent);
    match place {
        Place::Skill => skill,
        Place::Plugin => above.unwrap_or(skill),
        Place::Project => project,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_of_a_plugin_finds_the_plugin_and_any_other_itself() {
        let variables = |skill: &str, source: &str| -> Vec<String> {
            let found = client_variables(Path::new(skill), Path::new("/p"), source.as_bytes());
            found.into_iter().map(|(name, value)| format!("{name}={}", value.display())).collect()
        };
        assert_eq!(
            variables("/p/.agents/skills/x", "echo"),
            [
                "CLAUDE_SKILL_DIR=/p/.agents/skills/x",
                "CLAUDE_PLUGIN_ROOT=/p/.agents",
                "CLAUDE_PROJECT_DIR=/p"
            ]
        );
        let named = variables("/own/x", "cd $GEMINI_PROJECT_DIR");
        assert_eq!(
            named[1..],
            ["CLAUDE_PLUGIN_ROOT=/own/x", "CLAUDE_PROJECT_DIR=/p", "GEMINI_PROJECT_DIR=/p"]
        );
    }

    #[test]
    fn a_text_for_a_model_has_folders_and_no_variables() {
        let filled =
            |text: &str| fill_client_variables(text, Path::new("/s/x"), Path::new("/p")).into_owned();
        assert_eq!(filled("python ${CLAUDE_SKILL_DIR}/a.py {baseDir}/b"), "python /s/x/a.py /s/x/b");
        assert_eq!(filled("cd \"$CLAUDE_PROJECT_DIR\" && ls $CLAUDE_SKILL_DIR/*"), "cd \"/p\" && ls /s/x/*");
        for text in ["no", "$CLAUDE_SKILL_DIRS ${CLAUDE_SKILL_DIR:-x} CLAUDE_SKILL_DIR", "${HOME} $"] {
            assert_eq!(filled(text), text);
        }
    }
}
