//! Reads the script of a skill, with all that its runtime loads together with it.

use super::EngineInner;
use crate::engine::script_selection::SelectedScript;
use crate::registry::{FileList, Skill, SkillFolder};
use crate::runtimes;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, ScriptEntry, ScriptTool};
use metier_core::host::Files;
use metier_core::policy::{CancelToken, Limits};

impl EngineInner {
    /// The script as its runtime loads it.
    pub(super) fn load_script(&self, skill: &Skill, selected: &SelectedScript) -> Result<Script> {
        self.open_script(skill, selected, &CancelToken::new()).map(|(script, _)| script)
    }

    /// The script, and a handle to the folder it was read from, even if its path is replaced meanwhile.
    pub(super) fn open_script(
        &self,
        skill: &Skill,
        selected: &SelectedScript,
        cancel: &CancelToken,
    ) -> Result<(Script, Files)> {
        self.open_listed_script((skill, None), selected, None, cancel)
    }

    /// The same of a skill whose folder may be open; everything that is read for it must be in this list, if there is one.
    pub(super) fn open_listed_script(
        &self,
        (skill, opened): (&Skill, Option<Files>),
        selected: &SelectedScript,
        listed: Option<&FileList>,
        cancel: &CancelToken,
    ) -> Result<(Script, Files)> {
        let folder = self.unpacked_skills.disk_folder(skill.folder())?;
        let files = opened.map_or_else(|| Files::open(&folder), Ok)?;
        let read = |path: &str| {
            // A script may name several large files.
            cancel.check()?;
            let bytes = match skill.folder() {
                SkillFolder::Disk(_) | SkillFolder::Script(_) => {
                    SkillFolder::read_from(&files, path, Limits::MAX_READ_SIZE)
                }
                embedded @ SkillFolder::Embedded(_) => embedded.read(path, Limits::MAX_READ_SIZE),
            }?;
            if listed.is_some_and(|listed| !listed.lists(path, &bytes)) {
                return Err(unlisted_file_error(skill, path));
            }
            Ok(bytes)
        };
        let source = runtimes::inline_files(selected.runtime, &selected.path, read(&selected.path)?, read)?;
        let mut script = Script::new(skill.name(), selected.path.clone(), source);
        script.folder = Some(folder);
        script.function.clone_from(&selected.function);
        let tool = selected.tool.as_deref().map(|tool| ScriptTool {
            name: tool.name.clone(),
            input_schema: tool.input_schema.as_ref().map(|schema| schema.json().clone()),
        });
        ScriptEntry { handler: selected.handler.clone(), tool, dialect: selected.dialect }.set(&mut script);
        Ok((script, files))
    }
}

/// A file that is run must be one of those behind the skill's digest.
fn unlisted_file_error(skill: &Skill, path: &str) -> SkillError {
    let sentence = format!(
        "the skill {} is not run: {path} changed while the skill was read, or it is not part of its digest",
        skill.name()
    );
    SkillError::new(ErrorKind::Untrusted, sentence).with_help(
        "run it again when nothing writes to its folder; a file below a path of `state` cannot be run",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::script_selection::select_script;

    #[test]
    fn no_file_of_a_script_is_read_for_a_run_that_was_stopped() {
        let project = tempfile::tempdir().unwrap();
        let folder = project.path().join(".metier/skills/stopped");
        std::fs::create_dir_all(folder.join("scripts")).unwrap();
        std::fs::write(folder.join("SKILL.md"), "---\nname: stopped\ndescription: Is read.\n---\n").unwrap();
        let manifest = r#"{"wasm": [{"path": "a.wat", "name": "a"}, {"path": "b.wat"}]}"#;
        std::fs::write(folder.join("scripts/plugin.json"), manifest).unwrap();
        for module in ["a", "b"] {
            std::fs::write(folder.join(format!("scripts/{module}.wat")), "(module)").unwrap();
        }
        let engine = Engine::builder(project.path()).build().unwrap();
        let registry = engine.registry();
        let skill = registry.find("stopped").unwrap();
        let selected = select_script(&engine.0.runtimes, skill, None).unwrap();
        let token = CancelToken::new();
        assert!(engine.0.open_script(skill, &selected, &token).is_ok());
        token.cancel();
        let error = engine.0.open_script(skill, &selected, &token).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
