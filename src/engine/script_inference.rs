//! Infers which script of a skill is meant where no contract says it: from its name, or because only one is likely.

use crate::engine::script_candidates::{MAX_COMPARED_BYTES, named_in_text, script_stem, startable_scripts};
use crate::registry::{Skill, SkillFolder};
use crate::runtimes::{self, Runtimes, is_plugin_manifest};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::Files;
use metier_core::policy::{Limits, PathProtection};
use metier_skill::contract::is_tool_script;

/// The most tools that an error names.
pub(super) const MAX_SHOWN_TOOLS: usize = 8;

/// The path of the script to run if nobody names one. `opened` is the folder of the skill, if it is open.
pub(super) fn inferred_script_path(
    runtimes: &Runtimes,
    skill: &Skill,
    declared: Option<RuntimeId>,
    opened: Option<&Files>,
) -> Result<String> {
    let source = |path: &str, cap| skill.folder().read(path, cap).ok();
    let infer = |scripts: &[String]| infer_script(runtimes, skill.name(), scripts, declared, source);
    let inferred = infer(&plain_scripts(skill, opened)?).map_err(|error| offer_tools(skill, error));
    if !inferred.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
        return inferred;
    }
    let named = scripts_named_in_text(runtimes, skill)?;
    if !named.is_empty() {
        return infer(&named);
    }
    inferred.map_err(|error| match (declared, unrecognized_script_help(runtimes, skill)) {
        (None | Some(RuntimeId::EXTERNAL), Some(help)) if error.hint() != Some(&Hint::Tool) => {
            error.with_help(help).with_hint(None)
        }
        _ => error,
    })
}

/// What to do with a file that somebody seems to have meant as the script, and that is none: one in `scripts/` of which nothing says
/// what runs it, or one beside SKILL.md.
fn unrecognized_script_help(runtimes: &Runtimes, skill: &Skill) -> Option<String> {
    let files = skill.folder().files().ok()?;
    let is_nameless = |path: &&String| {
        let name = path.strip_prefix("scripts/").unwrap_or("/");
        !name.contains(['/', '.']) && !name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    if let Some(path) = files.iter().find(is_nameless) {
        return Some(format!(
            "nothing says what runs {path}: give it an extension such as .py or .sh, or a first line such as #!/bin/sh"
        ));
    }
    let is_beside = |path: &&String| {
        !path.contains('/')
            && runtimes::looks_like_script(runtimes, path, || {
                skill.folder().read(path, Limits::MAX_READ_SIZE).ok()
            })
    };
    let path = files.iter().find(is_beside)?;
    Some(format!("{path} is not in the folder scripts: move it there, or name it as `entrypoint`"))
}

/// The error of a skill without a script, which names the tools that it offers.
fn offer_tools(skill: &Skill, error: SkillError) -> SkillError {
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let callable: Vec<&str> = tools
        .iter()
        .filter(|tool| tool.handler.is_some())
        .map(|tool| tool.name.as_str())
        .take(MAX_SHOWN_TOOLS)
        .collect();
    if callable.is_empty() || error.kind() != ErrorKind::Unavailable {
        return error;
    }
    error.with_help(format!("call one of its tools: {}", callable.join(", "))).with_hint(Hint::Tool)
}

/// The scripts in `scripts/`, without those that run when a tool is called.
pub(super) fn plain_scripts(skill: &Skill, opened: Option<&Files>) -> Result<Vec<String>> {
    let mut scripts = skill.scripts_in(opened)?;
    if let Some(contract) = skill.contract().filter(|contract| !contract.tools.is_empty()) {
        scripts.retain(|path| !is_tool_script(contract, path));
    }
    Ok(scripts)
}

/// The scripts outside of `scripts/` and in its subfolders that the text of the skill names.
pub(super) fn scripts_named_in_text(runtimes: &Runtimes, skill: &Skill) -> Result<Vec<String>> {
    let is_plain = |path: &str| path.strip_prefix("scripts/").is_some_and(|name| !name.contains('/'));
    let is_script = |path: &String| {
        !is_plain(path)
            && !skill.contract().is_some_and(|contract| is_tool_script(contract, path))
            && runtimes::looks_like_script(runtimes, path, || {
                skill.folder().read(path, Limits::MAX_READ_SIZE).ok()
            })
    };
    let files = skill.folder().files()?;
    let text = skill.body()?;
    Ok(named_in_text(skill.name(), &text, &files)
        .into_iter()
        .filter(|path| is_script(path))
        .cloned()
        .collect())
}

/// The path of a named script, relative to the skill's folder; `./scripts/x.py`, `x.py` and `x` all find `scripts/x.py`.
pub(super) fn named_script_path(runtimes: &Runtimes, skill: &Skill, path: &str) -> Result<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let files = skill.folder().files()?;
    let in_scripts = format!("scripts/{path}");
    for candidate in [path, &in_scripts] {
        if files.iter().any(|file| file == candidate) {
            return Ok(candidate.to_owned());
        }
    }
    if let Some(hidden) = [path, &in_scripts].into_iter().find(|path| is_hidden_script(runtimes, skill, path))
    {
        return Ok(hidden.to_owned());
    }
    let has_this_stem = |file: &&String| {
        file.strip_prefix("scripts/").is_some_and(|name| !name.contains('/'))
            && script_stem(file) == path.strip_prefix("scripts/").unwrap_or(path)
            && runtimes::looks_like_script(runtimes, file, || None)
    };
    let fitting: Vec<&String> = files.iter().filter(has_this_stem).collect();
    if let [only] = fitting.as_slice() {
        return Ok((*only).clone());
    }
    if !fitting.is_empty() {
        return Err(several_scripts_error(skill.name(), &fitting));
    }
    let error =
        SkillError::new(ErrorKind::UnknownSkill, format!("skill {} has no script {path}", skill.name()));
    let is_link = |path: &str| {
        let folder = skill.folder().disk_path();
        folder
            .is_some_and(|folder| folder.join(path).symlink_metadata().is_ok_and(|found| found.is_symlink()))
    };
    if is_link(path) || is_link(&in_scripts) {
        return Err(error.with_help("what is there is a link out of the skill's folder, which is not followed; put the file in its place"));
    }
    let is_hidden = |path: &str| {
        let folder = skill.folder().disk_path();
        path.split('/').any(|name| name.starts_with('.') && name != "..")
            && folder.is_some_and(|folder| folder.join(path).is_file())
    };
    if !path.contains("..") && (is_hidden(path) || is_hidden(&in_scripts)) {
        return Err(error.with_help(
            "a path with a name that begins with a dot must be that of a script, not of a link or a protected file; give it another name",
        ));
    }
    let (scripts, entrypoints) = (skill.scripts()?, entrypoint_names(skill));
    Err(match (scripts.is_empty(), entrypoints.is_empty()) {
        (true, true) => error,
        (false, true) => error.with_help(format!("its scripts are {}", scripts.join(", "))),
        (_, false) => error.with_help(format!("its entrypoints are {}", entrypoints.join(", "))),
    })
}

/// Whether a path with a name that begins with a dot is that of a script. Such files are not listed, and run only where somebody names
/// one; they are among the files of the skill's digest as all others are. A link and a protected file are none.
pub(super) fn is_hidden_script(runtimes: &Runtimes, skill: &Skill, path: &str) -> bool {
    let SkillFolder::Disk(folder) = skill.folder() else { return false };
    let is_plain = |name: &str| !name.is_empty() && name != "." && name != "..";
    let is_hidden = path.split('/').any(|name| name.starts_with('.'));
    if !is_hidden || !path.split('/').all(is_plain) || PathProtection::new([""; 0]).protects_read(path) {
        return false;
    }
    let mut place = folder.clone();
    let has_no_link = path.split('/').all(|name| {
        place.push(name);
        place.symlink_metadata().is_ok_and(|found| !found.is_symlink())
    });
    let read = || skill.folder().read(path, Limits::MAX_READ_SIZE).ok();
    has_no_link && place.is_file() && runtimes::looks_like_script(runtimes, path, read)
}

fn entrypoint_names(skill: &Skill) -> Vec<&str> {
    let named = skill.contract().map_or(&[][..], |contract| &contract.entrypoints);
    named.iter().map(|(name, _)| name.as_str()).collect()
}

fn infer_script(
    runtimes: &Runtimes,
    skill: &str,
    scripts: &[String],
    declared: Option<RuntimeId>,
    source: impl Fn(&str, u64) -> Option<Vec<u8>>,
) -> Result<String> {
    let fits = |path: &&String| match declared {
        Some(runtime) if runtime != RuntimeId::EXTERNAL && runtimes.for_path(path) != runtime => false,
        Some(runtime) if runtime != RuntimeId::EXTERNAL && !is_plugin_manifest(path) => true,
        _ => runtimes::looks_like_script(runtimes, path, || source(path, Limits::MAX_READ_SIZE)),
    };
    let mut runnable: Vec<&String> = scripts.iter().filter(fits).collect();
    // The modules beside a manifest are those that it names.
    if runnable.iter().any(|path| is_plugin_manifest(path)) {
        runnable.retain(|path| is_plugin_manifest(path) || runtimes.for_path(path) != RuntimeId::WASM);
    }
    let mains: Vec<&&String> = runnable.iter().filter(|path| script_stem(path) == "main").collect();
    if let [only] = mains.as_slice() {
        return Ok((**only).clone());
    }
    match startable_scripts(&runnable, |path| source(path, MAX_COMPARED_BYTES)).as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(no_script_error(skill, declared, scripts)),
        several => Err(several_scripts_error(skill, several)),
    }
}

fn several_scripts_error(skill: &str, scripts: &[&String]) -> SkillError {
    let listed: Vec<&str> = scripts.iter().map(|path| path.as_str()).collect();
    let sentence = format!("skill {skill} has several scripts: {}", listed.join(", "));
    SkillError::new(ErrorKind::Usage, sentence).with_help("name one of them").with_hint(Hint::Script)
}

fn no_script_error(skill: &str, declared: Option<RuntimeId>, scripts: &[String]) -> SkillError {
    match declared {
        Some(RuntimeId::TOOL_SEQUENCE) => {
            let sentence = format!("skill {skill} says runtime: tool-sequence, but has no steps");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(
                    "write them under `steps` in skill.yaml, in scripts/sequence.json, or as a numbered list in SKILL.md",
                )
        }
        Some(runtime) if !scripts.is_empty() => {
            let sentence =
                format!("skill {skill} says runtime: {runtime}, but has no such script in scripts/");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(format!("it has {}", scripts.join(", ")))
        }
        _ => SkillError::new(ErrorKind::Unavailable, format!("skill {skill} has no script to run"))
            .with_help("it holds instructions for a model to read")
            .with_hint(Hint::ShowSkill(skill.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(scripts: &[&str], declared: Option<RuntimeId>) -> Result<String> {
        let scripts: Vec<String> = scripts.iter().map(|&path| path.to_owned()).collect();
        infer_script(&Runtimes::built_in(), "x", &scripts, declared, |_, _| Some(b"#!/bin/sh".to_vec()))
    }

    #[test]
    fn main_wins_and_a_single_script_needs_no_name() {
        assert_eq!(chosen(&["scripts/count.lua", "scripts/README.md"], None).unwrap(), "scripts/count.lua");
        assert_eq!(chosen(&["scripts/run"], None).unwrap(), "scripts/run", "told by its shebang");
        assert_eq!(chosen(&["scripts/lib.py", "scripts/main.py"], None).unwrap(), "scripts/main.py");
        assert_eq!(
            chosen(&["scripts/a.py", "scripts/b.lua"], Some(RuntimeId::LUA)).unwrap(),
            "scripts/b.lua"
        );
    }

    #[test]
    fn a_manifest_of_a_plug_in_stands_for_the_modules_beside_it() {
        let chosen = |declared, manifest: &'static [u8]| {
            let scripts = ["scripts/main.wasm", "scripts/plugin.json"].map(str::to_owned);
            infer_script(&Runtimes::built_in(), "x", &scripts, declared, |_, _| Some(manifest.to_vec()))
                .unwrap()
        };
        for declared in [None, Some(RuntimeId::WASM)] {
            assert_eq!(chosen(declared, br#"{"wasm": []}"#), "scripts/plugin.json");
            for other in [&b"{}"[..], br#"{"wasm": 1}"#, b"[]", b"{\"wasm\": [", b"\xff"] {
                assert_eq!(chosen(declared, other), "scripts/main.wasm");
            }
        }
    }

    #[test]
    fn several_scripts_are_listed_and_none_is_chosen() {
        let error = chosen(&["scripts/a.py", "scripts/b.sh"], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().ends_with("scripts/a.py, scripts/b.sh"), "{error}");
        assert_eq!(chosen(&["scripts/data.json"], None).unwrap_err().kind(), ErrorKind::Unavailable);
        let error = chosen(&[], Some(RuntimeId::TOOL_SEQUENCE)).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::InvalidSkill, "skill x says runtime: tool-sequence, but has no steps")
        );
        let error = chosen(&["scripts/a.py"], Some(RuntimeId::LUA)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    }
}
