//! The command line: one file a command. Data goes to standard output, talk to standard error.

mod api;
mod catalog;
mod completions;
mod config_args;
mod ctx;
mod diagnostics;
mod doctor;
mod exit_watchdog;
mod explain;
mod input;
mod limit_args;
mod list;
mod new;
mod output;
mod progress;
mod run;
mod session;
mod show;
mod table;
mod templates;
mod terminal;
mod test;
mod units;
mod usage_error;
mod validate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use metier::engine::Outcome;
use metier::error::{Result, SkillError};

use self::exit_watchdog::ExitWatchdog;
use session::Session;

/// Runs agent skills: folders with a SKILL.md and scripts, scoped to the project.
#[derive(Parser)]
#[command(name = "metier", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Options every command takes.
#[derive(clap::Args, Clone)]
struct GlobalArgs {
    /// Answer in JSON, on standard output
    #[arg(long, global = true)]
    json: bool,
    /// The project's folder [default: the nearest ancestor with .<product> or .git]
    #[arg(long, global = true, value_name = "DIR")]
    project: Option<PathBuf>,
    /// The product whose folders are read: `.NAME/skills` in the project
    #[arg(long, global = true, value_name = "NAME", default_value = "metier", value_parser = parse_product)]
    product: String,
    /// Also read .claude/skills
    #[arg(long, global = true)]
    compat: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a skill and print its value
    Run(Box<run::Args>),
    /// List the skills, shadowed ones included
    List,
    /// Show a skill: what it says, asks for and can do
    Show(show::Args),
    /// Check skills against the specification
    Validate(validate::Args),
    /// Run the cases of skills, each in a fresh project
    Test(test::Args),
    /// Make a new skill that runs
    New(new::Args),
    /// List the functions a script may call on ctx
    Api(api::Args),
    /// Call a function of the host API from a shell script
    Ctx(ctx::Args),
    /// Print names and descriptions for a model to choose from
    Catalog(catalog::Args),
    /// Say what this machine and these skills offer, and what is amiss
    Doctor,
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Parses the arguments, runs the command, and says with which code to exit.
pub fn main() -> ExitCode {
    let answered = match Cli::try_parse() {
        Ok(cli) => {
            let about = cli.command.skill_name().filter(|_| cli.global.json).map(str::to_owned);
            let session = Session::new(cli.global.clone(), exit_watchdog(about.clone()));
            let answered = dispatch(cli.command, &session);
            session.exit_watchdog().finish();
            answered.or_else(|error| match about {
                Some(skill) => print_failure(skill, error),
                None => Err(error),
            })
        }
        Err(error) => self::usage_error::print(&error),
    };
    match answered {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::print_error(&error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// A failure as a program reads it: an outcome, whichever command it was.
fn print_failure(skill: String, error: SkillError) -> Result<u8> {
    let code = error.kind().exit_code();
    output::print_json(&Outcome::failed(skill, error)).map(|()| code)
}

impl Command {
    /// The skill a failure is about, empty where it is about none; nothing where answers are no JSON.
    fn skill_name(&self) -> Option<&str> {
        match self {
            Self::Run(args) => Some(args.name()),
            Self::Show(args) => Some(args.name()),
            Self::Test(args) => Some(args.name()),
            Self::New(args) => Some(args.name()),
            Self::List | Self::Validate(_) | Self::Api(_) | Self::Catalog(_) | Self::Doctor => Some(""),
            Self::Ctx(_) | Self::Completions(_) => None,
        }
    }
}

/// What ends a command that does not end, in the form of its other failures.
fn exit_watchdog(about: Option<String>) -> ExitWatchdog {
    ExitWatchdog::new(move |error| match about {
        // When nobody reads it there is nobody left to tell.
        Some(skill) => drop(print_failure(skill, error.clone())),
        None => output::print_error(error),
    })
}

fn dispatch(command: Command, session: &Session) -> Result<u8> {
    if !matches!(command, Command::Run(_) | Command::Test(_) | Command::Ctx(_) | Command::New(_)) {
        session.exit_watchdog().start_loading_timeout();
    }
    match command {
        Command::Run(args) => run::run(&args, session),
        Command::List => list::run(session),
        Command::Show(args) => show::run(&args, session),
        Command::Validate(args) => validate::run(&args, session),
        Command::Test(args) => test::run(&args, session),
        Command::New(args) => new::run(&args, session),
        Command::Api(args) => api::run(&args, session),
        Command::Ctx(args) => ctx::run(&args),
        Command::Catalog(args) => catalog::run(&args, session),
        Command::Doctor => doctor::run(session),
        Command::Completions(args) => completions::run(&args),
    }
}

/// A product's name is part of folder names: `.NAME/skills`.
fn parse_product(name: &str) -> std::result::Result<String, &'static str> {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    if is_plain && !name.is_empty() {
        Ok(name.to_owned())
    } else {
        Err("a product's name has letters, digits, `-` and `_`")
    }
}
