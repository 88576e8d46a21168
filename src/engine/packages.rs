//! The packages that the scripts of a skill need: found for a run and for its digest, and prepared when a person asks for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Engine, EngineInner, PackagesReport};
use crate::engine::package_installer::PackageInstaller;
use crate::engine::prepare_request::PrepareRequest;
use crate::engine::script_selection::{ScriptChoice, scripts};
use crate::registry::{FileList, Skill, SkillFolder};
use crate::runtimes::{self, InterpreterSearch};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::policy::{CancelToken, Limits};
use metier_packages::{
    AddedPackages, ChildPackages, Ecosystem, PackageRequest, PackageStore, RequiredPython, Requirements,
    SkillPackages, StoredPackages, added_packages, has_requests, set_added_packages,
};
use metier_skill::contract::{Contract, ProvidedTool};

/// Packages that are prepared for scripts of a skill.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PreparedPackages {
    /// The file of the skill that names them; `the user` for those of [`PrepareRequest::with_package`].
    pub source: String,
    /// The scripts that name them; empty for what is added for all.
    pub scripts: Vec<String>,
    /// Whether nothing had to be done.
    pub was_prepared: bool,
    /// The registries of the user, without passwords; empty if nothing had to be done.
    pub registries: Vec<String>,
    /// What is in the store.
    #[serde(flatten)]
    pub packages: StoredPackages,
}

/// Scripts that need the same packages and run with the same interpreter.
struct PackageGroup {
    request: PackageRequest,
    program: PathBuf,
    scripts: Vec<String>,
}

impl Engine {
    /// The engine's store of packages, if it has one.
    pub fn package_store(&self) -> Option<&PackageStore> {
        self.0.packages.as_ref()
    }

    /// Prepares the packages that the scripts of a skill need, for the interpreters that run them. Later runs find them, and have no
    /// network for it.
    ///
    /// What a script needs is read from its block `/// script`, or else from the nearest `requirements.txt`, `pyproject.toml` or
    /// `package.json` in its folder or above; a line that names anything but a package with versions is `invalid-skill`. The package
    /// managers `uv` and `npm` resolve and unpack in the sandbox of a script, in an empty folder, with the registries of the user's own
    /// configuration as their only network; no code of a package runs. `unavailable` if a package manager is missing or fails, if a
    /// package has no wheel, or if the engine has no [store](super::EngineBuilder::packages).
    ///
    /// Blocks until it is done. Returns nothing for a skill that needs no packages.
    pub fn prepare(&self, request: &PrepareRequest) -> Result<Vec<PreparedPackages>> {
        let store = self.0.packages.as_ref().ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this engine has no store of packages")
                .with_help("set `EngineBuilder::packages`")
        })?;
        runtimes::check_sandbox_built_in()?;
        let registry = self.registry();
        let (_, skill) = self.0.skills.current_version(registry.find(&request.skill)?)?;
        let mut prepared = Vec::new();
        let mut groups = self.0.package_groups(store, &skill, request.script.as_deref())?;
        let files = self.0.digests.list(&skill, &request.cancel)?.digest();
        let noted = added_packages(store, files)?;
        let mut added = noted.clone();
        for package in &request.added {
            added.add(package, self.0.main_ecosystem(&skill)?)?;
        }
        groups.extend(self.0.added_groups(store, &skill, &added)?);
        for group in groups {
            request.cancel.check()?;
            let PackageGroup { request: packages, program, scripts } = group;
            let source = packages.requirements.source.clone();
            let known = match packages.prepared_for(&program) {
                Ok(Some(_)) if !request.is_upgrade => packages.stored_for(&program),
                // What somebody changed is made again.
                _ => None,
            };
            let was_prepared = known.is_some();
            let (registries, packages) = if let Some(known) = known {
                (Vec::new(), known)
            } else {
                let untrusted = self.0.package_untrusted_dirs(&skill);
                PackageInstaller::new(&self.0, request, &untrusted).install(&packages, &program)?
            };
            prepared.push(PreparedPackages { source, scripts, was_prepared, registries, packages });
        }
        if added != noted {
            set_added_packages(store, files, &added)?;
        }
        Ok(prepared)
    }
}

impl EngineInner {
    /// What the skill says about the packages of this script; `None` where none are prepared: in engines without a store, and for
    /// languages without package managers.
    pub(super) fn script_packages(&self, skill: &Skill, path: &str, source: &[u8]) -> Option<SkillPackages> {
        let store = self.packages.as_ref()?;
        let services = self.script_cache.services();
        let name = runtimes::interpreter_name(services, path, source)?;
        let ecosystem = Requirements::ecosystem_of_program(&name)?;
        let found = Requirements::of_script(ecosystem, path, source, |name, cap| read_file(skill, name, cap));
        let found = found.map(|found| {
            found.map(|found| PackageRequest { store: store.clone(), requirements: Arc::new(found) })
        });
        Some(SkillPackages::new(skill.name().to_owned(), path.to_owned(), found))
    }

    /// The same for a run: of a shell script what the other scripts of the skill say, which may run as its processes.
    pub(super) fn packages_of_run(
        &self,
        skill: &Skill,
        path: &str,
        source: &[u8],
        cancel: &CancelToken,
    ) -> Result<Option<SkillPackages>> {
        const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];
        if let Some(packages) = self.script_packages(skill, path, source) {
            return Ok(Some(packages));
        }
        let name = runtimes::interpreter_name(self.script_cache.services(), path, source);
        if self.packages.is_none() || !name.is_some_and(|name| SHELLS.contains(&name.as_str())) {
            return Ok(None);
        }
        let Some(files) = self.files_with_digest(skill, cancel)? else { return Ok(None) };
        let others = self.declared_packages(skill, &files).to_vec();
        Ok(Some(SkillPackages::of_shell_script(skill.name().to_owned(), path.to_owned(), others)))
    }

    /// The files of a skill; `None` if it has no digest, and so nothing that was prepared for it: one with a virtual environment has links
    /// that lead out of it.
    fn files_with_digest(&self, skill: &Skill, cancel: &CancelToken) -> Result<Option<Arc<FileList>>> {
        let files = self.digests.list(skill, cancel).ok();
        cancel.check()?;
        Ok(files)
    }

    /// The versions of Python that the skill names for this script; `None` where another program runs it.
    pub(super) fn required_python(&self, skill: &Skill, path: &str, source: &[u8]) -> Option<RequiredPython> {
        let name = runtimes::interpreter_name(self.script_cache.services(), path, source)?;
        Requirements::ecosystem_of_program(&name).filter(|ecosystem| *ecosystem == Ecosystem::Python)?;
        RequiredPython::of_script(path, source, |name, cap| read_file(skill, name, cap))
    }

    /// The program for which the packages of a script are prepared.
    pub(super) fn package_interpreter(
        &self,
        skill: &Skill,
        path: &str,
        source: &[u8],
        untrusted: &UntrustedDirs,
    ) -> Result<PathBuf> {
        let search = self.interpreter_search(skill, (path, source), untrusted);
        let reason = "comes from the project or the skill";
        runtimes::find_trusted_interpreter(self.script_cache.services(), &search, reason)
    }

    /// The search for the interpreter of a script.
    pub(super) fn interpreter_search<'a>(
        &'a self,
        skill: &'a Skill,
        (path, source): (&'a str, &'a [u8]),
        untrusted: &'a UntrustedDirs,
    ) -> InterpreterSearch<'a> {
        InterpreterSearch {
            path,
            source,
            is_handler: false,
            python: self.required_python(skill, path, source),
            skill: disk_folder(skill),
            project: &self.folders.first().path,
            refused: &[],
            untrusted,
            lookups: None,
        }
    }

    /// The packages of all scripts of a skill, which the processes of its runs find: those that are prepared for the programs that a
    /// process finds by the names `python3` and `node`.
    pub(super) fn child_packages(&self, skill: &Skill, cancel: &CancelToken) -> Result<ChildPackages> {
        // Where nothing is prepared, the files of the skill need not be read.
        let is_used = self.packages.as_ref().is_some_and(has_requests);
        if !is_used {
            return Ok(ChildPackages::default());
        }
        let Some(files) = self.files_with_digest(skill, cancel)? else { return Ok(ChildPackages::default()) };
        let requests = self.package_requests(skill, &files);
        let mut programs: Vec<(Ecosystem, Option<PathBuf>)> = Vec::new();
        let mut found = Vec::new();
        for request in requests.into_iter().filter(|request| !request.requirements.is_empty()) {
            let ecosystem = request.requirements.ecosystem();
            if !programs.iter().any(|(known, _)| *known == ecosystem) {
                programs.push((ecosystem, self.plain_interpreter(skill, ecosystem).ok()));
            }
            let known = programs.iter().find(|(known, _)| *known == ecosystem);
            let program = known.and_then(|(_, program)| program.clone());
            found.extend(program.map(|program| (request, program)));
        }
        Ok(ChildPackages(found))
    }

    /// The program that a process finds by the name `python3` or `node`.
    fn plain_interpreter(&self, skill: &Skill, ecosystem: Ecosystem) -> Result<PathBuf> {
        let script = match ecosystem {
            Ecosystem::Python => "x.py",
            Ecosystem::Npm => "x.cjs",
        };
        self.package_interpreter(skill, script, b"", &self.package_untrusted_dirs(skill))
    }

    /// Whose package a name without a version is: one of Node if the skill has scripts for Node and none for Python.
    fn main_ecosystem(&self, skill: &Skill) -> Result<Ecosystem> {
        let mut main = None;
        for path in scripts(&self.runtimes, skill)? {
            let source = skill.folder().read(&path, Limits::MAX_READ_SIZE)?;
            let name = runtimes::interpreter_name(self.script_cache.services(), &path, &source);
            match name.and_then(|name| Requirements::ecosystem_of_program(&name)) {
                Some(Ecosystem::Python) => return Ok(Ecosystem::Python),
                other => main = main.or(other),
            }
        }
        Ok(main.unwrap_or(Ecosystem::Python))
    }

    /// What a person adds to the packages of the skill, for the programs that its processes find.
    fn added_groups(
        &self,
        store: &PackageStore,
        skill: &Skill,
        added: &AddedPackages,
    ) -> Result<Vec<PackageGroup>> {
        let group = |requirements: Requirements| {
            let program = self.plain_interpreter(skill, requirements.ecosystem())?;
            let request = PackageRequest { store: store.clone(), requirements: Arc::new(requirements) };
            Ok(PackageGroup { request, program, scripts: Vec::new() })
        };
        added.requirements()?.into_iter().map(group).collect()
    }

    /// What is prepared for the scripts of a skill with these files: of each set of packages its digests. It is part of what is trusted.
    pub(super) fn package_digests(&self, skill: &Skill, files: &FileList) -> Vec<String> {
        if self.packages.is_none() {
            return Vec::new();
        }
        let requests = self.package_requests(skill, files);
        let mut digests: Vec<String> = requests.iter().flat_map(PackageRequest::content_digests).collect();
        digests.sort_unstable();
        digests.dedup();
        digests
    }

    /// The sets of packages that the scripts of a skill with these files need, and those that a person has added.
    fn package_requests(&self, skill: &Skill, files: &FileList) -> Vec<PackageRequest> {
        let declared = self.declared_packages(skill, files);
        let Some(store) = &self.packages else { return declared.to_vec() };
        let added =
            added_packages(store, files.digest()).and_then(|added| added.requirements()).unwrap_or_default();
        let request =
            |requirements| PackageRequest { store: store.clone(), requirements: Arc::new(requirements) };
        declared.iter().cloned().chain(added.into_iter().map(request)).collect()
    }

    /// The sets of packages that the scripts of a skill with these files name.
    fn declared_packages(&self, skill: &Skill, files: &FileList) -> Arc<[PackageRequest]> {
        self.digests.package_requests(skill, files.digest(), || {
            let scripts = files.files().iter().map(|file| file.path.as_str());
            let scripts = scripts.filter(|path| self.runtimes.for_path(path) == RuntimeId::EXTERNAL);
            let mut requests: Vec<PackageRequest> = Vec::new();
            for path in scripts.filter(|path| is_script_name(path)) {
                let Ok(source) = skill.folder().read(path, Limits::MAX_READ_SIZE) else { continue };
                let Some(packages) = self.script_packages(skill, path, &source) else { continue };
                let Some(request) = packages.request() else { continue };
                let is_known = |known: &PackageRequest| known.requirements == request.requirements;
                if !requests.iter().any(is_known) {
                    requests.push(request.clone());
                }
            }
            requests
        })
    }

    /// What of packages is there.
    pub(super) fn packages_report(&self) -> Option<PackagesReport> {
        let store = self.packages.as_ref()?;
        let untrusted = UntrustedDirs::new(self.folders.iter().map(|folder| folder.path.as_path()));
        let listed = store.list();
        let reason = listed.as_ref().err().map(ToString::to_string);
        let sets = listed.unwrap_or_default();
        Some(PackagesReport {
            path: store.folder().to_owned(),
            sets: sets.len(),
            bytes: sets.iter().map(|packages| packages.bytes).sum(),
            uv: runtimes::find_program("uv", &untrusted),
            npm: runtimes::find_program("npm", &untrusted),
            reason,
        })
    }

    /// The sets of packages that scripts need, each with the interpreter that runs them; all scripts of the skill if none is named.
    fn package_groups(
        &self,
        store: &PackageStore,
        skill: &Skill,
        named: Option<&str>,
    ) -> Result<Vec<PackageGroup>> {
        let mut paths = Vec::new();
        if named.is_none() {
            let tools = skill.contract().into_iter().flat_map(Contract::all_tools);
            let handlers = tools.filter_map(ProvidedTool::script).map(|script| script.path.clone());
            paths.extend(scripts(&self.runtimes, skill)?.into_iter().chain(handlers));
        }
        match self.selected_script(skill, named.map_or(ScriptChoice::Main, ScriptChoice::Named)) {
            Ok(selected) if selected.runtime == RuntimeId::EXTERNAL => paths.insert(0, selected.path),
            Ok(_) => {}
            // A skill of several scripts has none that runs by itself.
            Err(_) if named.is_none() => {}
            Err(error) => return Err(error),
        }
        let mut groups: Vec<PackageGroup> = Vec::new();
        let mut seen = Vec::new();
        for path in paths {
            if seen.contains(&path) || self.runtimes.for_path(&path) != RuntimeId::EXTERNAL {
                continue;
            }
            seen.push(path.clone());
            let source = skill.folder().read(&path, Limits::MAX_READ_SIZE)?;
            let services = self.script_cache.services();
            let Some(name) = runtimes::interpreter_name(services, &path, &source) else { continue };
            let Some(ecosystem) = Requirements::ecosystem_of_program(&name) else { continue };
            let read = |name: &str, cap| read_file(skill, name, cap);
            let found = Requirements::of_script(ecosystem, &path, &source, read)
                .map_err(|error| skill.with_location_path(error, None))?;
            let Some(requirements) = found.filter(|found| !found.is_empty()) else { continue };
            let untrusted = self.package_untrusted_dirs(skill);
            let program = self.package_interpreter(skill, &path, &source, &untrusted)?;
            let is_same = |group: &&mut PackageGroup| {
                *group.request.requirements == requirements && group.program == program
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.scripts.push(path),
                None => groups.push(PackageGroup {
                    request: PackageRequest { store: store.clone(), requirements: Arc::new(requirements) },
                    program,
                    scripts: vec![path],
                }),
            }
        }
        Ok(groups)
    }

    /// The folders that do not choose programs and registries: the projects, and the skill.
    pub(super) fn package_untrusted_dirs(&self, skill: &Skill) -> UntrustedDirs {
        let projects = self.folders.iter().map(|folder| folder.path.as_path());
        let skill = disk_folder(skill);
        UntrustedDirs::new(projects.chain(skill))
    }
}

/// The folder in which the files of a skill lie; that of its script for a skill of one file.
fn disk_folder(skill: &Skill) -> Option<&Path> {
    match skill.folder() {
        SkillFolder::Script(path) => path.parent(),
        folder => folder.disk_path(),
    }
}

/// The content of a file of the skill; `None` if it has none of this name.
fn read_file(skill: &Skill, name: &str, cap: u64) -> Result<Option<Vec<u8>>> {
    let is_there = match skill.folder() {
        SkillFolder::Disk(folder) => folder.join(name).symlink_metadata().is_ok(),
        SkillFolder::Script(_) => false,
        SkillFolder::Embedded(embedded) => embedded.file(name).is_some(),
    };
    if is_there { skill.folder().read(name, cap).map(Some) } else { Ok(None) }
}

/// Whether a file has the name of a script whose language has packages. What runs without such a name shows it in its first line.
fn is_script_name(path: &str) -> bool {
    let name = Path::new(path);
    name.extension()
        .and_then(|extension| extension.to_str())
        .is_none_or(|extension| ["py", "js", "mjs", "cjs", "ts", "mts", "cts"].contains(&extension))
}
