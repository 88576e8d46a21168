//! `metier new`: a skill that runs, to start from.

mod skill_folder;

use std::io;
use std::path::{Path, PathBuf};

use metier::error::{ErrorKind, Result, SkillError};
use metier::executor::SkillRuntime;
use metier::skill::{Diagnostic, Profile, Severity, SkillLocation, parse, suggested_name};
use serde::Serialize;

use super::output;
use super::session::Session;
use super::templates::{TEMPLATES, Template, TemplateFile};
use super::terminal::escape_line;

/// The options of `metier new`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill's name: lowercase letters, digits and hyphens
    name: String,
    /// What its script is written in: lua, rhai, wasm, tool-sequence or external
    #[arg(long, value_name = "RUNTIME", default_value = "lua")]
    runtime: String,
    /// The script's file name; its ending chooses among languages, as in run.sh
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
    /// What the skill does and when to use it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Make it in this folder [default: the current one] instead of among the project's skills
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
}

impl Args {
    /// The skill's name, as it was written.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let template = select_template(&args.runtime, args.script.as_deref())?;
    let script = script_name(args.script.as_deref(), template)?;
    let description = args.description.as_deref().unwrap_or(template.description);
    refuse_control_characters("name", &args.name)?;
    refuse_control_characters("description", description)?;
    let files = template.files(&args.name, description, &script);
    validate_files(&args.name, &files)?;
    let (base, parent) = target_folder(args, session)?;
    let path = strip_current_dir(&base.join(&parent).join(&args.name));
    self::skill_folder::create(&base, &parent, &args.name, &files)
        .map_err(|error| creation_error(&path, error))?;
    let files = files.into_iter().map(|(path, _)| path).collect();
    print_created(
        &CreatedSkill { name: args.name.clone(), path, files },
        &run_hint(args, session, template),
        session,
    )?;
    Ok(0)
}

/// The folder to stay in and the way from there to where the skill goes.
fn target_folder(args: &Args, session: &Session) -> Result<(PathBuf, String)> {
    match &args.here {
        Some(folder) => Ok((folder.clone(), ".".to_owned())),
        None => Ok((session.project_for_scripts()?, format!(".{}/skills", session.product()))),
    }
}

fn select_template(runtime: &str, script: Option<&str>) -> Result<&'static Template> {
    let known: SkillRuntime = runtime.parse().map_err(|_| unknown_runtime(runtime))?;
    let mut templates = TEMPLATES.iter().filter(|template| template.runtime == known).peekable();
    let Some(&default) = templates.peek() else {
        let message = format!("there is no template for {known} skills");
        return Err(SkillError::new(ErrorKind::Unavailable, message).with_help(available_templates()));
    };
    metier::supports(known)?;
    let Some(script) = script else { return Ok(default) };
    let endings: Vec<&str> = templates.clone().map(|template| template.extension).collect();
    let ending = script.rsplit_once('.').map(|(_, ending)| ending);
    templates.find(|template| Some(template.extension) == ending).ok_or_else(|| {
        let message = format!("there is no template for a script called {}", escape_line(script));
        let help = format!("for {known}, the script's ending is one of: {}", endings.join(", "));
        SkillError::new(ErrorKind::Usage, message).with_help(help)
    })
}

fn unknown_runtime(runtime: &str) -> SkillError {
    let near = SkillRuntime::all().find(|known| strsim::osa_distance(known.name(), runtime) <= 2);
    let help = near.map_or_else(available_templates, |known| format!("did you mean `{known}`?"));
    SkillError::new(ErrorKind::Usage, format!("no runtime is called `{}`", escape_line(runtime)))
        .with_help(help)
}

fn available_templates() -> String {
    let mut names: Vec<&str> = TEMPLATES.iter().map(|template| template.runtime.name()).collect();
    names.dedup();
    format!("there are templates for {}", names.join(", "))
}

fn script_name(given: Option<&str>, template: &Template) -> Result<String> {
    let Some(script) = given else { return Ok(template.script_name.to_owned()) };
    if template.runtime == SkillRuntime::ToolSequence && script != template.script_name {
        let message = format!("a sequence is found by its name, and `{}` is not it", escape_line(script));
        return Err(
            SkillError::new(ErrorKind::Usage, message).with_help(format!("call it {}", template.script_name))
        );
    }
    let is_plain =
        script.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) && !script.starts_with(['.', '-']);
    if is_plain {
        return Ok(script.to_owned());
    }
    let message = format!("`{}` is not a name for a script", escape_line(script));
    Err(SkillError::new(ErrorKind::Usage, message).with_help("use letters, digits, `.`, `_` and `-`"))
}

/// Says in its own words what would come out of [`check`] as a fault of the YAML.
fn refuse_control_characters(what: &str, text: &str) -> Result<()> {
    let Some(control) = text.chars().find(|c| c.is_control() && !c.is_whitespace()) else { return Ok(()) };
    let message = format!("the {what} holds the control character U+{:04X}", u32::from(control));
    Err(SkillError::new(ErrorKind::Usage, message).with_help("remove it"))
}

/// Holds what would be written against the rules `metier validate` has, in both profiles.
fn validate_files(name: &str, files: &[TemplateFile]) -> Result<()> {
    let text = files.first().map_or("", |(_, text)| text.as_str());
    let parsed = parse(text.as_bytes(), SkillLocation { directory: name, file_name: "SKILL.md" });
    let profiles = [Profile::Spec, Profile::SkillsRef];
    let mut found = profiles.into_iter().flat_map(|profile| parsed.diagnostics(profile));
    found
        .find(|diagnostic| diagnostic.severity == Severity::Error)
        .map_or(Ok(()), |fault| Err(validation_error(name, fault)))
}

fn validation_error(name: &str, fault: &Diagnostic) -> SkillError {
    let help = match suggested_name(name) {
        Some(better) if fault.code.starts_with("name-") => Some(format!("call it `{better}`")),
        Some(_) | None => fault.help.clone(),
    };
    let error = SkillError::new(ErrorKind::Usage, escape_line(&fault.message));
    match help {
        Some(help) => error.with_help(escape_line(&help)),
        None => error,
    }
}

fn creation_error(path: &Path, error: io::Error) -> SkillError {
    let shown = escape_line(&path.display().to_string());
    if error.kind() == io::ErrorKind::AlreadyExists {
        let message = format!("{shown} exists already");
        return SkillError::new(ErrorKind::Usage, message)
            .with_help("choose another name, or remove it first");
    }
    SkillError::io(format_args!("failed to make {shown}"), error)
}

/// The command that shows the new skill at work.
fn run_hint(args: &Args, session: &Session, template: &Template) -> String {
    if args.here.is_some() {
        return "put the folder among a project's skills to run it".to_owned();
    }
    let product = match session.product() {
        "metier" => String::new(),
        product => format!(" --product {product}"),
    };
    let project = match session.explicit_project() {
        Some(folder) => format!(" --project {}", shell_quote(folder)),
        None => String::new(),
    };
    format!("run it: metier run {}{product}{project} {}", args.name, template.example)
}

/// The path as one word of a shell.
fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn print_created(made: &CreatedSkill, way_to_run: &str, session: &Session) -> Result<()> {
    if session.json() {
        let path = std::path::absolute(&made.path).unwrap_or_else(|_| made.path.clone());
        return output::print_json(&CreatedSkill {
            path,
            name: made.name.clone(),
            files: made.files.clone(),
        });
    }
    let files: Vec<String> = made.files.iter().map(|file| format!("  {file}")).collect();
    output::print(&format!("made {}\n{}", escape_line(&made.path.display().to_string()), files.join("\n")))?;
    output::eprint(&escape_line(way_to_run));
    Ok(())
}

/// The path without `.` in it.
fn strip_current_dir(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}
