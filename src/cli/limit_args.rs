//! The options for limits, for the sandbox, and for where scripts run.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use metier::config::{Configuration, ValueOrigin};
use metier::engine::Invocation;
use metier::error::{Result, SkillError};
use metier::policy::{ExecutionMode, OutputPolicy, SandboxMode};

/// How much a run may use, and how strictly a process is sandboxed.
#[derive(clap::Args)]
pub struct LimitArgs {
    /// Stop the run after this time [default: 30s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Memory that the run may use [default: 64MB in process, 2GB per process]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Processor time that each process may use, in whole seconds [default: no limit]
    #[arg(long, value_name = "TIME")]
    cpu: Option<String>,
    /// Maximum size of the value, of the log and of each output stream [default: 8MB]
    #[arg(long, value_name = "SIZE")]
    output: Option<String>,
    /// What to do with a process that writes more than --output: kill it, or truncate its output [default: kill]
    #[arg(long, value_name = "POLICY", value_parser = output_policy_parser())]
    on_output: Option<OutputPolicy>,
    /// Maximum size of each file that a process writes [default: 256MB]
    #[arg(long, value_name = "SIZE")]
    file_size: Option<String>,
    /// Maximum size of what the skill keeps in the project, with the permission state [default: 256MB]
    #[arg(long, value_name = "SIZE")]
    state_size: Option<String>,
    /// Number of files that a process may have open [default: 512]
    #[arg(long, value_name = "COUNT")]
    open_files: Option<String>,
    /// Number of operations that the run may execute, in languages that count them [default: 10m in Rhai]
    #[arg(long, value_name = "COUNT")]
    operations: Option<String>,
    /// Run processes in a sandbox: required (or fail), best-effort (as strong as this machine allows) or off [default: required]
    #[arg(long, value_name = "POLICY", value_parser = sandbox_policy_parser())]
    sandbox: Option<SandboxMode>,
    /// Run Lua, Rhai and WebAssembly in this process, or in a worker process that is killed at the deadline [default: in-process]
    #[arg(long, value_name = "MODE", value_parser = execution_mode_parser())]
    execution: Option<ExecutionMode>,
}

fn output_policy_parser() -> impl TypedValueParser<Value = OutputPolicy> {
    PossibleValuesParser::new(OutputPolicy::all().map(OutputPolicy::name)).try_map(|word| word.parse())
}

/// Parses the value of `--execution`.
pub fn execution_mode_parser() -> impl TypedValueParser<Value = ExecutionMode> {
    PossibleValuesParser::new(ExecutionMode::all().map(ExecutionMode::name)).try_map(|word| word.parse())
}

fn sandbox_policy_parser() -> impl TypedValueParser<Value = SandboxMode> {
    PossibleValuesParser::new(SandboxMode::all().map(SandboxMode::name)).try_map(|word| word.parse())
}

impl LimitArgs {
    /// How strictly the caller wants processes to be sandboxed.
    pub fn sandbox_mode(&self) -> Option<SandboxMode> {
        self.sandbox
    }

    /// The configuration with the values that these options set; an option that is absent sets none.
    pub fn configure(&self, configuration: &Configuration) -> Result<Configuration> {
        let values = [
            ("limits.timeout", "--timeout", self.timeout.as_deref()),
            ("limits.memory", "--memory", self.memory.as_deref()),
            ("limits.cpu", "--cpu", self.cpu.as_deref()),
            ("limits.output", "--output", self.output.as_deref()),
            ("limits.on_output", "--on-output", self.on_output.map(OutputPolicy::name)),
            ("limits.file_size", "--file-size", self.file_size.as_deref()),
            ("limits.state_size", "--state-size", self.state_size.as_deref()),
            ("limits.open_files", "--open-files", self.open_files.as_deref()),
            ("limits.operations", "--operations", self.operations.as_deref()),
            ("sandbox.mode", "--sandbox", self.sandbox.map(SandboxMode::name)),
            ("execution", "--execution", self.execution.map(ExecutionMode::name)),
        ];
        let mut set = values.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value?)));
        set.try_fold(configuration.clone(), |configuration, (key, flag, value)| {
            configuration.with_origin(key, value, ValueOrigin::Flag { name: flag.to_owned() }).map_err(
                |error| {
                    let reason =
                        error.message().split_once("`: ").map_or(error.message(), |(_, reason)| reason);
                    SkillError::new(error.kind(), format!("{flag} {value}: {reason}"))
                },
            )
        })
    }

    /// The invocation, with the output limit for its streams too if one was given: without it they are unlimited.
    pub fn limit_streams(&self, invocation: Invocation) -> Invocation {
        if self.output.is_some() { invocation.limit_streams() } else { invocation }
    }
}
