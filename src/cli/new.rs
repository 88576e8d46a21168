//! `metier new`: a skill that runs, to start from.

mod drop_in;
mod skill_folder;

use std::io;
use std::path::{Path, PathBuf};

use metier::engine::Engine;
use metier::error::{ErrorKind, Result, SkillError};
use metier::executor::RuntimeId;
use metier::registry::{Root, Roots, Scope};
use metier::skill::{Diagnostic, Profile, Severity, SkillLocation, parse, suggested_name};
use metier::trust::ProjectIdentity;
use metier_core::suggestion::{closest, did_you_mean};
use serde::Serialize;

use super::output;
use super::session::Session;
use super::templates::{TEMPLATES, Template, TemplateFile};
use super::terminal::escape_line;

/// The options of `metier new`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill's name: lowercase letters, digits and hyphens. With the extension of a language, as in hello.lua, the skill is
    /// one file
    name: String,
    /// The language of its script: lua (the default), rhai, wasm, tool-sequence, python, bash, sh, node, typescript, deno,
    /// perl, ruby, php, zsh, ksh or fish
    #[arg(long, value_name = "RUNTIME")]
    runtime: Option<String>,
    /// The file name of its script; the extension alone chooses the language, as in run.py
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
    /// What the skill does and when to use it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Create it in this folder [default: the current one] and not among the project's skills
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    here: Option<PathBuf>,
}

/// The answer, as it is in JSON.
#[derive(Serialize)]
struct CreatedSkill {
    name: String,
    /// The new folder; absolute in JSON.
    path: PathBuf,
    /// The files in it, relative to it.
    files: Vec<String>,
    /// Whether it can run on this machine now.
    runnable: bool,
    /// Why it cannot.
    reason: Option<String>,
}

impl Args {
    /// The skill's name, as the caller wrote it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if let Some((name, _)) = drop_in_name(args) {
        return create_drop_in(args, name, session);
    }
    let template = select_template(args.runtime.as_deref(), args.script.as_deref())?;
    let script = script_name(args.script.as_deref(), template)?;
    refuse_control_characters("name", &args.name)?;
    refuse_control_characters("description", args.description.as_deref().unwrap_or_default())?;
    let files = template.files(&args.name, args.description.as_deref(), &script);
    validate_files(&args.name, &files)?;
    let (base, parent) = target_folder(args, session)?;
    refuse_links(&base, Path::new(&parent), "--here=DIR")?;
    let path = strip_current_dir(&base.join(&parent).join(&args.name));
    self::skill_folder::create(&base, &parent, &args.name, &files)
        .map_err(|error| creation_error(&path, error))?;
    trust_own_work(&path, session);
    session.exit_watchdog().start_loading_timeout();
    let unavailable = unavailable_reason(&path, session);
    session.exit_watchdog().finish();
    let files = files.into_iter().map(|(path, _)| path).collect();
    report_created(args, &args.name, session, template, Creation { path, files, unavailable })
}

/// Creates a skill of one file, and trusts it as it is.
fn create_drop_in(args: &Args, name: &str, session: &Session) -> Result<u8> {
    let template = select_template(args.runtime.as_deref(), Some(&args.name))?;
    refuse_control_characters("name", &args.name)?;
    refuse_control_characters("description", args.description.as_deref().unwrap_or_default())?;
    validate_files(name, &template.files(name, args.description.as_deref(), &args.name))?;
    let (base, parent) = target_folder(args, session)?;
    refuse_links(&base, Path::new(&parent), "--here=DIR")?;
    let path = strip_current_dir(&base.join(&parent).join(&args.name));
    self::drop_in::create(&base, &parent, &args.name, &template.drop_in(args.description.as_deref()))
        .map_err(|error| creation_error(&path, error))?;
    let mut unavailable = None;
    if args.here.is_none() {
        session.exit_watchdog().start_loading_timeout();
        let trusted = session.engine().and_then(|engine| {
            let registry = engine.registry();
            let skill = registry.find(name)?;
            unavailable = engine.availability(skill).reason;
            let files = engine.skill_files(skill)?;
            let project = engine.project_identity(skill)?;
            engine.trust_store().map_or(Ok(()), |store| store.trust_skills(&project, &[files]))
        });
        session.exit_watchdog().finish();
        if let Err(error) = trusted {
            output::print_error_as_warning(&error, "the skill was created, and is not trusted");
        }
    }
    let files = vec![args.name.clone()];
    report_created(args, name, session, template, Creation { path, files, unavailable })
}

/// What was created, and why it cannot run on this machine now.
struct Creation {
    path: PathBuf,
    files: Vec<String>,
    unavailable: Option<SkillError>,
}

/// Prints what was created, and how to run it.
fn report_created(
    args: &Args,
    name: &str,
    session: &Session,
    template: &Template,
    Creation { path, files, unavailable }: Creation,
) -> Result<u8> {
    if session.json() {
        output::print_json(&CreatedSkill {
            name: name.to_owned(),
            path: std::path::absolute(&path).unwrap_or(path),
            files,
            runnable: unavailable.is_none(),
            reason: unavailable.as_ref().map(ToString::to_string),
        })?;
        return Ok(0);
    }
    // A skill of one file is its path.
    let list = files.iter().filter(|file| **file != args.name).map(|file| format!("\n  {file}"));
    let list: String = list.collect();
    output::print(&format!("created {}{list}", escape_line(&path.display().to_string())))?;
    if let Some(reason) = &unavailable {
        output::print_error_as_warning(reason, "the skill cannot run on this machine yet");
    }
    output::eprint(&escape_line(&run_hint(args, name, session, template)));
    Ok(0)
}

/// The name of the skill and its extension, if the caller asks for a skill of one file.
fn drop_in_name(args: &Args) -> Option<(&str, &str)> {
    let (name, extension) = args.name.rsplit_once('.')?;
    let is_language = |template: &Template| {
        template.runtime != RuntimeId::TOOL_SEQUENCE && template.extensions.contains(&extension)
    };
    (args.script.is_none() && TEMPLATES.iter().any(is_language)).then_some((name, extension))
}

/// What a person makes is trusted, with all that comes into its folder later.
fn trust_own_work(folder: &Path, session: &Session) {
    let trusted = session.trust_store().and_then(|store| store.trust_folder(ProjectIdentity::new(folder)?));
    if let Err(error) = trusted {
        output::print_error_as_warning(&error, "the skill was created, and is not trusted");
    }
}

/// The folder to stay in and the way from there to where the skill goes.
fn target_folder(args: &Args, session: &Session) -> Result<(PathBuf, String)> {
    match &args.here {
        Some(folder) => Ok((folder.clone(), ".".to_owned())),
        None => Ok((session.project_for_scripts()?, format!(".{}/skills", session.product()))),
    }
}

/// Refuses to make a skill where a link in a path below `base` leads: a project may come with such a link, and what the skill is made of
/// would lie elsewhere. `option` names another folder.
pub(super) fn refuse_links(base: &Path, path: &Path, option: &str) -> Result<()> {
    let mut place = base.to_owned();
    for part in path {
        place.push(part);
        let Ok(target) = std::fs::read_link(&place) else { continue };
        let shown = |path: &Path| escape_line(&path.display().to_string());
        let message =
            format!("no skill is made in {}: {} is a link to {}", shown(path), shown(&place), shown(&target));
        return Err(SkillError::new(ErrorKind::Io, message)
            .with_help(format!("remove the link, or name the folder to which it leads with {option}")));
    }
    Ok(())
}

/// The template that a runtime, a script's name or both choose.
fn select_template(runtime: Option<&str>, script: Option<&str>) -> Result<&'static Template> {
    let mut templates: Vec<&Template> = TEMPLATES.iter().collect();
    if let Some(runtime) = runtime {
        templates.retain(|template| is_called(template, runtime));
        if templates.is_empty() {
            return Err(unknown_runtime(runtime));
        }
    }
    let extension = script.map(|script| script.rsplit_once('.').map_or("", |(_, extension)| extension));
    let fits = |template: &&Template| extension.is_none_or(|name| template.extensions.contains(&name));
    let template = templates.iter().copied().find(fits).ok_or_else(|| {
        let script = escape_line(script.unwrap_or_default());
        let mut extensions: Vec<&str> =
            templates.iter().flat_map(|template| template.extensions).copied().collect();
        extensions.dedup();
        let whose = runtime.map_or_else(String::new, |runtime| format!(" in {}", escape_line(runtime)));
        let message = format!("there is no template for a script{whose} that is called {script}");
        SkillError::new(ErrorKind::Usage, message)
            .with_help(format!("use one of these extensions: {}", extensions.join(", ")))
    })?;
    metier::supports(template.runtime)?;
    Ok(template)
}

/// Whether `--runtime` means this template. `external` is the name of the runtime of all scripts with an interpreter.
fn is_called(template: &Template, runtime: &str) -> bool {
    template.names.contains(&runtime) || template.runtime.name() == runtime
}

fn unknown_runtime(runtime: &str) -> SkillError {
    let known = TEMPLATES.iter().flat_map(|template| template.names).copied();
    // A short name is near to every other short one.
    let near = closest(runtime, known.filter(|name| name.len() > 2));
    let help = near.map_or_else(
        || {
            let names: Vec<&str> = TEMPLATES.iter().map(Template::name).collect();
            format!("the runtimes with a template are {}", names.join(", "))
        },
        did_you_mean,
    );
    let message = format!("there is no template for the runtime `{}`", escape_line(runtime));
    SkillError::new(ErrorKind::Usage, message).with_help(help)
}

fn script_name(name: Option<&str>, template: &Template) -> Result<String> {
    let Some(script) = name else { return Ok(template.script_name.to_owned()) };
    if template.runtime == RuntimeId::TOOL_SEQUENCE && script != template.script_name {
        let message = format!("`{}` cannot be the name of a tool sequence", escape_line(script));
        return Err(
            SkillError::new(ErrorKind::Usage, message).with_help(format!("call it {}", template.script_name))
        );
    }
    let is_plain =
        script.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) && !script.starts_with(['.', '-']);
    if is_plain {
        return Ok(script.to_owned());
    }
    let message = format!("`{}` cannot be the name of a script", escape_line(script));
    Err(SkillError::new(ErrorKind::Usage, message)
        .with_help("use letters, digits, `.`, `_` and `-`, and begin with a letter or digit"))
}

/// Why the new skill cannot run on this machine now; nothing where it can, and where that cannot be found out.
fn unavailable_reason(path: &Path, session: &Session) -> Option<SkillError> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let roots = Roots::empty().with(Root::new(Scope::Project, "new", folder));
    let engine = Engine::builder(session.project().ok()?).roots(roots).build().ok()?;
    let skill = engine.registry().find(name).ok()?.clone();
    engine.availability(&skill).reason
}

/// Refuses by name what the YAML parser would report as an error at some column.
fn refuse_control_characters(what: &str, text: &str) -> Result<()> {
    let Some(control) = text.chars().find(|c| c.is_control() && !c.is_whitespace()) else { return Ok(()) };
    let message = format!("the {what} contains the control character U+{:04X}", u32::from(control));
    Err(SkillError::new(ErrorKind::Usage, message).with_help("remove it"))
}

/// Checks the files by the rules of `metier validate`, in both profiles, before anything is written.
fn validate_files(name: &str, files: &[TemplateFile]) -> Result<()> {
    let text = files.first().map_or("", |(_, text)| text.as_str());
    let parsed = parse(text.as_bytes(), SkillLocation { directory: name, file_name: "SKILL.md" });
    let profiles = [Profile::Spec, Profile::SkillsRef];
    let mut found = profiles.into_iter().flat_map(|profile| parsed.diagnostics(profile));
    found
        .find(|diagnostic| diagnostic.severity == Severity::Error)
        .map_or(Ok(()), |error| Err(validation_error(name, error)))
}

fn validation_error(name: &str, diagnostic: &Diagnostic) -> SkillError {
    let help = match suggested_name(name) {
        Some(better) if diagnostic.code.starts_with("name-") => Some(format!("call it `{better}`")),
        Some(_) | None => diagnostic.help.clone(),
    };
    let error = SkillError::new(ErrorKind::Usage, escape_line(&diagnostic.message));
    match help {
        Some(help) => error.with_help(escape_line(&help)),
        None => error,
    }
}

fn creation_error(path: &Path, error: io::Error) -> SkillError {
    let shown = escape_line(&path.display().to_string());
    if error.kind() == io::ErrorKind::AlreadyExists {
        let message = format!("{shown} already exists");
        return SkillError::new(ErrorKind::Usage, message)
            .with_help("choose another name, or remove it first");
    }
    SkillError::io(format_args!("failed to create {shown}"), error)
}

/// The command that shows the new skill at work.
fn run_hint(args: &Args, name: &str, session: &Session, template: &Template) -> String {
    if args.here.is_some() {
        return format!("to run it, move it into .{}/skills of a project", session.product());
    }
    let product = match session.product() {
        "metier" => String::new(),
        product => format!(" --product {product}"),
    };
    let project = match session.explicit_project() {
        Some(folder) => format!(" --project {}", shell_quote(folder)),
        None => String::new(),
    };
    format!("run it: metier run {name}{product}{project} {}", template.example())
}

/// The path as one word of a shell.
pub(super) fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// The path without `.` in it.
fn strip_current_dir(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_alone_or_a_runtime_alone_chooses_the_template() {
        let chosen = |runtime: Option<&str>, script: Option<&str>| {
            select_template(runtime, script).map_or("none", Template::name)
        };
        if metier::supports(RuntimeId::LUA).is_ok() {
            assert_eq!(chosen(None, None), "lua");
        }
        for (runtime, script, name) in [
            (Some("python"), None, "python"),
            (Some("external"), None, "python"),
            (Some("js"), None, "node"),
            (Some("sh"), None, "sh"),
            (None, Some("run.js"), "node"),
            (None, Some("run.mts"), "typescript"),
            (None, Some("run.sh"), "bash"),
            (Some("external"), Some("run.pl"), "perl"),
            (Some("deno"), Some("run.ts"), "deno"),
            (Some("python"), Some("run.js"), "none"),
            (None, Some("run.cobol"), "none"),
            (None, Some("run"), "none"),
        ] {
            assert_eq!(chosen(runtime, script), name, "{runtime:?} {script:?}");
        }
    }
}
