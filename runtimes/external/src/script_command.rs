//! How a script is started: as a plain process, or in a sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::egress::EgressRules;
use crate::git_settings;
use crate::home_files::{HomeFile, HomeLinks};
use crate::home_guard::HomeGuard;
use crate::host_api::imports_client;
use crate::interpreter::cache::Installation;
use crate::interpreter::detect::{Interpreter, InterpreterCommand};
use crate::interpreter::path::search_path;
use crate::interpreter::version;
use crate::interpreter::version_manager::ShimCache;
use crate::outcome::{self, ProtectionGaps};
use crate::policy::{self, ProjectAccess, RunPaths};
use crate::private_home::{self, HomeMounts};
use crate::program_version::interpreter_version;
use crate::protected::creation_guard::CreationGuard;
use crate::protected::fingerprint::Fingerprint;
use crate::protected::scan_result::ScanNotes;
use crate::python_package::module_arguments;
use crate::run_temp_dir::RunTempDir;
use crate::script_file::ScriptFile;
use crate::services::ExternalServices;
use crate::user_packages::UserPackages;
use crate::{certificates, command, home, packages};
use metier_core::client_variables::{PLUGIN_DATA, client_variables};
use metier_core::error::{Result, SkillError};
use metier_core::executor::{HandlerCall, Script, ScriptEntry};
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{
    Files, RunAuthority, RunContext, RunMessages, SkillContext, enter_secrets, file_id, run_secrets,
    temp_dirs,
};
use metier_core::policy::Access;
use metier_packages::{PreparedFiles, RequiredPython, SkillPackages};
use metier_sandbox::{LaunchRequest, Launcher, ProtectedPaths};
use metier_state::StateLease;

/// A script and the interpreter that runs it.
pub(super) struct ScriptCommand {
    pub(super) file: ScriptFile,
    interpreter: Interpreter,
    handler: Option<HandlerCall>,
    pub(super) services: ExternalServices,
}

/// The environment variables of a process besides those that every script has.
pub(super) type ProcessVariables = BTreeMap<OsString, OsString>;

/// What metier puts into the home of a run, and removes when this is dropped: the mount points before the links.
#[derive(Default)]
pub(crate) struct HomeEntries {
    _mounts: Option<HomeMounts>,
    pub(crate) links: Option<HomeLinks>,
}

/// What a sandboxed run starts with.
pub(super) struct PreparedLaunch<'a> {
    pub(super) request: LaunchRequest,
    /// The hosts that it reaches, if it does not reach all or none.
    pub(super) egress: Option<Box<EgressRules>>,
    /// Removed with everything in it when this is dropped.
    pub(super) temp_dir: RunTempDir,
    home: PathBuf,
    /// What was put into it, and is removed from it when this is dropped.
    pub(super) home_entries: HomeEntries,
    home_files: Vec<HomeFile>,
    /// The packages that were prepared for the script and the processes that it starts.
    packages: Vec<PreparedFiles>,
    /// Those of the user that it may import.
    user_packages: Option<UserPackages>,
    installation: Arc<Installation>,
    pub(super) project: &'a Path,
    skill: &'a Path,
    /// Those of the project, without links.
    writable_dirs: Vec<PathBuf>,
    notes: ScanNotes,
    /// How many of the request's read paths belong to the script itself; those after them are the clients'.
    pub(super) script_read_count: usize,
}

impl ScriptCommand {
    /// Detects the interpreter; `invalid-skill` if neither the shebang nor the file extension names one.
    pub(super) fn new(script: &Script, services: &ExternalServices) -> Result<Self> {
        let interpreter = match &ScriptEntry::from_script(script).handler {
            Some(_) => Interpreter::of_handler(&script.path, services.interpreters())?,
            None => Interpreter::detect_with(&script.path, &script.source, services.interpreters())?,
        };
        let (file, services) = (ScriptFile::new(script)?, services.clone());
        let handler = ScriptEntry::from_script(script).handler.clone();
        Ok(Self { file, interpreter, handler, services })
    }

    /// The folders in which untrusted code may have put anything on the path to a program.
    pub(super) fn untrusted_dirs(&self, ctx: &SkillContext) -> UntrustedDirs {
        let (project, skill) = (ctx.project().ok().map(Files::root), self.file.folder());
        let others = self.services.folders().iter().filter(|folder| Some(folder.as_path()) != project);
        // If the run has opened it, its path contains no symlinks.
        let skill = match ctx.skill_files() {
            Ok(files) if files.root() == skill => Some(skill.to_owned()),
            _ => std::fs::canonicalize(skill).ok(),
        };
        UntrustedDirs::from_canonical(
            project.map(Path::to_owned).into_iter().chain(skill).chain(others.cloned()),
        )
    }

    /// The absolute path of the script, after a check that it is still what was loaded.
    pub(super) fn verified_script_path(&self, ctx: &SkillContext) -> Result<PathBuf> {
        match self.opened_skill_files(ctx) {
            // One check suffices if the folder is still at the path where it was opened.
            Some(files) if self.file.is_unchanged_in(files) => Ok(self.file.path().to_owned()),
            _ => self.file.verified_path(&ctx.host_paths()),
        }
    }

    /// The skill's folder as the run has opened it, if that is what is at its path now.
    fn opened_skill_files<'a>(&self, ctx: &'a SkillContext) -> Option<&'a Files> {
        let folder = self.file.folder();
        let files = ctx.skill_files().ok().filter(|files| files.root() == folder)?;
        let metadata = ctx.host_paths().symlink_metadata(folder).ok()?;
        (files.file_id(Path::new("")).ok()? == file_id(&metadata)).then_some(files)
    }

    /// The variables with those of other clients, which none that is set by hand gives way to.
    fn with_client_variables(
        &self,
        mut variables: ProcessVariables,
        skill: &Path,
        project: &Path,
    ) -> ProcessVariables {
        for (name, folder) in client_variables(skill, project, self.file.source()) {
            variables.entry(name.into()).or_insert_with(|| folder.into());
        }
        variables
    }

    /// The variables of the process, with those by which Node finds the client of the host API and packages.
    fn with_node_variables(
        &self,
        variables: &ProcessVariables,
        (program, prepared): (&Path, &[PreparedFiles]),
        avoided: &[&Path],
        ctx: &SkillContext,
    ) -> Result<ProcessVariables> {
        let mut variables = variables.clone();
        // A script in any language may start Node.
        let boundary = packages::node_boundary(ctx, self.file.folder());
        // ES modules find neither the client nor packages by NODE_PATH.
        let has_packages = prepared.iter().any(|prepared| packages::is_node(&prepared.executable));
        if has_packages || boundary.is_some() || imports_client(program, self.file.source()) {
            let boundary = boundary.as_deref().map(|skill| (skill, &*ctx.facts().untrusted_projects));
            let clients = &self.services.api_clients;
            let own = clients.node_variables(boundary, || self.server_program(), avoided);
            for (name, value) in own.map_err(client_write_error)? {
                variables.entry(name.into()).or_insert(value);
            }
        }
        Ok(variables)
    }

    /// The interpreter with the arguments that this script needs before its path: a handler those of the program that calls it, a Python
    /// module that of its package.
    fn with_script_arguments(
        &self,
        mut interpreter: InterpreterCommand,
        avoided: &[&Path],
    ) -> Result<InterpreterCommand> {
        if let Some(handler) = &self.handler {
            let program = self.services.api_clients.handler_program(|| self.server_program(), avoided);
            let program = program.map_err(client_write_error)?;
            interpreter.args.extend([program.to_string_lossy().into_owned(), handler.description.clone()]);
            return Ok(interpreter);
        }
        let file = &self.file;
        let module =
            module_arguments(&interpreter.program, file.source(), file.folder(), file.relative_path());
        interpreter.args.extend(module.into_iter().flatten());
        Ok(interpreter)
    }

    /// The interpreter for a script that Python may run in some versions alone.
    fn interpreter(&self, ctx: &SkillContext) -> Interpreter {
        let python = ctx.extensions().get::<Option<RequiredPython>>().and_then(Option::clone);
        self.interpreter.clone().requiring_python(python)
    }

    /// The program that serves as the shell client of the host API.
    fn server_program(&self) -> Option<PathBuf> {
        self.services.launcher.server_program()
    }

    /// The command of an unsandboxed process.
    pub(super) fn unsandboxed_command(
        &self,
        args: &[String],
        variables: &ProcessVariables,
        ctx: &SkillContext,
    ) -> Result<Command> {
        let script = self.verified_script_path(ctx)?;
        let (project, untrusted) = (ctx.project()?.root(), self.untrusted_dirs(ctx));
        // Inside a sandbox such a program would be harmless; here it would have all the rights of the user.
        let is_refused = |program: &Path| untrusted.may_control(program);
        let (name, reason) =
            (self.file.name(), "comes from the project or the skill and runs in a sandbox only");
        let versions = |program: &Path| interpreter_version(&self.services, &untrusted, program);
        let interpreter =
            self.interpreter(ctx).locate_allowed(name, &search_path(), is_refused, reason, &versions)?;
        let prepared = packages::prepared_packages(ctx, &interpreter.program)?;
        let interpreter = packages::with_prepared_interpreter(interpreter, prepared.as_ref());
        let prepared = packages::run_packages(ctx, prepared)?;
        let found = (interpreter.program.as_path(), prepared.as_slice());
        let variables = self.with_node_variables(variables, found, &[], ctx)?;
        let variables = self.with_client_variables(variables, self.file.folder(), project);
        let interpreter = self.with_script_arguments(interpreter, &[])?;
        let mut command =
            command::build_command(&interpreter, &script, args, self.file.folder(), project, &variables);
        self.services.api_clients.add_modules_to(&mut command, || self.server_program());
        for prepared in &prepared {
            packages::add_to_command(&mut command, prepared);
        }
        Ok(command)
    }

    /// The launch request for a sandboxed process.
    pub(super) fn prepare_launch<'a>(
        &'a self,
        args: &[String],
        variables: &ProcessVariables,
        state: Option<&StateLease>,
        ctx: &'a SkillContext,
    ) -> Result<PreparedLaunch<'a>> {
        let (name, project, skill) = (self.file.name(), ctx.project()?.root(), self.file.folder());
        let script = self.verified_script_path(ctx)?;
        let (installation, prepared) = self.find_installation(project, ctx)?;
        let user_packages = match &prepared {
            // They are complete.
            Some(_) => None,
            None => UserPackages::for_run(ctx, &installation.command.program, || self.untrusted_dirs(ctx)),
        };
        let prepared = packages::run_packages(ctx, prepared)?;
        // No other run may see what is created for one run.
        let mut avoided = vec![project, skill];
        avoided.extend(installation.prefix_paths.iter().map(AsRef::<Path>::as_ref));
        avoided.extend(prepared.iter().map(|prepared| prepared.folder.as_path()));
        let mut home_files = HomeFile::granted(ctx, &[project, skill])?;
        let granted: Vec<PathBuf> = home_files.iter().map(|file| file.real_path.clone()).collect();
        avoided.extend(granted.iter().map(PathBuf::as_path));
        let found = (installation.command.program.as_path(), prepared.as_slice());
        let variables = self.with_node_variables(variables, found, &avoided, ctx)?;
        let mut variables = self.with_client_variables(variables, skill, project);
        variables.extend(git_settings::variables(ctx, project));
        let interpreter = self.with_script_arguments(installation.command.clone(), &avoided)?;
        let (temp_dir, home) = self.create_folders(state, &avoided)?;
        variables.entry(PLUGIN_DATA.into()).or_insert_with(|| home.clone().into());
        let home_links = HomeLinks::create(ctx, &home, &mut home_files)
            .map_err(|error| SkillError::io("failed to link what is granted of your home folder", error))?;
        for prepared in &prepared {
            packages::require_outside(&prepared.folder, &[project, skill])?;
        }
        let paths = RunPaths {
            project,
            skill,
            temp_dir: &temp_dir,
            home: &home,
            home_files: &home_files,
            packages: &prepared,
            user_packages: user_packages.as_ref(),
            installation: &installation,
        };
        let mut egress = self.egress_rules(ctx)?;
        let certificates = self.certificates(ctx, egress.as_deref_mut(), &temp_dir)?;
        let mut access = ProjectAccess::new(ctx, project)?;
        let notes = std::mem::take(&mut access.notes);
        let writable_dirs = access.writable_dirs();
        let sandbox = policy::sandbox_policy(ctx, &paths, egress.as_deref(), access);
        let script_read_count = sandbox.files.read.len();
        let bounds = (ctx.limits(), ctx.redaction());
        let mut request =
            command::build_request(&interpreter, &script, args, &paths, &variables, sandbox, bounds)
                .map_err(|error| outcome::start_error(name, project, &ProtectionGaps::default(), error))?;
        relax_limits_of_process(&mut request, ctx);
        let clients = &self.services.api_clients;
        clients
            .add_to_request(&mut request, || self.server_program(), &avoided)
            .map_err(client_write_error)?;
        for prepared in &prepared {
            packages::add_to_request(&mut request, prepared);
        }
        if let Some(user_packages) = &user_packages {
            user_packages.add_to_request(&mut request);
        }
        if let Some(file) = &certificates {
            certificates::add_to_request(&mut request, file);
        }
        request.cleanup_dirs.extend(temp_dirs::process_dirs().into_iter().map(Into::into));
        let mounts = private_home::add_to_request(&mut request, &home, &[project, skill, &script]);
        let home_entries = HomeEntries { _mounts: mounts, links: home_links };
        Ok(PreparedLaunch {
            request,
            egress,
            temp_dir,
            home,
            home_entries,
            home_files,
            packages: prepared,
            user_packages,
            installation,
            project,
            skill,
            writable_dirs,
            notes,
            script_read_count,
        })
    }

    /// The interpreter that runs the script in a sandbox, and the packages that were prepared for the script.
    fn find_installation(
        &self,
        project: &Path,
        ctx: &SkillContext,
    ) -> Result<(Arc<Installation>, Option<PreparedFiles>)> {
        let (name, skill) = (self.file.name(), self.file.folder());
        let untrusted = self.untrusted_dirs(ctx);
        let is_refused = |program: &Path| untrusted.may_control(program);
        let versions = |program: &Path| interpreter_version(&self.services, &untrusted, program);
        let interpreter = self.interpreter(ctx);
        let declares_packages = packages::skill_packages(ctx).and_then(SkillPackages::request).is_some();
        let locate = || interpreter.locate_allowed(name, &search_path(), is_refused, "", &versions).ok();
        let prepared = match declares_packages.then(locate).flatten() {
            Some(found) => packages::prepared_packages(ctx, &found.program)?,
            // It has none, or comes with an interpreter of its own.
            None => None,
        };
        let interpreter = match &prepared {
            Some(prepared) => interpreter.with_program(&prepared.executable),
            None => interpreter,
        };
        let refused = &*ctx.facts().untrusted_projects;
        let skill = prepared.is_none().then_some(skill);
        let (projects, shims) = ((project, refused), ShimCache::default());
        let query = packages::interpreter_query(&interpreter, skill, projects, untrusted.clone(), &shims);
        let installation = self.services.interpreter_cache.installation(query, name, &versions)?;
        Ok((installation, prepared))
    }

    /// The folder for the temporary files of a run, and its home folder: that of the state, or one that ends with the run.
    fn create_folders(&self, state: Option<&StateLease>, avoided: &[&Path]) -> Result<(RunTempDir, PathBuf)> {
        let temp_dir = RunTempDir::new(&self.services.cleanup, avoided)
            .map_err(|error| SkillError::io("failed to make a folder for the run", error))?;
        let home = match state {
            Some(lease) => {
                home::require_outside(lease.home(), avoided)?;
                lease.home().to_owned()
            }
            None => temp_dir.home(),
        };
        Ok((temp_dir, home))
    }

    /// A file with the certificates that the programs of the run are to trust, if their connections to hosts of secrets are opened.
    fn certificates(
        &self,
        ctx: &SkillContext,
        egress: Option<&mut EgressRules>,
        temp_dir: &RunTempDir,
    ) -> Result<Option<PathBuf>> {
        let hosts = run_secrets(ctx).host_names();
        let Some(egress) = egress.filter(|_| self.services.secret_hosts().opens_tls && !hosts.is_empty())
        else {
            return Ok(None);
        };
        let made = RunAuthority::new(&hosts).and_then(|authority| {
            let file = certificates::write_file(temp_dir.path(), &authority)?;
            egress.set_authority(Arc::new(authority));
            Ok(file)
        });
        made.map(Some).map_err(|error| SkillError::io("failed to make certificates for the run", error))
    }

    /// The rules for its network, if it does not reach all hosts or none.
    fn egress_rules(&self, ctx: &SkillContext) -> Result<Option<Box<EgressRules>>> {
        let rules = EgressRules::new(ctx.permissions(), self.services.host_lookup())?;
        enter_secrets(ctx);
        if rules.is_none() && !run_secrets(ctx).is_empty() && ctx.permissions().allows(&Access::network()) {
            ctx.warn(format!(
                "{} has the whole network, where placeholders of secrets stay what they are: grant net:HOST instead of net",
                self.file.name()
            ));
        }
        let (secrets, roots) = (run_secrets(ctx), &self.services.secret_hosts().roots);
        let rules = rules.map(|rules| rules.with_secrets(secrets, roots.clone()).with_approvals(ctx));
        let hosts = || ctx.facts().configured_hosts.to_vec();
        Ok(rules.map(|rules| Box::new(rules.with_configured_hosts(hosts()))))
    }
}

impl PreparedLaunch<'_> {
    pub(super) fn run_paths(&self) -> RunPaths<'_> {
        RunPaths {
            project: self.project,
            skill: self.skill,
            temp_dir: &self.temp_dir,
            home: &self.home,
            home_files: &self.home_files,
            packages: &self.packages,
            user_packages: self.user_packages.as_ref(),
            installation: &self.installation,
        }
    }

    fn protected_paths(&self) -> &ProtectedPaths {
        &self.request.sandbox.files.protected_paths
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(self.protected_paths(), &self.writable_dirs)
    }

    /// Detects what the script leaves in the user's home.
    pub(super) fn take_home_guard(&mut self) -> HomeGuard {
        HomeGuard::new(self.home_files.iter_mut().filter_map(HomeFile::take_folder).collect())
    }

    /// Detects what the script creates; `None` if it may not write to the project.
    pub(super) fn creation_guard(&self, ctx: &SkillContext) -> Option<CreationGuard> {
        CreationGuard::new(ctx, self.project, self.writable_dirs.clone(), self.protected_paths(), &self.notes)
    }
}

/// Removes the limits of the process that do not fit how it runs.
fn relax_limits_of_process(request: &mut LaunchRequest, ctx: &SkillContext) {
    if ctx.providers().approver.is_some() {
        // The deadline stands still while an approver is asked, of which the supervisor knows nothing.
        request.timeout_ms = u64::MAX;
    }
    if ctx.worker().is_some_and(|worker| !worker.is_single_run()) {
        // Both count from the start of the process, which does not fit the runs of a worker. The host enforces the deadline
        // of each run.
        request.sandbox.limits.cpu_seconds = None;
        request.timeout_ms = u64::MAX;
    }
}

/// The version that a program reports. A program that an untrusted party may have changed runs in a sandbox.
pub(super) fn query_version(
    program: &Path,
    untrusted: &UntrustedDirs,
    launcher: &Launcher,
) -> Option<String> {
    let sandbox =
        untrusted.may_control(program).then(|| (launcher, policy::strictest_policy_for(program, untrusted)));
    version::query_version(program, sandbox)
}

fn client_write_error(error: io::Error) -> SkillError {
    SkillError::io("failed to write the clients of the host API", error)
}
