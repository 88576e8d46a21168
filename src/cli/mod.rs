//! The command line: one file for each command. Data goes to standard output, messages to standard error.

mod activate;
mod allow;
mod api;
mod apparmor;
mod audit;
mod autonomy;
mod catalog;
#[cfg(unix)]
mod changes;
mod completions;
mod config;
mod config_args;
mod ctx;
mod diagnostics;
mod diff;
mod doctor;
mod env_args;
mod env_file;
mod exec;
mod exit_watchdog;
mod explain;
mod export;
mod export_definition;
mod global_args;
mod hint;
mod import;
mod import_download;
mod import_openapi;
mod import_result;
mod input;
mod interrupt;
mod limit_args;
mod list;
mod lock;
#[cfg_attr(not(feature = "mcp"), path = "mcp_unavailable.rs")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_client;
#[cfg(feature = "mcp")]
mod mcp_http;
mod new;
mod output;
mod pending;
mod prepare;
#[cfg_attr(not(target_os = "linux"), path = "preview_unsupported.rs")]
mod preview;
mod progress;
mod prompt;
#[cfg(target_os = "linux")]
mod proposed_grants;
mod raw;
mod requirement;
mod run;
mod schema;
mod session;
mod show;
mod skill_record;
mod state;
mod stdin;
mod table;
mod templates;
mod terminal;
mod terminal_approver;
mod terminal_filter;
mod test;
mod tool_filter_args;
mod trust;
mod trust_words;
#[cfg(target_os = "linux")]
mod try_skill;
#[cfg(unix)]
mod undo;
mod unread_skills;
mod usage_error;
mod validate;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use metier::config::LoadedConfiguration;
use metier::engine::Outcome;
use metier::error::{Result, SkillError};

use self::exit_watchdog::ExitWatchdog;
use self::global_args::GlobalArgs;
use self::hint::{COMMAND, error_with_option};
use self::session::{Session, load_configuration};
use self::unread_skills::with_place_of_skill;

/// Runs agent skills: folders with a SKILL.md and scripts, scoped to the project.
#[derive(Parser)]
#[command(name = COMMAND, version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a skill and print its value
    Run(Box<run::Args>),
    /// Run a command in the sandbox of a script, without a skill
    Exec(Box<exec::Args>),
    /// Run a skill once in a copy of the project, watch it, and name the grants that it would need
    #[cfg(target_os = "linux")]
    Try(Box<try_skill::Args>),
    /// List the skills, including shadowed ones
    List(list::Args),
    /// Show a skill: its signature, requested permissions and instructions
    Show(show::Args),
    /// Check skills against the specification
    Validate(validate::Args),
    /// Compare two versions of a skill, and say how large the change of the version must be
    Diff(diff::Args),
    /// Run the cases of skills, each in a fresh project
    Test(test::Args),
    /// Create a skill that runs
    New(new::Args),
    /// List the functions that a script may call on ctx
    Api(api::Args),
    /// Call a function of the host API from a script in a sandbox
    Ctx(ctx::Args),
    /// Print names and descriptions for a model to choose from
    Catalog(catalog::Args),
    /// Serve the skills as tools of the Model Context Protocol, over standard input and output
    Mcp(Box<mcp::Args>),
    /// Package skills as a plug-in whose server runs them in their sandbox, or in the form of another system
    Export(export::Args),
    /// Make skills of definitions in the formats of other systems
    Import(import::Args),
    /// Print what a model becomes with a skill, or with several as one
    Activate(activate::Args),
    /// Print the JSON Schema of a format
    Schema(schema::Args),
    /// Print the configuration, or change it
    Config(config::Args),
    /// Print or set how far models act on their own
    Autonomy(autonomy::Args),
    /// Report what this machine, this build and these skills support, and what is wrong
    Doctor(doctor::Args),
    /// Look at the skills of a project and trust them
    Trust(trust::Args),
    /// Grant a skill permissions for later runs
    Allow(allow::Args),
    /// Show the audit log, check it, and close its file
    Audit(audit::Args),
    /// List the calls that wait for a person, and decide about them
    Pending(pending::Args),
    /// List what runs would change in their projects, show it, and apply or discard it
    #[cfg(unix)]
    Changes(changes::Args),
    /// Restore what applied changes replaced, where nobody has changed it since
    #[cfg(unix)]
    Undo(undo::Args),
    /// Prepare the packages that a skill's scripts need, from your registries
    Prepare(prepare::Args),
    /// List, show and remove what skills keep
    State(state::Args),
    /// Write the digests of the project's skills to .metier/skills.lock
    Lock(lock::Args),
    /// Check that the project's skills are as .metier/skills.lock has them
    Verify,
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Parses the arguments and runs the command; returns the exit code.
pub fn main() -> ExitCode {
    metier_core::alloc_counter::keep_freed_memory();
    let args: Vec<OsString> = std::env::args_os().collect();
    let result = match parse_alone(&args).map_or_else(|| Cli::try_parse_from(&args), Ok) {
        Ok(cli) => {
            let loaded = if cli.command.reads_configuration() {
                load_configuration(&cli.global)
            } else {
                Ok(LoadedConfiguration::default())
            };
            loaded.and_then(|loaded| run(cli, loaded))
        }
        Err(error) => self::usage_error::print(&error),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::print_error(&error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// The arguments of a command that starts often. It is described without the other commands: all of them take 0.2 ms, of 4 ms for a
/// whole run of a Lua skill. `None` for other commands, and for what is wrong with the arguments, which is said knowing all commands.
fn parse_alone(args: &[OsString]) -> Option<Cli> {
    let matches = describe_alone(args.get(1)?.to_str()?)?.try_get_matches_from(args).ok()?;
    Cli::from_arg_matches(&matches).ok()
}

/// The command line with this command only.
fn describe_alone(name: &str) -> Option<clap::Command> {
    let command = match name {
        "run" => run::Args::augment_args(clap::Command::new("run")),
        "exec" => exec::Args::augment_args(clap::Command::new("exec")),
        _ => return None,
    };
    Some(GlobalArgs::augment_args(clap::Command::new(COMMAND)).subcommand_required(true).subcommand(command))
}

fn run(cli: Cli, loaded: LoadedConfiguration) -> Result<u8> {
    let named = cli.command.skill_name().map(str::to_owned);
    let skill = named.clone().filter(|_| loaded.configuration.json());
    let session = Session::new(cli.global, loaded, exit_watchdog(skill.clone()));
    let result = if cli.command.shows_configuration_errors() {
        Ok(())
    } else if cli.command.widens_nothing() {
        session.print_configuration_problems();
        Ok(())
    } else {
        session.check_configuration()
    };
    let result = result.and_then(|()| dispatch(cli.command, &session));
    session.exit_watchdog().finish();
    let result = result.map_err(|error| match &named {
        Some(name) => with_place_of_skill(error, name, &session),
        None => error,
    });
    result.or_else(|error| match skill {
        Some(skill) => print_failure(skill, error),
        None => Err(error),
    })
}

/// Prints a failure as JSON: for every command in the form of an outcome.
fn print_failure(skill: String, error: SkillError) -> Result<u8> {
    let code = error.kind().exit_code();
    output::print_json(&Outcome::failed(skill, error_with_option(error))).map(|()| code)
}

impl Command {
    /// Whether it depends on the configuration.
    fn reads_configuration(&self) -> bool {
        !matches!(self, Self::Ctx(_) | Self::Completions(_))
    }

    /// Whether it works with a configuration that has errors: it reports them by itself, or does not depend on them.
    fn shows_configuration_errors(&self) -> bool {
        matches!(
            self,
            Self::Ctx(_)
                | Self::Completions(_)
                | Self::Api(_)
                | Self::Config(_)
                | Self::Autonomy(_)
                | Self::Doctor(_)
                | Self::Validate(_)
        )
    }

    /// Whether it only reads, or takes away what was permitted: what is wrong with a configuration holds it up no more than it must.
    fn widens_nothing(&self) -> bool {
        match self {
            Self::List(_) | Self::Show(_) | Self::Diff(_) | Self::State(_) | Self::Audit(_) => true,
            #[cfg(unix)]
            Self::Changes(_) | Self::Undo(_) => true,
            Self::Trust(args) => args.widens_nothing(),
            Self::Allow(args) => args.widens_nothing(),
            _ => false,
        }
    }

    /// The skill that a failure in JSON is about, empty if it is about none; nothing for commands that do not print JSON.
    fn skill_name(&self) -> Option<&str> {
        match self {
            Self::Run(args) => Some(args.name()),
            #[cfg(target_os = "linux")]
            Self::Try(args) => Some(args.name()),
            Self::Show(args) => Some(args.name()),
            Self::Test(args) => Some(args.name()),
            Self::New(args) => Some(args.name()),
            Self::Allow(args) => Some(args.name()),
            Self::State(args) => Some(args.name()),
            Self::Prepare(args) => Some(args.name()),
            Self::Exec(_) => Some("exec"),
            Self::List(_)
            | Self::Diff(_)
            | Self::Audit(_)
            | Self::Trust(_)
            | Self::Validate(_)
            | Self::Api(_)
            | Self::Catalog(_)
            | Self::Config(_)
            | Self::Pending(_)
            | Self::Autonomy(_)
            | Self::Doctor(_)
            | Self::Export(_)
            | Self::Activate(_)
            | Self::Import(_)
            | Self::Lock(_)
            | Self::Verify => Some(""),
            #[cfg(unix)]
            Self::Changes(_) | Self::Undo(_) => Some(""),
            Self::Ctx(_) | Self::Mcp(_) | Self::Completions(_) | Self::Schema(_) => None,
        }
    }
}

/// Ends a command that does not end by itself, and prints that like its other failures.
fn exit_watchdog(skill: Option<String>) -> ExitWatchdog {
    ExitWatchdog::new(move |error| match skill {
        // If standard output is closed, there is no other place to report to.
        Some(skill) => drop(print_failure(skill, error.clone())),
        None => output::print_error(error),
    })
}

fn dispatch(command: Command, session: &Session) -> Result<u8> {
    #[cfg(target_os = "linux")]
    let is_try = matches!(command, Command::Try(_));
    #[cfg(not(target_os = "linux"))]
    let is_try = false;
    if !is_try
        && !matches!(
            command,
            Command::Run(_)
                | Command::Exec(_)
                | Command::Test(_)
                | Command::Ctx(_)
                | Command::New(_)
                | Command::Trust(_)
                | Command::State(_)
                | Command::Pending(_)
                | Command::Prepare(_)
        )
    {
        session.exit_watchdog().start_loading_timeout();
    }
    match command {
        Command::Run(args) => run::run(&args, session),
        #[cfg(target_os = "linux")]
        Command::Try(args) => try_skill::run(*args, session),
        Command::Exec(args) => exec::run(&args, session),
        Command::List(args) => list::run(&args, session),
        Command::Show(args) => show::run(&args, session),
        Command::Validate(args) => validate::run(&args, session),
        Command::Diff(args) => diff::run(&args, session),
        Command::Test(args) => test::run(&args, session),
        Command::New(args) => new::run(&args, session),
        Command::Api(args) => api::run(&args, session),
        Command::Ctx(args) => ctx::run(&args),
        Command::Trust(args) => trust::run(&args, session),
        Command::Allow(args) => allow::run(&args, session),
        Command::State(args) => state::run(&args, session),
        Command::Audit(args) => audit::run(&args, session),
        Command::Prepare(args) => prepare::run(&args, session),
        Command::Catalog(args) => catalog::run(&args, session),
        Command::Mcp(args) => mcp::run(&args, session),
        Command::Config(args) => config::run(&args, session),
        Command::Autonomy(args) => autonomy::run(&args, session),
        Command::Pending(args) => pending::run(&args, session),
        #[cfg(unix)]
        Command::Changes(args) => changes::run(&args, session),
        #[cfg(unix)]
        Command::Undo(args) => undo::run(&args, session),
        Command::Doctor(args) => doctor::run(&args, session),
        Command::Export(args) => export::run(&args, session),
        Command::Activate(args) => activate::run(&args, session),
        Command::Import(args) => import::run(&args, session),
        Command::Schema(args) => schema::run(&args),
        Command::Lock(args) => lock::run(&args, session),
        Command::Verify => verify::run(session),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_described_alone_takes_the_same_arguments() {
        let arguments = |mut whole: clap::Command, name: &str| {
            whole.build();
            let command = whole.find_subcommand(name).unwrap();
            let known: Vec<String> =
                command.get_arguments().map(|argument| format!("{argument:?}")).collect();
            assert!(known.len() > 10, "{known:?}");
            known
        };
        for name in ["run", "exec"] {
            assert_eq!(arguments(describe_alone(name).unwrap(), name), arguments(Cli::command(), name));
        }
        let parsed = |words: &str| parse_alone(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        for words in ["metier run x --json --allow write -- --json", "metier exec --timeout 2s -- true -x"] {
            let alone = parsed(words).unwrap();
            let whole = Cli::try_parse_from(words.split(' ')).unwrap();
            assert_eq!(alone.global.json, whole.global.json);
            assert_eq!(alone.command.skill_name(), whole.command.skill_name());
        }
        for words in ["metier run", "metier run x --alow write", "metier run --help", "metier list", "metier"]
        {
            assert!(parsed(words).is_none(), "{words}");
        }
    }
}
