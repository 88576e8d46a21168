//! What a script can be granted of the user's home, and the hint about a path in it: the script has a home of its own.

use std::path::{Component, Path, PathBuf};

use crate::audience::is_for_person;
use crate::hints::complaint::Complaint;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::shown_path::{is_typable, shown_path};
use crate::home_files::HomeFile;
use metier_core::host::{Files, SkillContext};
use metier_core::policy::{Access, is_within, secret_paths_in_folders};

/// Folders and files of a home that are for secrets. Others are known by their names anywhere.
const SECRET_PATHS: &str = "
    .Xauthority .aws .azure .bitcoin .cache/huggingface/token .claude.json .claude/.credentials.json .config/BraveSoftware .config/chromium
    .config/gcloud .config/google-chrome .config/microsoft-edge .config/solana .docker .electrum .ethereum .gemini/oauth_creds.json .gnupg
    .kube .local/share/keyrings .mozilla .password-store .ssh .thunderbird";

/// The hint about a path that a script wrote: of what it was granted for reading only and could not change, and of what only the user
/// has. That is only for the person who runs the script: no model is told, and no script that called this one.
pub(crate) fn home_hint(
    ctx: &SkillContext,
    (project, home): (&Path, Option<&Path>),
    written: &Path,
    complaint: Option<Complaint>,
) -> Option<Help> {
    let homes = Homes::new(ctx, home?)?;
    if complaint == Some(Complaint::Busy) {
        return mounted_file_hint(ctx, &homes, written);
    }
    let rest = homes.path_below(ctx, project, written)?;
    let is_refused = complaint.is_some_and(Complaint::is_refusal);
    if let Some(help) = is_refused.then(|| read_only_hint(ctx, &rest)).flatten() {
        return Some(help);
    }
    homes.is_of_user(Path::new(&rest)).then(|| {
        let (way_out, hint) = grant(ctx, &rest, false).unwrap_or_else(|| {
            ("copy what it needs into the project, or pass the path of the copy".to_owned(), None)
        });
        let shown = shown_path(&format!("~/{rest}"));
        (
            format!(
                "{shown} is in your home folder, and a script has a home of its own in the sandbox; {way_out}"
            ),
            hint,
        )
    })
}

/// The hint for a script that could not replace a granted file of the user's home, on which a file is mounted.
fn mounted_file_hint(ctx: &SkillContext, homes: &Homes<'_>, written: &Path) -> Option<Help> {
    let is_it = |path: &&String| {
        Path::new(path).file_name() == written.file_name() && homes.user.join(path).is_file()
    };
    let all = ctx.permissions().home_paths();
    let path = all.iter().find(is_it)?;
    let (way_out, hint) = grant(ctx, path.rsplit_once('/')?.0, true)?;
    let shown = shown_path(&format!("~/{path}"));
    Some((format!("no new file can replace {shown}; for that the script needs the folder: {way_out}"), hint))
}

/// The hint for a script that could not change what it was granted of the user's home.
fn read_only_hint(ctx: &SkillContext, rest: &str) -> Option<Help> {
    let is_writable =
        ctx.permissions().writable_home_paths().iter().any(|writable| is_within(rest, writable));
    let all = ctx.permissions().home_paths();
    let granted = all.iter().find(|granted| is_within(rest, granted) && !is_writable)?;
    let (way_out, hint) = grant(ctx, granted, true).unwrap_or_else(|| {
        ("no grant lets a script change that; let it work on a copy in the project".to_owned(), None)
    });
    Some((format!("{} is granted for reading only; {way_out}", shown_path(&format!("~/{granted}"))), hint))
}

/// The warning for a script that replaced a granted file of the home by a new one, which is not there after the run.
pub(crate) fn replaced_home_warning(ctx: &SkillContext, path: &str) -> String {
    let folder = path.rsplit_once('/').map(|(folder, _)| folder).filter(|_| is_for_person(ctx));
    let way_out = folder.and_then(|folder| Some(grant(ctx, folder, true)?.0));
    let way_out = way_out.map(|way_out| format!("; for that it needs the folder: {way_out}"));
    format!(
        "the script replaced {} by a new file, and the old one stays in your home folder{}",
        shown_path(&format!("~/{path}")),
        way_out.unwrap_or_default()
    )
}

/// The grant that lets a script read a folder of the user's home, if it is one and there is such a grant.
pub(crate) fn folder_grant(ctx: &SkillContext, folder: &Path) -> Option<Help> {
    let home = std::env::home_dir()?.canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    grant(ctx, folder.strip_prefix(&home).ok()?.to_str()?, false)
}

/// The grant that lets a script read this path of the home, or also change it; `None` if none does, and for what holds secrets, which
/// a script could name for no good.
fn grant(ctx: &SkillContext, path: &str, is_writable: bool) -> Option<Help> {
    let need = if is_writable { Access::home_write(path) } else { Access::home(path) };
    is_advisable(ctx, path, is_writable).then(|| permission_hint(ctx, &need)).flatten()
}

/// Whether a person may be advised to grant this path of the home, for reading or also for changing.
pub(crate) fn is_advisable(ctx: &SkillContext, path: &str, is_writable: bool) -> bool {
    let own = [ctx.project().ok().map(Files::root), ctx.skill_files().ok().map(Files::root)];
    let own: Vec<&Path> = own.into_iter().flatten().collect();
    is_typable(path)
        && !ctx.permissions().protection().protects_read(path)
        && !SECRET_PATHS.split_whitespace().any(|known| is_within(path, known) || is_within(known, path))
        && !secret_paths_in_folders().any(|known| is_within(&known, path))
        && (HomeFile::is_grantable(ctx, path, &own, is_writable)
            || is_writable && HomeFile::is_makeable(ctx, path, &own))
}

/// The home that the script had, and that of the user.
pub(crate) struct Homes<'a> {
    script: &'a Path,
    pub(crate) user: PathBuf,
}

impl<'a> Homes<'a> {
    /// `None` if the hint is for nobody who may know what the user has.
    pub(crate) fn new(ctx: &SkillContext, script: &'a Path) -> Option<Self> {
        let user = std::env::home_dir().filter(|_| is_for_person(ctx))?.canonicalize().ok()?;
        Some(Self { script, user })
    }

    /// Whether only the user has what is at this path of a home.
    pub(crate) fn is_of_user(&self, rest: &Path) -> bool {
        let is_new = self.script.join(rest).symlink_metadata().is_err();
        is_new && self.user.join(rest).canonicalize().is_ok_and(|real| real.starts_with(&self.user))
    }

    /// The rest of a path that lies in one of the homes, and not in the project or beside the script. A script that works in its home names
    /// what it was granted there by a relative path.
    fn path_below(&self, ctx: &SkillContext, project: &Path, written: &Path) -> Option<String> {
        let below = |home: &Path| written.strip_prefix(home).ok();
        let is_granted = |path: &&Path| {
            let text = path.to_str().unwrap_or_default();
            !project.join(path).parent().is_some_and(Path::exists)
                && ctx.permissions().home_paths().iter().any(|granted| is_within(text, granted))
        };
        let rest = below(Path::new("~")).or_else(|| below(self.script)).or_else(|| {
            let skill = ctx.skill_files().ok().map(Files::root);
            let is_own =
                [Some(project), skill].into_iter().flatten().any(|folder| written.starts_with(folder));
            below(&self.user).filter(|_| !is_own).or_else(|| Some(written).filter(is_granted))
        })?;
        let is_inside = rest.components().all(|part| matches!(part, Component::Normal(_)));
        rest.to_str().filter(|rest| is_inside && !rest.is_empty()).map(str::to_owned)
    }
}
