//! `metier import openapi`: makes skills of descriptions of APIs.

use std::path::{Path, PathBuf};

use metier::error::{ErrorKind, Result, SkillError};
use metier::formats::{
    MAX_OPENAPI_BYTES, OpenApiAuthentication, OpenApiImport, OpenApiOptions, OperationGroup, import_openapi,
};
use serde_json::{Value, json};

use super::import_download::{download_description, is_url};
use super::import_result::{Import, make_folders, print_import, read_file, record, refuse_linked_folder};
use super::output;
use super::session::Session;
use super::terminal::{escape_line, shorten_line};

/// The most columns of an example.
const MAX_EXAMPLE: usize = 70;

/// The options of `metier import openapi`.
#[derive(clap::Args)]
pub struct Args {
    /// Descriptions of APIs in OpenAPI 3.0 or 3.1, as JSON or YAML, or the https addresses of some
    #[arg(required = true, value_name = "FILE|URL")]
    sources: Vec<PathBuf>,
    /// Only these operations, separated by commas: tag:NAME, a path such as /repos/**, a method and a path, or an id
    #[arg(long, value_name = "PATTERNS")]
    only: Vec<String>,
    /// The name of the skill (default: made of the title)
    #[arg(long)]
    name: Option<String>,
    /// The URL below which all calls stay (default: the first server of the description)
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// How calls authenticate, whatever the description says: bearer, basic, header:NAME or query:NAME
    #[arg(long, value_name = "WAY", value_parser = parse_authentication)]
    auth: Option<OpenApiAuthentication>,
    /// Deprecated operations, too
    #[arg(long)]
    deprecated: bool,
    /// The folder in which the skills are made
    #[arg(long, value_name = "DIR", default_value = ".metier/skills")]
    out: PathBuf,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if args.sources.len() > 1 && (args.name.is_some() || args.base_url.is_some()) {
        let sentence = "--name and --base-url are for one description, and there are several";
        return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("import them one after the other"));
    }
    refuse_linked_folder(&args.out)?;
    let reports = args.sources.iter().map(|source| read_source(source, args)).collect::<Result<Vec<_>>>()?;
    let (imported, reports): (Vec<Import>, Vec<OpenApiImport>) = reports.into_iter().unzip();
    make_folders(&args.out, &imported)?;
    session.exit_watchdog().finish();
    if session.json() {
        let records: Vec<Value> = imported
            .iter()
            .zip(&reports)
            .map(|(import, report)| with_report(record(&args.out, import), report))
            .collect();
        output::print_json(&records)?;
        return Ok(0);
    }
    for (import, report) in imported.iter().zip(&reports) {
        print_import(&args.out, import)?;
        print_report(report)?;
    }
    Ok(0)
}

fn read_source(source: &Path, args: &Args) -> Result<(Import, OpenApiImport)> {
    let shown = source.display().to_string();
    let mut options = OpenApiOptions::default();
    options.name.clone_from(&args.name);
    options.base_url.clone_from(&args.base_url);
    options.only.clone_from(&args.only);
    options.authentication.clone_from(&args.auth);
    options.includes_deprecated = args.deprecated;
    let (origin, content) = if is_url(&shown) {
        let file = download_description(&shown, MAX_OPENAPI_BYTES)?;
        options.source_url = Some(file.origin.clone());
        (file.origin, file.content)
    } else {
        (shown, read_file(source, MAX_OPENAPI_BYTES as u64)?)
    };
    let made = import_openapi(&escape_line(&origin), &content, &options)?;
    Ok((Import { skill: made.skill.clone(), origin }, made))
}

fn parse_authentication(text: &str) -> std::result::Result<OpenApiAuthentication, String> {
    match text.split_once(':') {
        None if text == "bearer" => Ok(OpenApiAuthentication::Bearer),
        None if text == "basic" => Ok(OpenApiAuthentication::Basic),
        Some(("header", name)) if !name.is_empty() => Ok(OpenApiAuthentication::Header(name.to_owned())),
        Some(("query", name)) if !name.is_empty() => Ok(OpenApiAuthentication::Query(name.to_owned())),
        _ => Err("expected bearer, basic, header:NAME or query:NAME".to_owned()),
    }
}

fn with_report(record: Value, report: &OpenApiImport) -> Value {
    let group = |group: &OperationGroup| json!({"reason": group.reason, "count": group.count, "examples": group.examples});
    let groups = |groups: &[OperationGroup]| groups.iter().map(group).collect::<Vec<_>>();
    let counts = json!({
        "operations": report.operations, "chosen": report.chosen, "tools": report.tools, "left_out": groups(&report.left_out),
        "simplified": groups(&report.simplified),
    });
    let (Value::Object(mut record), Value::Object(counts)) = (record, counts) else { return Value::Null };
    record.extend(counts);
    record.into()
}

fn print_report(report: &OpenApiImport) -> Result<()> {
    let OpenApiImport { operations, chosen, tools, .. } = report;
    let sentence = if chosen == operations {
        format!("{tools} of {operations} operations became tools")
    } else {
        format!("{tools} of {chosen} chosen operations became tools; the description has {operations}")
    };
    output::print(&sentence)?;
    print_groups("left out", &report.left_out)?;
    print_groups("tools with less than their operation", &report.simplified)
}

fn print_groups(title: &str, groups: &[OperationGroup]) -> Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    output::print(&format!("{title}:"))?;
    for OperationGroup { reason, count, examples, .. } in groups {
        let shown: Vec<String> =
            examples.iter().take(2).map(|example| shorten_line(example, MAX_EXAMPLE)).collect();
        let more = if *count > shown.len() { ", …" } else { "" };
        output::print(&format!("  {count:>4}  {}: {}{more}", escape_line(reason), shown.join(", ")))?;
    }
    Ok(())
}
