//! How much a run may use, and how firmly it is held: limits and isolation, as a person writes them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use metier::error::Result;
use metier::policy::{ExecutionMode, Limits, OutputPolicy, SandboxMode};

use crate::cli::units;

/// The options that bound a run.
#[derive(clap::Args)]
pub struct LimitArgs {
    /// Stop the run after this time [default: 30s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Memory the run may use [default: 64MB in process, 2GB per process]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Processor time each process may use, in whole seconds [default: as much as there is]
    #[arg(long, value_name = "TIME")]
    cpu: Option<String>,
    /// Bytes the value, the log and each output stream may have [default: 8MB]
    #[arg(long, value_name = "SIZE")]
    output: Option<String>,
    /// What happens to a process whose output meets that: it is killed, or goes on and its output is cut [default: kill]
    #[arg(long, value_name = "POLICY", value_parser = output_policy_parser())]
    on_output: Option<OutputPolicy>,
    /// Bytes a process may have in a file it writes [default: 256MB]
    #[arg(long, value_name = "SIZE")]
    file_size: Option<String>,
    /// Files a process may have open [default: 512]
    #[arg(long, value_name = "COUNT")]
    open_files: Option<String>,
    /// Operations the run may execute, in languages that count them [default: 10m in Rhai]
    #[arg(long, value_name = "COUNT")]
    operations: Option<String>,
    /// The sandbox around processes: must hold, may be as weak as this machine makes it, or is left out [default: required]
    #[arg(long, value_name = "POLICY", value_parser = sandbox_policy_parser())]
    sandbox: Option<SandboxMode>,
    /// Where Lua and Rhai scripts run: in this process, or in a worker process that is killed at the deadline [default: in-process]
    #[arg(long, value_name = "MODE", value_parser = execution_mode_parser())]
    execution: Option<ExecutionMode>,
}

fn output_policy_parser() -> impl TypedValueParser<Value = OutputPolicy> {
    PossibleValuesParser::new(OutputPolicy::all().map(OutputPolicy::name)).try_map(|word| word.parse())
}

/// The word after `--execution`.
pub fn execution_mode_parser() -> impl TypedValueParser<Value = ExecutionMode> {
    PossibleValuesParser::new(ExecutionMode::all().map(ExecutionMode::name)).try_map(|word| word.parse())
}

fn sandbox_policy_parser() -> impl TypedValueParser<Value = SandboxMode> {
    PossibleValuesParser::new(SandboxMode::all().map(SandboxMode::name)).try_map(|word| word.parse())
}

impl LimitArgs {
    /// The limits of the run; what is not said has its default.
    pub fn limits(&self) -> Result<Limits> {
        let mut limits = Limits::default();
        if let Some(time) = &self.timeout {
            limits = limits.timeout(units::parse_duration(time)?);
        }
        if let Some(size) = &self.memory {
            limits = limits.memory(units::parse_bytes(size)?);
        }
        if let Some(time) = &self.cpu {
            limits = limits.cpu(units::parse_duration(time)?);
        }
        if let Some(size) = &self.output {
            limits = limits.output(units::parse_bytes(size)?);
        }
        if let Some(policy) = self.on_output {
            limits = limits.on_output(policy);
        }
        if let Some(size) = &self.file_size {
            limits = limits.file_size(units::parse_bytes(size)?);
        }
        if let Some(count) = &self.open_files {
            limits = limits.open_files(units::parse_count(count)?);
        }
        if let Some(count) = &self.operations {
            limits = limits.operations(units::parse_count(count)?);
        }
        Ok(limits)
    }

    /// Where scripts of embedded languages run.
    pub fn execution_mode(&self) -> ExecutionMode {
        self.execution.unwrap_or_default()
    }

    /// How firmly processes are held.
    pub fn sandbox_policy(&self) -> SandboxMode {
        self.sandbox.unwrap_or_default()
    }
}
