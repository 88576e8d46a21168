//! The sandbox policy of a run: which files a script may read and write, its network access and its resource limits.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::egress::EgressRules;
use crate::home_files::HomeFile;
use crate::interpreter::cache::Installation;
use crate::interpreter::path::search_path;
use crate::interpreter::path_dir::PathDir;
use crate::interpreter::prefix::readable_paths;
use crate::outside_repository::RepositoryAccess;
use crate::project_overlay::ProjectOverlay;
use crate::protected::granted_paths::{GrantedPath, defining_files, open_own_folder};
use crate::protected::scan::scan_protected;
use crate::protected::scan_result::{ScanNotes, ScanResult};
use crate::run_temp_dir::RunTempDir;
use crate::system_paths::{SYSTEM_PATHS, is_outside_system, real_path};
use crate::user_packages::UserPackages;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::files::FilesView;
use metier_core::host::git::OutsideRepository;
use metier_core::host::temp_dirs::existing_metier_dirs_in;
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{AccessReason, Files, HostPaths, RunContext, SkillContext, begins_with, file_id};
use metier_core::policy::{Access, Limits, RunPermissions, SandboxMode, is_within, process_limits};
use metier_packages::PreparedFiles;
use metier_sandbox::{
    FileRules, NetworkAccess, PRIVATE_TMP, PinnedPath, PrivateFolder, ProtectedPaths, ResourceLimits,
    SandboxPolicy,
};

/// `/dev/null`: reads are empty, and every write is accepted.
const DEV_NULL: &str = "/dev/null";

/// Also readable if the whole network is open: names have to be resolved. A network of granted hosts has files of its own.
const NETWORK_CONFIG_FILES: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf"];

/// Folders and files of a run, absolute.
pub(super) struct RunPaths<'a> {
    pub(super) project: &'a Path,
    pub(super) skill: &'a Path,
    pub(super) temp_dir: &'a RunTempDir,
    /// That of the skill, or one in the temp dir.
    pub(super) home: &'a Path,
    /// Those of the user's home that the run may read, or also change.
    pub(super) home_files: &'a [HomeFile],
    /// The packages that were prepared for the script and the processes that it starts.
    pub(super) packages: &'a [PreparedFiles],
    pub(super) user_packages: Option<&'a UserPackages>,
    pub(super) installation: &'a Installation,
}

impl RunPaths<'_> {
    /// The folder for temporary files.
    pub(super) fn temporary_files(&self) -> PathBuf {
        self.temp_dir.temporary_files()
    }
}

/// The sandbox policy for a run with these permissions and limits.
pub(super) fn sandbox_policy(
    ctx: &SkillContext,
    paths: &RunPaths<'_>,
    egress: Option<&EgressRules>,
    access: ProjectAccess,
) -> SandboxPolicy {
    let policy = launch_policy(ctx);
    SandboxPolicy {
        files: file_rules(ctx, paths, policy.network == NetworkAccess::Open, access),
        egress: egress.map(EgressRules::sockets).unwrap_or_default(),
        ..policy
    }
}

/// The part of the policy that is known before any file is looked at, from which the sandbox can be prepared.
pub(super) fn launch_policy(ctx: &SkillContext) -> SandboxPolicy {
    let is_open = ctx.permissions().allows(&Access::network());
    SandboxPolicy {
        // Without granted hosts there are none in it, and what is tried is observed.
        network: if is_open { NetworkAccess::Open } else { NetworkAccess::Hosts },
        allow_flock: !ctx.permissions().writable_paths().is_empty()
            || !ctx.permissions().writable_home_paths().is_empty(),
        allow_local_sockets: true,
        required: ctx.sandbox_mode() == SandboxMode::Required,
        limits: resource_limits(ctx.limits()),
        ..SandboxPolicy::default()
    }
}

/// The sandbox policy of a script without any grants.
pub(super) fn strictest_policy() -> SandboxPolicy {
    let read = SYSTEM_PATHS.iter().map(Into::into).collect();
    SandboxPolicy {
        files: FileRules { read, ..FileRules::default() },
        limits: resource_limits(&Limits::default()),
        ..SandboxPolicy::default()
    }
}

/// The same for an untrusted program, which needs its own folders and the files of its interpreter.
pub(super) fn strictest_policy_for(program: &Path, untrusted: &UntrustedDirs) -> SandboxPolicy {
    let mut sandbox = SandboxPolicy { required: true, ..strictest_policy() };
    let rules = &mut sandbox.files;
    let prefixes = readable_paths(program, &search_path(), untrusted).into_iter();
    let prefixes = prefixes.filter(|path| !untrusted.may_control(path) && is_outside_system(path));
    rules.read.extend(prefixes.map(Into::into));
    rules.own.extend(untrusted.folders().iter().filter_map(|folder| pin(folder)));
    rules.write.push(DEV_NULL.into());
    sandbox
}

/// The sandbox in which a program is asked for its version. Only one that lies in a folder of scripts may read these.
pub(super) fn version_policy(program: &Path, untrusted: &UntrustedDirs) -> SandboxPolicy {
    let mut sandbox = strictest_policy_for(program, untrusted);
    if !untrusted.may_control(program) {
        sandbox.files.own.clear();
    }
    sandbox
}

/// Why a path is among the rules for these paths.
pub(super) fn access_reason(path: &Path, paths: &RunPaths<'_>) -> AccessReason {
    let is_one_of = |paths: &[&str]| paths.iter().any(|known| path == Path::new(known));
    let is_same = |known: &Path| path == known || real_path(known).is_some_and(|real| path == real);
    match path {
        _ if is_same(paths.temp_dir.path()) || is_same(&paths.temporary_files()) => AccessReason::TempDir,
        _ if is_same(paths.home) => AccessReason::State,
        _ if paths.packages.iter().any(|prepared| is_same(&prepared.folder)) => AccessReason::Packages,
        _ if paths.user_packages.is_some_and(|user| user.folders().iter().any(|known| is_same(known))) => {
            AccessReason::Packages
        }
        _ if paths.home_files.iter().any(|file| is_same(&file.real_path)) => AccessReason::Granted,
        _ if is_same(paths.project) => AccessReason::Project,
        _ if is_same(paths.skill) => AccessReason::Skill,
        _ if is_one_of(&NETWORK_CONFIG_FILES) => AccessReason::Network,
        path if path.starts_with("/dev") => AccessReason::Device,
        _ if paths.installation.system_paths.iter().any(|file| file == path) => AccessReason::System,
        path if real_path(paths.project).is_some_and(|project| path.starts_with(project)) => {
            AccessReason::Granted
        }
        path if OutsideRepository::find(paths.project).includes(path) => AccessReason::Repository,
        _ => AccessReason::Interpreter,
    }
}

/// The folders of `PATH` with programs that can be run in this sandbox: the folders that are readable, or have readable content.
pub(super) fn dirs_with_programs<'a>(
    sandbox: &SandboxPolicy,
    installation: &'a Installation,
) -> impl Iterator<Item = &'a Path> {
    let rules = &sandbox.files;
    let has_programs = move |folder: &&PathDir| {
        let is_near = |pinned: &PinnedPath| folder.overlaps(Path::new(&pinned.path));
        folder.is_readable || rules.own.iter().chain(&rules.write).any(is_near)
    };
    installation.path_dirs.iter().filter(has_programs).map(|folder| folder.path.as_path())
}

fn file_rules(ctx: &SkillContext, paths: &RunPaths<'_>, network: bool, access: ProjectAccess) -> FileRules {
    let installation = paths.installation;
    let mut read: Vec<OsString> =
        installation.system_paths.iter().chain(&installation.prefix_paths).map(Into::into).collect();
    if network {
        read.extend(NETWORK_CONFIG_FILES.iter().map(Into::into));
    }
    read.extend(paths.packages.iter().map(|prepared| prepared.folder.as_path().into()));
    read.extend(paths.user_packages.into_iter().flat_map(UserPackages::folders).map(Into::into));
    read.extend(ctx.facts().readable_paths.iter().map(|path| path.as_path().into()));
    // The run holds these folders open, if the script comes from the skill that it runs for.
    let pin_open = |files: Result<&Files>, folder| match files {
        Ok(files) if files.root() == folder => pin_below(files, Path::new("")),
        _ => pin_overlaid(folder, &ctx.host_paths()),
    };
    let own = [pin_open(ctx.project(), paths.project), pin_open(ctx.skill_files(), paths.skill)];
    let (home_write, home_read): (Vec<&HomeFile>, Vec<&HomeFile>) =
        paths.home_files.iter().partition(|file| file.is_writable);
    let mut write = vec![PinnedPath::from(DEV_NULL)];
    // Their paths are canonical: metier made them.
    write.extend(pin_canonical(&paths.temporary_files()));
    // One mount serves both folders, and nothing else is in the folder around them.
    let has_temp_home = paths.home == paths.temp_dir.home();
    let home = if has_temp_home { pin_canonical(paths.temp_dir.path()) } else { pin(paths.home) };
    write.extend(home.clone());
    write.extend(access.writable);
    write.extend(home_write.into_iter().map(HomeFile::pinned));
    if defining_files(ctx).is_some() {
        write.extend(pin_open(ctx.skill_files(), paths.skill));
    }
    if ctx.permissions().allows(&Access::shm()) {
        // A sandbox with mounts has its own `/dev/shm`.
        write.extend(real_path(Path::new("/dev/shm")).as_deref().map(PinnedPath::from));
    }
    let repository = RepositoryAccess::new(ctx, paths.project);
    write.extend(repository.write.iter().filter_map(|folder| pin_canonical(folder)));
    let mut protected_paths = access.protected;
    let defining = defining_files(ctx).into_iter().flatten();
    protected_paths.read_only.extend(defining.filter_map(|file| Some(real_path(file)?.into())));
    let existing = [paths.project, paths.skill].into_iter().flat_map(existing_metier_dirs_in);
    let found = protected_paths.own.into_iter().map(PathBuf::from);
    let covered: BTreeSet<PathBuf> = existing.chain(found).collect();
    // The mount over a folder also hides the folders in it, which then need no mount of their own.
    let is_outer = |folder: &&PathBuf| !folder.ancestors().skip(1).any(|above| covered.contains(above));
    protected_paths.own = covered.iter().filter(is_outer).map(Into::into).collect();
    let readable = home_read.into_iter().map(HomeFile::pinned);
    let readable = readable.chain(repository.read.iter().filter_map(|path| pin_canonical(path)));
    let own = own.into_iter().flatten().chain(readable).collect();
    // Below `/tmp`, which leads to the one, nothing leads to the other.
    let socket_dirs = home.into_iter().chain(pin_canonical(&paths.temporary_files())).collect();
    let rules = FileRules {
        read,
        own,
        write,
        socket_dirs,
        private_folders: Vec::new(),
        overlay: ctx.extension::<Arc<ProjectOverlay>>().and_then(|overlay| overlay.mount_at(paths.project)),
        protected_paths,
    };
    FileRules { private_folders: private_tmp(&rules, paths).into_iter().collect(), ..rules }
}

/// The folder for temporary files, where the script can have it in the place of `/tmp`: it needs nothing of the machine's that has to
/// stay there but what has a rule and is reached without a link.
fn private_tmp(rules: &FileRules, paths: &RunPaths<'_>) -> Option<PrivateFolder> {
    let tmp = Path::new(PRIVATE_TMP);
    let is_real = |path: &Path| !begins_with(path, tmp) || real_path(path).is_none_or(|real| real == path);
    let pinned = || rules.own.iter().chain(&rules.write).map(|pinned| Path::new(&pinned.path));
    let program = &paths.installation.command.program;
    let mut listed = rules.read.iter().map(Path::new).chain(pinned());
    let has_program = !begins_with(program, tmp) || listed.any(|path| program.starts_with(path));
    let is_possible = has_program
        && real_path(tmp).is_some_and(|real| real == tmp)
        && !pinned().any(|path| begins_with(tmp, path))
        && rules.read.iter().all(|path| is_real(Path::new(path)));
    let content = is_possible.then(|| pin_canonical(&paths.temporary_files())).flatten()?;
    Some(PrivateFolder { path: PRIVATE_TMP.into(), content, variables: Vec::new(), links: Vec::new() })
}

/// What a run may change in its project, and what in there stays as it is.
pub(super) struct ProjectAccess {
    /// The files and folders that grants open.
    pub(super) writable: Vec<PinnedPath>,
    pub(super) protected: ProtectedPaths,
    /// What else was found of what is protected.
    pub(super) notes: ScanNotes,
}

impl ProjectAccess {
    /// Looks at the project; `denied` if a grant opens what needs a permission that names it. A path that cannot be written at all
    /// needs no protection against writes.
    pub(super) fn new(ctx: &SkillContext, project: &Path) -> Result<Self> {
        let granted = GrantedPath::resolve_all(ctx)?;
        let found = scan_protected(ctx, project);
        let writable = GrantedPath::open_all(granted, ctx, &found)?;
        // With `own-folder`, no grant of the project names the folder that the run may change.
        let own = open_own_folder(ctx, &found)?;
        let ScanResult { paths: mut protected, notes } = found;
        let folders = || writable.iter().map(|pinned| Path::new(&pinned.path)).chain(own);
        let is_in_writable = |path: &Path| folders().any(|folder| begins_with(path, folder));
        protected.read_only.retain(|path| is_in_writable(Path::new(path)) && own != Some(Path::new(path)));
        Ok(Self { writable, protected, notes })
    }

    /// The real paths of what grants open.
    pub(super) fn writable_dirs(&self) -> Vec<PathBuf> {
        self.writable.iter().map(|pinned| pinned.path.clone().into()).collect()
    }
}

/// Folders whose names begin with a dot, as agents, editors and forges have them.
const DOT_FOLDERS: [&str; 22] = [
    ".agents",
    ".circleci",
    ".claude",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".fleet",
    ".gemini",
    ".github",
    ".githooks",
    ".gitlab",
    ".husky",
    ".idea",
    ".kiro",
    ".metier",
    ".opencode",
    ".roo",
    ".vs",
    ".vscode",
    ".windsurf",
    ".zed",
];

/// Creates the folders that grants such as `write:out` and `write:.claude` name and that do not exist: the sandbox can include only
/// what exists. Fails if this leaves a grant that opens nothing, such as `write:report.md`, before the script has done half of its work.
/// A script whose source names metier may create the file through the host.
pub(super) fn create_granted_folders(ctx: &SkillContext, source: &[u8]) -> Result<()> {
    let Ok(files) = ctx.project() else { return Ok(()) };
    // Nothing is made for a grant that is refused.
    GrantedPath::resolve_all(ctx)?;
    let writable = ctx.permissions().writable_paths();
    let host_paths = files.host_paths();
    let exists = |path: &str| {
        let whole = files.root().join(path);
        match whole.parent().zip(whole.file_name()).filter(|_| host_paths.has_overlay() && !path.is_empty()) {
            Some((folder, name)) => host_paths
                .canonicalize(folder)
                .is_ok_and(|folder| host_paths.symlink_metadata(&folder.join(name)).is_ok()),
            None => whole.symlink_metadata().is_ok(),
        }
    };
    for path in writable.iter().filter(|path| !exists(path) && names_folder(path)) {
        FilesView::with_permissions(files, ctx.permissions()).create_dir(path).ok();
    }
    // A project that is gone has a sentence of its own.
    if !exists("") || memchr::memmem::find(source, b"metier").is_some() {
        return Ok(());
    }
    let can_be_created = |path: &String| ctx.new_files().contains(path);
    let Some(path) = new_files(&writable, exists).into_iter().find(|path| !can_be_created(path)) else {
        return Ok(());
    };
    let sentence =
        format!("{} opens nothing to a script in a sandbox: {path} does not exist", Access::write(&path));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let help = format!("create {path} before the run, or grant {} as well", Access::write(folder));
    Err(SkillError::new(ErrorKind::Denied, sentence).with_help(help))
}

/// Of paths that a run may change, those which the sandbox cannot open since nothing is there: they are meant as files, and no other path
/// opens the folder around them.
pub fn new_files(writable: &[String], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let is_opened_by =
        |path: &str, other: &String| other.len() < path.len() && is_within(path, other) && exists(other);
    let is_new = |path: &&String| {
        !exists(path) && !names_folder(path) && !writable.iter().any(|other| is_opened_by(path, other))
    };
    writable.iter().filter(is_new).cloned().collect()
}

/// Whether a path that does not exist is meant as a folder. Other names with an extension, or that begin with a dot, may be meant as a
/// file, which the host does not create for a process.
pub(super) fn names_folder(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    DOT_FOLDERS.contains(&name) || !name.is_empty() && !name.contains('.')
}

/// Pins a path below an open folder, whatever is at the folder's path by now.
fn pin_below(files: &Files, path: &Path) -> Option<PinnedPath> {
    let full_path = files.root().join(path);
    // An empty path joined to a path leaves a `/` at its end.
    let full_path = full_path.components().as_path();
    Some(PinnedPath { path: full_path.into(), file_id: Some(files.file_id(path).ok()?) })
}

/// Pins what is at a path now.
fn pin(path: &Path) -> Option<PinnedPath> {
    pin_canonical(&real_path(path)?)
}

/// The same as the run sees it.
fn pin_overlaid(path: &Path, paths: &HostPaths) -> Option<PinnedPath> {
    let path = paths.canonicalize(path).ok()?;
    let about = paths.symlink_metadata(&path).ok()?;
    Some(PinnedPath { path: path.into(), file_id: Some(file_id(&about)) })
}

/// The same for a path without symlinks.
fn pin_canonical(path: &Path) -> Option<PinnedPath> {
    let about = path.symlink_metadata().ok()?;
    Some(PinnedPath { path: path.into(), file_id: Some(file_id(&about)) })
}

fn resource_limits(limits: &Limits) -> ResourceLimits {
    /// Maximum number of processes of a script at a time.
    const MAX_PROCESSES: u64 = 512;
    let tree_memory = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_TREE);
    let limits = process_limits(limits);
    ResourceLimits {
        memory: limits.memory,
        tree_memory: Some(tree_memory),
        processes: Some(MAX_PROCESSES),
        cpu_seconds: limits.cpu.map(|time| time.as_secs()),
        file_size: limits.file_size,
        open_files: limits.open_files,
    }
}
