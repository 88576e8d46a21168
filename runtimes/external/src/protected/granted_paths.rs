//! Where the paths really lie that a run may change in its project, and whether a grant names what is protected there.
//!
//! A grant opens what its path leads to. Who wrote `write:.git/hooks` named the hooks of git, and who wrote `write:out` did not, wherever a
//! link at `out` leads: a checkout may come with such a link, and another run may have made it.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::protected::scan_result::ScanResult;
use metier_core::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use metier_core::executor::DefiningFiles;
use metier_core::host::{Files, HostPaths, RunContext, SkillContext, begins_with, git};
use metier_core::policy::{Access, PathProtection, Permissions, RunPermissions, is_within};
use metier_sandbox::PinnedPath;

/// A path of the project that the run may change. It need not exist.
pub(crate) struct GrantedPath {
    /// As the grant has it, relative to the project.
    path: String,
    /// Where it lies, without links, relative to the project.
    real_path: String,
    /// The same, absolute.
    place: PathBuf,
}

impl GrantedPath {
    /// All that the run may change, where it lies now. One that leads out of the project is left out, and so is one that only the caller
    /// or only the skill names; `denied` if a link leads to what needs a permission that names it.
    pub(crate) fn resolve_all(ctx: &SkillContext) -> Result<Vec<Self>> {
        let Ok(files) = ctx.project() else { return Ok(Vec::new()) };
        let permissions = ctx.permissions();
        let mut paths = permissions.writable_paths();
        paths.retain(|path| permissions.allows(&Access::write(path.as_str())));
        paths.extend(folders_of_new_files(ctx).map(str::to_owned));
        let has_whole_project = paths.iter().any(String::is_empty);
        let resolved = paths.into_iter().filter_map(|path| Self::resolve(files, path));
        let named = resolved.map(|granted| {
            if granted.is_linked() && granted.real_path.is_empty() && !has_whole_project {
                return Err(granted.whole_project_error());
            }
            granted.require_named_target(permissions, files)
        });
        named.collect()
    }

    fn resolve(files: &Files, path: String) -> Option<Self> {
        let (project, host_paths) = (files.root(), files.host_paths());
        let whole = project.join(&path);
        let (existing, real) =
            whole.ancestors().find_map(|above| Some((above, host_paths.canonicalize(above).ok()?)))?;
        let rest = whole.strip_prefix(existing).ok()?;
        // An empty path joined to a path leaves a `/` at its end.
        let place = real.join(rest).components().as_path().to_owned();
        let real_path = relative_path(project, &place)?;
        Some(Self { path, real_path, place })
    }

    fn is_linked(&self) -> bool {
        self.path != self.real_path
    }

    fn whole_project_error(&self) -> SkillError {
        let sentence =
            format!("{} leads through a link to the whole project: not permitted", Access::write(&self.path));
        SkillError::new(ErrorKind::Denied, sentence)
            .with_help("grant write")
            .with_hint(Hint::Grant("write".to_owned()))
            .with_missing_permission(Some("write".to_owned()))
    }

    /// Itself, if a link leads it to nothing that is protected by its name, or if a grant names that.
    fn require_named_target(self, permissions: &Permissions, files: &Files) -> Result<Self> {
        let protection = permissions.protection();
        // The folder of a product has no protected name, and holds its skills.
        let name = self.real_path.rsplit('/').next().unwrap_or_default();
        let holds_skills =
            || name.starts_with('.') && protection.skill_folder_below(&self.real_path).is_some();
        if self.is_linked() && (protection.protects_write(&self.real_path) || holds_skills()) {
            self.require_named(&permissions.with_protected_path(&self.real_path, false), files)?;
        }
        Ok(self)
    }

    /// The paths that the sandbox opens, pinned. One that is protected and that only the caller or only the skill names is left out;
    /// `denied` if a link, or a second name, leads to what needs a permission that names it.
    pub(crate) fn open_all(
        granted: Vec<Self>,
        ctx: &SkillContext,
        found: &ScanResult,
    ) -> Result<Vec<PinnedPath>> {
        let Ok(files) = ctx.project() else { return Ok(Vec::new()) };
        let opened = granted.into_iter().map(|granted| {
            Ok(granted.is_open(ctx.permissions(), files, found)?.then(|| granted.pinned(files)).flatten())
        });
        opened.filter_map(Result::transpose).collect()
    }

    /// Whether it lies in nothing that is protected for what it is, or a grant names that.
    fn is_open(&self, permissions: &Permissions, files: &Files, found: &ScanResult) -> Result<bool> {
        for around in found.containing(&self.place) {
            if let Some((_, first_name)) = found.notes.second_names.iter().find(|(path, _)| *path == *around)
            {
                let attempt = format!(
                    "{} opens {}, of which {} is another name (a hard link)",
                    Access::write(&self.path),
                    first_name.escape_debug(),
                    self.real_path.escape_debug()
                );
                permissions
                    .with_protected_path(first_name, false)
                    .require(&Access::write(first_name), attempt)?;
            }
            let Some(protected) = relative_path(files.root(), around) else { continue };
            let narrowed = permissions.with_protected_path(&protected, false);
            // A path that is protected as a whole stays read-only, so its own name has to be granted.
            let leads_there = |(path, name): &(PathBuf, String)| {
                path == around && *path != self.place && is_within(&self.path, name)
            };
            if narrowed.allows(&Access::write(self.real_path.as_str()))
                || found.notes.aliases.iter().any(leads_there)
            {
                continue;
            }
            if !self.is_linked() {
                return Ok(false);
            }
            self.require_named(&narrowed, files)?;
        }
        Ok(true)
    }

    /// Requires a permission for the path to which a link leads.
    fn require_named(&self, permissions: &Permissions, files: &Files) -> Result<()> {
        let (links, _) = symlinks_along(files.root(), Path::new(&self.path), files.host_paths());
        let link = links.first().and_then(|link| relative_path(files.root(), link)).unwrap_or_default();
        let attempt = format!(
            "{} leads through the link {} to {}, which needs a permission that names it",
            Access::write(self.path.as_str()),
            link.escape_debug(),
            self.real_path.escape_debug()
        );
        permissions.require(&Access::write(self.real_path.as_str()), attempt)
    }

    /// What is there, whatever is at its path by the time the sandbox is set up; `None` if nothing is.
    fn pinned(&self, files: &Files) -> Option<PinnedPath> {
        let file_id = files.file_id(self.place.strip_prefix(files.root()).ok()?).ok()?;
        Some(PinnedPath { path: self.place.clone().into(), file_id: Some(file_id) })
    }
}

/// The folders of files that the run may create in an overlay of its own.
pub(crate) fn folders_of_new_files(ctx: &SkillContext) -> impl Iterator<Item = &str> {
    ctx.new_files()
        .iter()
        .filter(|file| ctx.permissions().allows(&Access::write(file.as_str())))
        .map(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder))
}

/// What a run that may change its skill's own folder must not change in it; `None` if it may not change the folder.
pub(crate) fn defining_files(ctx: &SkillContext) -> Option<&[PathBuf]> {
    let DefiningFiles(files) = ctx.extensions().get::<Option<DefiningFiles>>()?.as_ref()?;
    ctx.permissions().allows(&Access::own_folder()).then_some(files)
}

/// The folder of the skill, if the run may change it. It is protected as a folder of skills, which the grant `own-folder` opens; `denied` if
/// it lies in something else that needs a permission that names it, such as the hooks of git.
pub(crate) fn open_own_folder<'a>(ctx: &'a SkillContext, found: &ScanResult) -> Result<Option<&'a Path>> {
    let Some(files) = defining_files(ctx).and_then(|_| ctx.skill_files().ok()) else { return Ok(None) };
    let (permissions, folder) = (ctx.permissions(), files.root());
    let Ok(project) = ctx.project().map(Files::root) else { return Ok(Some(folder)) };
    let Some(path) = relative_path(project, folder).filter(|path| !path.is_empty()) else {
        return Ok(Some(folder));
    };
    let skill_folders = || permissions.protection().skill_folders();
    // Where a folder of skills is a link, it may lead anywhere.
    let is_root =
        |root: &&str| root.rsplit('/').next() == Some("skills") && is_within(&path, root) && *root != path;
    let root = skill_folders().filter(is_root).max_by_key(|root| root.len());
    let names = PathProtection::default();
    let below = root.and_then(|root| path.get(root.len() + 1..)).unwrap_or(&path);
    let is_of_skills = |protected: &str| {
        skill_folders().any(|skills| skills == protected)
            || root.is_some_and(|root| is_within(root, protected))
    };
    let is_named = names.protects_read(&path) || names.protects_write(below);
    let around = found.containing(folder).filter_map(|around| relative_path(project, around));
    let is_around = || around.into_iter().any(|protected| !is_of_skills(&protected));
    let is_repository = || git::is_repository(|name| files.has(name));
    let need = Access::write(path.as_str());
    if permissions.forbids(&need) || is_named || is_repository() || is_around() {
        let attempt =
            format!("own-folder opens {}, which needs a permission that names it", path.escape_debug());
        permissions.with_protected_path(&path, false).require(&need, attempt)?;
    }
    Ok(Some(folder))
}

/// The symlinks in a project that a path leads through, as real paths; and what is at the path if it leads through none.
pub(super) fn symlinks_along(
    project: &Path,
    path: &Path,
    paths: &HostPaths,
) -> (Vec<PathBuf>, Option<Metadata>) {
    let (mut links, mut last) = (Vec::new(), None);
    let mut place = project.to_owned();
    for part in path {
        place.push(part);
        let Ok(about) = paths.symlink_metadata(&place) else { return (links, None) };
        // What is not a symlink, in a folder that leads through none, is its own real path.
        if !about.is_symlink() {
            last = Some(about);
            continue;
        }
        links.push(place.clone());
        let Ok(real) = paths.canonicalize(&place) else { break };
        if !real.starts_with(project) {
            break;
        }
        place = real;
    }
    let is_real = links.is_empty();
    (links, last.filter(|_| is_real))
}

/// The path of a place in the project, separated by `/`. No protected name is outside of UTF-8.
fn relative_path(project: &Path, place: &Path) -> Option<String> {
    Some(place.strip_prefix(project).ok()?.to_string_lossy().into_owned())
}

impl ScanResult {
    /// Those that are this path, or contain it.
    fn containing<'a>(&'a self, place: &'a Path) -> impl Iterator<Item = &'a Path> {
        let all = self.paths.read_only.iter().chain(&self.paths.hidden).map(Path::new);
        all.filter(move |around| begins_with(place, around))
    }
}
