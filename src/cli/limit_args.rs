//! The options for limits, for the sandbox, and for where scripts run.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use metier::engine::Invocation;
use metier::error::{Result, SkillError};
use metier::policy::units::{parse_bytes, parse_count, parse_duration};
use metier::policy::{ExecutionMode, Limits, OutputPolicy, SandboxMode};

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
    /// Number of files that a process may have open [default: 512]
    #[arg(long, value_name = "COUNT")]
    open_files: Option<String>,
    /// Number of operations that the run may execute, in languages that count them [default: 10m in Rhai]
    #[arg(long, value_name = "COUNT")]
    operations: Option<String>,
    /// Run processes in a sandbox: required (or fail), best-effort (as strong as this machine allows) or off [default: required]
    #[arg(long, value_name = "POLICY", value_parser = sandbox_policy_parser())]
    sandbox: Option<SandboxMode>,
    /// Run Lua and Rhai scripts in this process, or in a worker process that is killed at the deadline [default: in-process]
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
    /// The limits of the run; an option that is absent has its default.
    pub fn limits(&self) -> Result<Limits> {
        let mut limits = Limits::default();
        if let Some(time) = &self.timeout {
            limits = limits.timeout(parse("--timeout", time, parse_duration)?);
        }
        if let Some(size) = &self.memory {
            limits = limits.memory(parse("--memory", size, parse_bytes)?);
        }
        if let Some(time) = &self.cpu {
            limits = limits.cpu(parse("--cpu", time, parse_duration)?);
        }
        if let Some(size) = &self.output {
            limits = limits.output(parse("--output", size, parse_bytes)?);
        }
        if let Some(policy) = self.on_output {
            limits = limits.on_output(policy);
        }
        if let Some(size) = &self.file_size {
            limits = limits.file_size(parse("--file-size", size, parse_bytes)?);
        }
        if let Some(count) = &self.open_files {
            limits = limits.open_files(parse("--open-files", count, parse_count)?);
        }
        if let Some(count) = &self.operations {
            limits = limits.operations(parse("--operations", count, parse_count)?);
        }
        Ok(limits)
    }

    /// The invocation, with the output limit for its streams too if one was given: without it they are unlimited.
    pub fn limit_streams(&self, invocation: Invocation) -> Invocation {
        if self.output.is_some() { invocation.limit_streams() } else { invocation }
    }

    /// Where scripts of embedded languages run.
    pub fn execution_mode(&self) -> ExecutionMode {
        self.execution.unwrap_or_default()
    }

    /// How strictly processes are sandboxed.
    pub fn sandbox_policy(&self) -> SandboxMode {
        self.sandbox.unwrap_or_default()
    }
}

/// The value of an option; an error names the option.
fn parse<T>(option: &str, text: &str, parser: impl Fn(&str) -> Result<T>) -> Result<T> {
    parser(text).map_err(|error| SkillError::new(error.kind(), format!("{option}: {}", error.message())))
}
