//! Creates a skill that is one file in a root.

use std::io::{self, Write};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use metier::error::Result;

use super::{
    Args, CreatedSkill, creation_error, refuse_control_characters, run_hint, select_template,
    strip_current_dir, target_folder, validate_files,
};
use crate::cli::output;
use crate::cli::session::Session;
use crate::cli::terminal::escape_line;

/// Creates the file, trusts it as it is, and says how to run it.
pub(super) fn create(args: &Args, name: &str, session: &Session) -> Result<u8> {
    let template = select_template(args.runtime.as_deref(), Some(&args.name))?;
    refuse_control_characters("name", &args.name)?;
    refuse_control_characters("description", args.description.as_deref().unwrap_or_default())?;
    validate_files(name, &template.files(name, args.description.as_deref(), &args.name))?;
    let (base, parent) = target_folder(args, session)?;
    let path = strip_current_dir(&base.join(&parent).join(&args.name));
    write_file(&base, &parent, &args.name, &template.drop_in(args.description.as_deref()))
        .map_err(|error| creation_error(&path, error))?;
    let mut reason = None;
    if args.here.is_none() {
        session.exit_watchdog().start_loading_timeout();
        let trusted = session.engine().and_then(|engine| {
            let registry = engine.registry();
            let skill = registry.find(name)?;
            reason = engine.availability(skill).reason;
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
    let created = CreatedSkill {
        name: name.to_owned(),
        path,
        files,
        runnable: reason.is_none(),
        reason: reason.as_ref().map(ToString::to_string),
    };
    if session.json() {
        let path = std::path::absolute(&created.path).unwrap_or(created.path);
        output::print_json(&CreatedSkill { path, ..created })?;
        return Ok(0);
    }
    output::print(&format!("created {}", escape_line(&created.path.display().to_string())))?;
    if let Some(reason) = &reason {
        output::print_error_as_warning(reason, "the skill cannot run on this machine yet");
    }
    output::eprint(&escape_line(&run_hint(args, name, session, template)));
    Ok(0)
}

/// Creates the file in `parent`, a path below `base`, which is created if it does not exist. Links that lead out of `base` are
/// refused, and so is a name that exists.
fn write_file(base: &Path, parent: &str, name: &str, text: &str) -> io::Result<()> {
    let base = Dir::open_ambient_dir(base, ambient_authority())?;
    base.create_dir_all(parent)?;
    let parent = base.open_dir(parent)?;
    let mut file = parent.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    let written = file.write_all(text.as_bytes());
    if written.is_err() {
        // The first failure is the one to report.
        let _ = parent.remove_file(name);
    }
    written
}
