//! `metier import`: makes skill folders of definitions in the formats of other systems.

use std::path::{Path, PathBuf};

use metier::error::{ErrorKind, Result, SkillError};
use metier::formats::{ImportedSkill, PackageRegistry, import};
use metier_skill::contract::CONTRACT_FILES;

use super::import_download::{download_definition, is_url};
use super::import_openapi;
use super::import_result::{Import, make_folders, print_import, read_file, record, refuse_linked_folder};
use super::output;
use super::session::Session;

/// Maximum bytes of a file that is read, and of all files of a folder that are copied.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum number of files of a folder that are copied, and how deep they lie.
const MAX_FILES: usize = 1000;
const MAX_DEPTH: usize = 8;
/// The bytes in which a description of an API says what it is.
const MAX_HEAD: usize = 4 << 10;

/// The options of `metier import`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    form: Option<Form>,
    /// Definitions: a SKILL.md, a skill.json or skill.yaml of any format, a folder with one of them, or the https address of one
    #[arg(required = true, value_name = "PATH|URL")]
    sources: Vec<PathBuf>,
    /// A folder of AgentsKit packages; each PATH|URL is then a package, as NAME or NAME@RANGE
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The folder in which the skills are made
    #[arg(long, value_name = "DIR", default_value = ".metier/skills")]
    out: PathBuf,
}

/// What is imported and is no definition of a skill.
#[derive(clap::Subcommand)]
enum Form {
    /// Make a skill of a description of an API: each operation becomes a tool (OpenAPI 3.0 and 3.1)
    Openapi(import_openapi::Args),
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if let Some(Form::Openapi(args)) = &args.form {
        return import_openapi::run(args, session);
    }
    refuse_linked_folder(&args.out)?;
    let imported = match &args.from {
        Some(folder) => import_packages(folder, &args.sources)?,
        None => args
            .sources
            .iter()
            .map(|source| read_source(source))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect(),
    };
    make_folders(&args.out, &imported)?;
    session.exit_watchdog().finish();
    if session.json() {
        let records: Vec<_> = imported.iter().map(|import| record(&args.out, import)).collect();
        output::print_json(&records)?;
        return Ok(0);
    }
    imported.iter().try_for_each(|import| print_import(&args.out, import))?;
    Ok(0)
}

/// The skills of a file, a folder or an address.
fn read_source(source: &Path) -> Result<Vec<Import>> {
    let shown = source.display().to_string();
    let from = |origin: &str, skills: Vec<ImportedSkill>| {
        skills.into_iter().map(|skill| Import { skill, origin: origin.to_owned() }).collect()
    };
    if is_url(&shown) {
        let file = download_definition(&shown)?;
        return Ok(from(&file.origin, import_definition(&file.file_name, &file.content)?));
    }
    Ok(from(&shown, if source.is_dir() { vec![read_folder(source)?] } else { read_definitions(source)? }))
}

/// The newest package of each name, in its range if it has one.
fn import_packages(folder: &Path, names: &[PathBuf]) -> Result<Vec<Import>> {
    let registry = read_registry(folder)?;
    let mut imported = Vec::new();
    for name in names {
        let package = registry.find_named(&name.display().to_string())?;
        let origin = folder.display().to_string();
        let skills = import("skill.json", &package.source)?;
        imported.extend(skills.into_iter().map(|skill| Import { skill, origin: origin.clone() }));
    }
    Ok(imported)
}

/// The packages in the JSON files of a folder. A file that is not a package is an error, with its name.
fn read_registry(folder: &Path) -> Result<PackageRegistry> {
    let mut registry = PackageRegistry::default();
    let mut left = MAX_FILE_BYTES;
    for entry in walkdir::WalkDir::new(folder).min_depth(1).max_depth(MAX_DEPTH).sort_by_file_name() {
        let entry = entry.map_err(|error| SkillError::io("failed to read a folder", error.into()))?;
        let path = entry.path();
        if !entry.file_type().is_file() || path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let source = read(path)?;
        left = left.checked_sub(source.len() as u64).ok_or_else(|| {
            let sentence = format!(
                "failed to read {}: its packages take more than {MAX_FILE_BYTES} bytes",
                folder.display()
            );
            SkillError::new(ErrorKind::Usage, sentence)
        })?;
        registry.publish(&source).map_err(|error| {
            let sentence = format!("{}: {}", path.display(), error.message());
            SkillError::new(error.kind(), sentence)
        })?;
    }
    Ok(registry)
}

fn read_definitions(path: &Path) -> Result<Vec<ImportedSkill>> {
    import_definition(&file_name(path), &read(path)?)
}

/// The skills of a file. Where it is none, but a description of an API, the error says how that is imported.
fn import_definition(file_name: &str, content: &[u8]) -> Result<Vec<ImportedSkill>> {
    import(file_name, content).map_err(|error| {
        let head = String::from_utf8_lossy(&content[..content.len().min(MAX_HEAD)]);
        let is_key = |line: &str| ["openapi:", "\"openapi\":"].iter().any(|key| line.starts_with(key));
        if !head.split(['\n', '{', ',']).any(|line| is_key(line.trim_start())) {
            return error;
        }
        let help = error.help().map(|help| format!("; {help}")).unwrap_or_default();
        error.with_help(format!(
            "a skill is made of the operations of an API by `metier import openapi`{help}"
        ))
    })
}

/// The skill of a folder with all its files: what defines it is checked, and what is missing is added.
fn read_folder(folder: &Path) -> Result<ImportedSkill> {
    let names = ["SKILL.md", "skill.md"].into_iter().chain(CONTRACT_FILES);
    let definition = names.map(|name| folder.join(name)).find(|path| path.is_file());
    let Some(definition) = definition else {
        let sentence = format!("failed to import {}: it holds no definition", folder.display());
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_help(format!("a definition is called SKILL.md, {}", CONTRACT_FILES.join(", "))));
    };
    let [mut skill]: [ImportedSkill; 1] = read_definitions(&definition)?.try_into().map_err(|_| {
        let sentence = format!("failed to import {}: its definition has several skills", folder.display());
        SkillError::new(ErrorKind::InvalidSkill, sentence).with_help("import the file by itself")
    })?;
    skill.files.retain(|(path, _)| path == "SKILL.md");
    if file_name(&definition).eq_ignore_ascii_case("SKILL.md") {
        skill.files.clear();
    }
    let mut left = MAX_FILE_BYTES;
    for entry in walkdir::WalkDir::new(folder).min_depth(1).max_depth(MAX_DEPTH).sort_by_file_name() {
        let entry = entry.map_err(|error| SkillError::io("failed to read a folder", error.into()))?;
        // Links may lead anywhere, and hidden files are not part of a skill.
        let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        let is_hidden = relative.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
        if !entry.file_type().is_file() || is_hidden {
            continue;
        }
        let content = read(entry.path())?;
        left = left.checked_sub(content.len() as u64).filter(|_| skill.files.len() < MAX_FILES).ok_or_else(
            || {
                let sentence =
                    format!("failed to import {}: it holds more than a skill may", folder.display());
                SkillError::new(ErrorKind::InvalidSkill, sentence)
            },
        )?;
        let path: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        skill.files.push((path.join("/"), content));
    }
    let is_there = |path: &str| skill.files.iter().any(|(known, _)| known == path);
    skill.missing.retain(|alternatives| !alternatives.split(" or ").any(is_there));
    Ok(skill)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    read_file(path, MAX_FILE_BYTES)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
