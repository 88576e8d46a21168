//! One request to run a skill: input, grants, limits and policies.

use std::any::Any;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::script_selection::ScriptChoice;
use crate::registry::COMMAND_SCRIPT;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::WatchedAccess;
use metier_core::host::{
    Approver, Environment, Extensions, LeftoverPath, Observer, OutputSinks, Providers, RunContext, RunFacts,
    SharedFacts, SkillContext, StdinSource,
};
use metier_core::policy::{
    CancelToken, ExecutionMode, GrantOrigin, Limits, Permission, SandboxMode, SkillDigest, ToolFilter,
};
use metier_plan::Journal;

/// One call of a skill. Create it with [`Invocation::new`], refine it, and pass it to an engine.
///
/// ```
/// use std::time::Duration;
///
/// use metier::engine::{Engine, Invocation};
/// use metier::policy::Limits;
/// use serde_json::json;
///
/// # fn main() -> metier::error::Result<()> {
/// let engine = Engine::builder(".").build()?;
/// let invocation = Invocation::new("word-count")
///     .input(json!({"text": "one two"}))
///     .grant("read:docs".parse()?)
///     .limits(Limits::default().timeout(Duration::from_secs(2)));
/// let outcome = engine.run(invocation);
/// # if metier::supports(metier::executor::RuntimeId::LUA).is_ok() {
/// assert_eq!(outcome.limits.timeout, Duration::from_secs(2));
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Invocation {
    pub(super) skill: String,
    pub(super) script: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) input: Option<Value>,
    /// The text from which it was parsed.
    pub(super) input_text: Option<Arc<str>>,
    pub(super) args: Vec<String>,
    pub(super) grants: Vec<(Permission, GrantOrigin)>,
    pub(super) limits: Option<Limits>,
    pub(super) sandbox_mode: Option<SandboxMode>,
    pub(super) execution_mode: Option<ExecutionMode>,
    pub(super) cancel: CancelToken,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) providers: Option<Box<Providers>>,
    pub(super) extensions: Extensions,
    pub(super) facts: SharedFacts,
    pub(super) caller: Option<SkillContext>,
    pub(super) journal: Option<JournalTarget>,
    pub(super) folder: Option<PathBuf>,
    pub(super) ask_first: bool,
    /// Whether it runs in a copy of the project, and what becomes of the changes.
    pub(super) preview: Option<Preview>,
    /// The folder of the journal that it resumes, on which the run works if it is one of the engine's.
    pub(super) journal_project: Option<PathBuf>,
    pub(super) trust: TrustOptions,
    pub(super) digest: Option<SkillDigest>,
    /// Whether it runs a command, and no skill.
    pub(super) is_command: bool,
    /// Whether the caller agrees to the call of a tool.
    pub(super) is_confirmed: bool,
    pub(super) tool_filter: Option<Arc<ToolFilter>>,
    /// Who calls, if the call may wait for a person.
    pub(super) parked_by: Option<String>,
}

/// What an engine that knows a trust store applies to the run; callees inherit it from their caller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrustOptions {
    pub(super) is_trusted_once: bool,
    pub(super) stored_grants: StoredGrants,
}

/// Which grants apply besides those of the invocation; each leaves out more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoredGrants {
    /// Those of the trust store and those of the configuration.
    #[default]
    All,
    /// Those of the configuration.
    Configured,
    /// None.
    None,
}

/// What becomes of the changes that a run makes in a copy of its project; see [`Invocation::preview`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preview {
    /// The outcome has them, and they end with the run.
    Report,
    /// They are stored as well, in the store of the engine, where they can be applied and discarded.
    Store,
}

/// The name of the skill behind a command.
const COMMAND_SKILL_NAME: &str = "exec";

/// Where the plan of a run is journaled.
#[derive(Clone)]
pub(super) enum JournalTarget {
    /// In this folder, in a file named after the skill.
    Folder(PathBuf),
    /// In this file, if the skill runs a plan.
    File(PathBuf),
}

impl Invocation {
    /// Runs the skill with that name, plain (`word-count`) or qualified (`project/.metier:word-count@1.2.0`).
    pub fn new(skill: impl Into<String>) -> Self {
        Self {
            skill: skill.into(),
            script: None,
            tool: None,
            input: None,
            input_text: None,
            args: Vec::new(),
            grants: Vec::new(),
            limits: None,
            sandbox_mode: None,
            execution_mode: None,
            cancel: CancelToken::new(),
            observer: None,
            providers: None,
            extensions: Extensions::default(),
            facts: SharedFacts::default(),
            caller: None,
            journal: None,
            folder: None,
            ask_first: false,
            preview: None,
            journal_project: None,
            trust: TrustOptions::default(),
            digest: None,
            is_command: false,
            is_confirmed: false,
            tool_filter: None,
            parked_by: None,
        }
    }

    /// Runs a command in the sandbox of an external script, without a skill: in the project, with what is granted. Trust and remembered
    /// grants do not apply: who writes the command decides. A program is looked up as a shell does; its outcome has the name `exec`.
    ///
    /// ```
    /// use metier::engine::{Engine, Invocation};
    ///
    /// # fn main() -> metier::error::Result<()> {
    /// # if !cfg!(all(target_os = "linux", feature = "sandboxed")) { return Ok(()) }
    /// let engine = Engine::builder(".").build()?;
    /// let outcome = engine.run(Invocation::command("sh", ["-c", "echo hello; exit 3"]));
    /// assert_eq!(outcome.process.map(|process| (process.exit_code, process.stdout)), Some((Some(3), "hello\n".into())));
    /// # Ok(())
    /// # }
    /// ```
    pub fn command(program: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let invocation = Self { is_command: true, ..Self::new(COMMAND_SKILL_NAME) };
        invocation.script(COMMAND_SCRIPT).args([program]).args(args).without_remembered_grants()
    }

    /// Passes on what this reads to the standard input of an external script, byte by byte as it comes, however much it is. The input
    /// then reaches the script only through the client of the host API. A run in another runtime, or with a worker, fails with
    /// `usage`.
    ///
    /// It is read once, by the process of the invoked skill, on a thread of its own, which a source that blocks may keep after the
    /// run; what the thread has read by then is gone.
    pub fn stdin(mut self, source: impl Read + Send + 'static) -> Self {
        self.facts.stdin = Some(Arc::new(StdinSource::new(source)));
        self
    }

    /// The same with a text, which whoever is asked about the call is shown.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "the server has such texts"))]
    pub(crate) fn stdin_text(mut self, text: String) -> Self {
        self.facts.stdin = Some(Arc::new(StdinSource::text(text)));
        self
    }

    /// Passes on the output of an external script as it comes, each stream to its writer, with `[secret:NAME]` in place of secrets and
    /// all other bytes unchanged. It is held back only as far as it may be the beginning of a secret.
    ///
    /// The outcome then has the value `null`, which is not validated, and of each stream the last 64 KiB; there are no events of its
    /// lines. Nothing limits the output unless [`Invocation::limit_streams`] does. A writer that fails closes the stream for the
    /// script; one that blocks makes it wait, and is left alone when the run is stopped. A run in another runtime, or with a worker,
    /// fails with `usage`.
    pub fn stream_output(
        mut self,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Self {
        let is_limited = self.facts.output_sinks.as_ref().is_some_and(|sinks| sinks.is_limited);
        self.facts.output_sinks = Some(OutputSinks { is_limited, ..OutputSinks::new(stdout, stderr) });
        self
    }

    /// Copies what the external script leaves there, a file or a folder, into the folder of the project, under the same name, when the
    /// process has ended. No link is followed, nothing is overwritten, and all of it may have as many bytes as one file.
    /// [`ProcessReport::left`](crate::host::ProcessReport::left) says where it is. A run that ends well fails if that is not possible.
    /// A run in another runtime, with a worker, or without a sandbox, fails with `usage`.
    ///
    /// ```
    /// use metier::engine::Invocation;
    ///
    /// # fn main() -> metier::error::Result<()> {
    /// let invocation = Invocation::new("draw").keep("tmp:chart.svg".parse()?);
    /// # let _ = invocation;
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep(mut self, path: LeftoverPath) -> Self {
        self.facts.leftovers_to_copy.push(path);
        self
    }

    /// Applies the output limit of the run to each stream of [`Invocation::stream_output`].
    pub fn limit_streams(mut self) -> Self {
        let new = || OutputSinks::new(std::io::sink(), std::io::sink());
        self.facts.output_sinks.get_or_insert_with(new).is_limited = true;
        self
    }

    /// The input. Without one, in-process scripts see `{}` and processes an empty standard input.
    pub fn input(mut self, input: impl Into<Value>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// The JSON text from which the input was parsed. A process whose input is that value reads it as it is written here, such as `1.50`
    /// where the value is 1.5, without the white space between its tokens. Any other text is ignored.
    ///
    /// ```
    /// use metier::engine::Invocation;
    /// use serde_json::Value;
    ///
    /// # fn main() -> serde_json::Result<()> {
    /// let text = r#"{"price": 1.50}"#;
    /// let invocation = Invocation::new("order").input(serde_json::from_str::<Value>(text)?).input_text(text);
    /// # let _ = invocation;
    /// # Ok(())
    /// # }
    /// ```
    pub fn input_text(mut self, text: impl Into<Arc<str>>) -> Self {
        self.input_text = Some(text.into());
        self
    }

    /// The script to run, by its path in the skill's folder or as the contract names it, where the skill has several.
    pub fn script(mut self, path: impl Into<String>) -> Self {
        self.script = Some(path.into());
        self
    }

    /// Calls a tool that the skill offers, in place of its script: the input and the value are validated against the schemas of the
    /// tool, and its time limit and permissions apply. The run fails with `usage` if a script is named too.
    ///
    /// ```
    /// use metier::engine::Invocation;
    /// use serde_json::json;
    ///
    /// let invocation = Invocation::new("weather").tool("forecast").input(json!({"city": "Oslo"}));
    /// # let _ = invocation;
    /// ```
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// The caller agrees to the call of the tool, so nobody is asked about it. It counts for this call only, not for what it calls in
    /// turn, and not where a model chose it.
    pub fn confirmed(mut self) -> Self {
        self.is_confirmed = true;
        self
    }

    /// Lets the call wait for a person where no approver can be asked: it fails with `pending`, and is written to the engine's
    /// [store](super::EngineBuilder::pending) as a call of `caller`. Approved there, exactly this call is made once, when it is made
    /// again: by the same skills, with the same files, input, grants and project. Everything that it lacks is asked for before it starts.
    /// `usage` in an engine without such a store.
    pub fn park(mut self, caller: impl Into<String>) -> Self {
        self.parked_by = Some(caller.into());
        self
    }

    /// Leaves only these tools to the run and to all that it calls, whatever is granted: tools of the host and of skills.
    pub fn tool_filter(mut self, filter: ToolFilter) -> Self {
        self.tool_filter = (!filter.is_empty()).then(|| Arc::new(filter));
        self
    }

    /// Asks this approver, one question before anything runs.
    pub(super) fn asking_first(mut self, approver: impl Approver + 'static) -> Self {
        self.providers.get_or_insert_default().approver = Some(Arc::new(approver));
        self.ask_first()
    }

    /// The script that it chooses.
    pub(super) fn script_choice(&self) -> Result<ScriptChoice<'_>> {
        match (self.tool.as_deref(), self.script.as_deref()) {
            (None, None) => Ok(ScriptChoice::Main),
            (None, Some(script)) => Ok(ScriptChoice::Named(script)),
            (Some(tool), None) => Ok(ScriptChoice::Tool(tool)),
            (Some(_), Some(_)) => {
                let sentence = "a run calls a tool of the skill or runs one of its scripts, not both";
                Err(SkillError::new(ErrorKind::Usage, sentence).with_help("name one of them"))
            }
        }
    }

    /// The folder of the engine on which the run works, in place of that in which the skill was found; see
    /// [`EngineBuilder::folder`](super::EngineBuilder::folder). The run fails with `usage` for any other folder.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folder = Some(path.into());
        self
    }

    /// Arguments for an external script.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable for external scripts. It reaches the process of a skill that requests `env:NAME` and is granted
    /// it; an external script whose skill requests no permission of metier needs the grant only. The run fails with `usage` for a
    /// name that decides what runs, such as `PATH`.
    ///
    /// Where the name contains `KEY`, `TOKEN`, `SECRET`, `PASS` or `CREDENTIAL` (in any case), or the value is an address with a
    /// password in it, `[secret:NAME]` replaces the value in everything that the run returns and reports.
    ///
    /// ```
    /// use metier::engine::Invocation;
    /// use metier::policy::Permission;
    ///
    /// # fn main() -> metier::error::Result<()> {
    /// let invocation =
    ///     Invocation::new("report").env("REGION", "eu-west-1").grant(Permission::env("REGION")?);
    /// # let _ = invocation;
    /// # Ok(())
    /// # }
    /// ```
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_environment(|environment| environment.set(name.into(), value.into(), false))
    }

    /// The same as [`Invocation::env`], with a value that is always redacted.
    pub fn secret_env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_environment(|environment| environment.set(name.into(), value.into(), true))
    }

    /// Reads variables that are permitted, and that [`Invocation::env`] does not set, from the environment of this process.
    pub fn inherit_env(self) -> Self {
        self.with_environment(Environment::inherit)
    }

    fn with_environment(mut self, change: impl FnOnce(&mut Environment)) -> Self {
        change(Arc::make_mut(self.facts.environment.get_or_insert_default()));
        self
    }

    /// Grants a permission. It takes effect if the skill requests it.
    pub fn grant(self, permission: Permission) -> Self {
        self.grant_from(permission, GrantOrigin::Caller)
    }

    /// Grants a permission as [`Invocation::grant`] does; the outcome and the explanation say that it came from there.
    ///
    /// Grants of a configuration apply only to skills that are trusted, in an engine with a
    /// [trust store](super::EngineBuilder::trust).
    pub fn grant_from(mut self, permission: Permission, origin: GrantOrigin) -> Self {
        self.grants.push((permission, origin));
        self
    }

    /// A model chose this run, and not a person: in an engine with a [trust store](super::EngineBuilder::trust) only trusted skills
    /// run, also where they call one another; for others the run fails with `untrusted` and nothing of them is executed.
    ///
    /// A model reads the outcome and the events, so all texts in them are sanitized: secrets that are known by their form, such as tokens of
    /// GitHub, and base64 of the run's own secrets become `[secret:NAME]`, orders to a terminal are taken out, and invisible characters
    /// are spelled out. `Outcome::sanitized` counts the places. The run fails with `usage` if its output is
    /// [passed on as it comes](Invocation::stream_output).
    pub fn for_model(mut self) -> Self {
        self.facts.is_for_model = true;
        self
    }

    /// Trusts the skill, and those that it calls, for this run only: for a program that was told so, such as a CI job.
    pub fn trust_once(mut self) -> Self {
        self.trust.is_trusted_once = true;
        self
    }

    /// Ignores the grants that the engine's [trust store](super::EngineBuilder::trust) remembers.
    pub fn without_remembered_grants(mut self) -> Self {
        self.trust.stored_grants = self.trust.stored_grants.max(StoredGrants::Configured);
        self
    }

    /// Uses neither remembered grants nor those of the configuration.
    pub(super) fn without_stored_grants(mut self) -> Self {
        self.trust.stored_grants = StoredGrants::None;
        self
    }

    /// Asks the approver one question about everything that the skill requests and nobody granted, before anything
    /// runs, in every runtime. After a no, nothing has run. Without it, a script is interrupted where it needs a permission.
    pub fn ask_first(mut self) -> Self {
        self.ask_first = true;
        self
    }

    /// Runs the skill only if it and the skills that it calls still have this digest, which
    /// [`Engine::skill_files`](super::Engine::skill_files) returned: what was looked at is what runs. Otherwise the run fails with
    /// `untrusted`; so does the call of a skill that the digest does not count.
    pub fn digest(mut self, digest: SkillDigest) -> Self {
        self.digest = Some(digest);
        self
    }

    /// The limits of this run, in place of the engine's.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// How strictly the sandbox of a process is required before it may start, in place of the engine's setting.
    pub fn sandbox_mode(mut self, isolation: SandboxMode) -> Self {
        self.sandbox_mode = Some(isolation);
        self
    }

    /// Where scripts of embedded languages run, in place of the engine's setting.
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.execution_mode = Some(mode);
        self
    }

    /// The token that cancels this run.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// The observer that receives the events of the run.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Watches the processes of the run: [`Outcome::refused`](super::Outcome::refused) then has the paths and programs that the sandbox
    /// refused as well, also of runs that end well. Each call by which a script opens, creates or executes something takes some 10 µs
    /// longer, and nothing is decided by what is observed.
    pub fn watch(mut self) -> Self {
        self.extensions.insert(WatchedAccess);
        self
    }

    /// Asks the approver about each host that an external script tries to reach and nobody granted, before the first byte is sent to it: at
    /// the ports of the web, at the level `namespaces`, and never in a run that a model chose. A yes opens no address that is not the
    /// public internet. Without this, such hosts are refused and listed in [`Outcome::refused`](super::Outcome::refused).
    pub fn ask_about_hosts(mut self) -> Self {
        self.facts.has_host_questions = true;
        self
    }

    /// Runs in a copy of the project: the run, and all that it calls, finds the copy at the path of the project and has the grant `write`;
    /// the project stays as it is. [`Outcome::changes`](super::Outcome::changes) then has what it changed: paths, states with sizes and
    /// digests, and the lines that differ in texts.
    ///
    /// Protected files, quarantine and all other grants are as in other runs, and trust, remembered grants and the state of skills are those
    /// of the project. Requests that were answered, what a skill keeps in its state, and what tools of this program do, are not undone. No
    /// worker is shared with other runs, and no process outlives the run. A [provider of files](crate::host::FileProvider) is not asked.
    ///
    /// A script that is a process, or calls one, takes Linux 5.11 with overlayfs and namespaces; without them such a run fails with
    /// `sandbox-unavailable`, and all others have a copy that only the host functions know. It fails with the same if its script cannot run in
    /// the sandbox, with `denied` if it is to run without one, and with `usage` if it has a journal.
    ///
    /// ```no_run
    /// use std::os::fd::AsFd;
    ///
    /// use metier::changes::{ApplyOptions, ChangeStore};
    /// use metier::engine::{Engine, Invocation, Preview};
    ///
    /// # fn main() -> metier::error::Result<()> {
    /// let engine = Engine::builder(".").build()?;
    /// let outcome = engine.run(Invocation::new("format").preview(Preview::Store));
    /// if let Some(changes) = &outcome.changes {
    ///     println!("{:#}", changes.set);
    ///     let store = ChangeStore::user()?;
    ///     let project = store.open_project(&store.find(changes.id())?.set)?;
    ///     let options = ApplyOptions { digest: Some(changes.digest.clone()), ..ApplyOptions::default() };
    ///     store.apply(changes.id(), project.as_fd(), &options)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn preview(mut self, preview: Preview) -> Self {
        self.preview = Some(preview);
        self
    }

    /// Attaches a value of the embedder's own type, in place of an earlier one of that type. Providers read it with
    /// [`SkillContext::extension`], also in the skills that the skill calls.
    ///
    /// ```
    /// use metier::engine::{Engine, Invocation};
    /// use metier::host::ClosureTools;
    /// use serde_json::json;
    ///
    /// struct Tab(u32);
    ///
    /// # fn main() -> metier::error::Result<()> {
    /// let tools = ClosureTools::new().tool("tab", "The tab that asks", json!({}), |ctx, _| {
    ///     Ok(json!(ctx.extension::<Tab>().map(|tab| tab.0)))
    /// });
    /// let engine = Engine::builder(".").tools(tools).build()?;
    /// let invocation = Invocation::new("word-count").extension(Tab(3));
    /// # let _ = (engine, invocation);
    /// # Ok(())
    /// # }
    /// ```
    pub fn extension<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// With something else that the engine and the runtimes know of the run.
    #[doc(hidden)]
    pub fn with_facts(mut self, change: impl FnOnce(&mut RunFacts)) -> Self {
        change(&mut self.facts);
        self
    }

    /// Providers for this run and the skills that it calls: each that is set replaces that of the engine. A plan is checked
    /// against the tools of the engine when it is loaded, so a tool that only an invocation has is unknown to plans.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = Some(Box::new(providers));
        self
    }

    /// Journals each finished step of the skill's plan in this folder, so that the same invocation, made again, continues where
    /// this one ended. `usage` for a skill that has no plan, and where the folder holds the journal of another run of the
    /// skill.
    ///
    /// The folder is trusted: whoever can write to it can forge the results of steps. Keep it out of the project.
    pub fn journal(mut self, folder: impl Into<PathBuf>) -> Self {
        self.journal = Some(JournalTarget::Folder(folder.into()));
        self
    }

    /// The invocation that continues the run of a journal: its skill, its input, its journal and its folder. Grants, limits and what
    /// else it had are set again. If the plan, the skills that it calls, the files of the skill or the project have changed, the run fails
    /// with `usage` and does nothing.
    ///
    /// The journal decides the skill, the input and the values of finished steps, so its folder must be one to which nobody else can
    /// write.
    ///
    /// `usage` if the file is not a journal, or if the run's input contained a secret and was not saved; `io` if the journal cannot
    /// be read or is damaged.
    pub fn resume(journal: impl Into<PathBuf>) -> Result<Self> {
        let path = journal.into();
        let content = Journal::peek(&path)?;
        if let Some(damage) = content.summary.damage {
            return Err(damage);
        }
        let Some(input) = content.input else {
            let sentence = format!("the journal {} does not have the input of its run", path.display());
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("start the run again with its input and the folder of the journal"));
        };
        let skill = content.summary.qualified_name.unwrap_or(content.summary.skill);
        let journal = Some(JournalTarget::File(path));
        let journal_project = content.summary.project;
        Ok(Self { input: Some(input), journal, journal_project, ..Self::new(skill) })
    }

    /// The call of a skill by another one: with the caller's token, limits and permissions, and its log to write to.
    pub(super) fn for_callee(caller: &SkillContext, skill: &str) -> Self {
        Self {
            limits: Some(caller.callee_limits().clone()),
            sandbox_mode: Some(caller.sandbox_mode()),
            execution_mode: Some(caller.execution_mode()),
            cancel: caller.cancel().clone(),
            extensions: caller.extensions().clone(),
            facts: caller.facts().clone(),
            caller: Some(caller.clone()),
            journal: caller.callee_journal_file().map(|file| JournalTarget::File(file.to_owned())),
            ..Self::new(skill)
        }
    }
}
