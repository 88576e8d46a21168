//! `metier mcp`: the skills as tools of the Model Context Protocol.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier::audit::AuditLog;
use metier::error::{ErrorKind, Hint, Result, SkillError};
use metier::mcp::{McpNotice, McpOptions, McpServer};
use metier::policy::{CancelToken, Permission, SandboxMode};
use metier::registry::{Root, Roots, Scope};

use super::config_args::ConfigArgs;
use super::hint::{COMMAND, error_with_option};
use super::interrupt::cancel_on_interrupt;
use super::limit_args::LimitArgs;
use super::mcp_client::McpClient;
use super::mcp_http::HttpArgs;
use super::new::shell_quote;
use super::output;
use super::session::Session;
use super::terminal::escape_line;
use super::tool_filter_args::ToolFilterArgs;

/// The options of `metier mcp`.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct Args {
    /// Print the configuration of a client that starts this server, or with --http of one that reaches it, and serve nothing
    #[arg(long, value_name = "CLIENT", value_parser = McpClient::parser())]
    print_config: Option<McpClient>,
    /// Serve the skills in this folder alone: not those of the project, of the user and of metier
    #[arg(long, value_name = "DIR")]
    skills: Option<PathBuf>,
    /// Grant all skills a permission, as far as they request it, such as write:out (may be repeated)
    #[arg(long, value_name = "PERM")]
    allow: Vec<Permission>,
    /// Number of calls that run at a time
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    max_calls: u16,
    /// Seconds after which a call is answered with a task, if the client supports tasks
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    task_after: u32,
    /// Answer a call with the value of an equal one, where the contract of its skill permits it by `cacheable`, `idempotent` and `cache_ttl`
    #[arg(long)]
    cache_results: bool,
    /// Where the person behind a client cannot be asked: let the call wait for one, who decides with `metier pending`
    #[arg(long)]
    park: bool,
    /// Run calls in a copy of the project: results say what they would change, which is applied when a person agrees
    #[cfg(unix)]
    #[arg(long)]
    preview: bool,
    /// Do not say on standard error what is served, and what of it changes
    #[arg(long)]
    no_notices: bool,
    #[command(flatten)]
    filter: ToolFilterArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if let Some(client) = args.print_config {
        session.exit_watchdog().finish();
        print_config(client, args, session)?;
        return Ok(0);
    }
    let configuration = args.limits.configure(session.configuration())?;
    let secrets = args.config.secrets()?;
    let token = CancelToken::new();
    let mut options = McpOptions::new()
        .max_calls(args.max_calls.into())
        .task_after(Duration::from_secs(args.task_after.into()))
        .keep_plan_journals()
        .tool_filter(args.filter.filter()?)
        .cancel(token.clone())
        .error_help(if args.skills.is_some() { error_of_plugin } else { error_for_model })
        .ask_clients(!configuration.no_input());
    if args.park {
        options = options.park();
    }
    #[cfg(unix)]
    if args.preview {
        options = options.preview();
    }
    if !args.no_notices {
        options = options.on_notice(print_notice);
    }
    // An option is stronger than what the configuration says about a skill.
    if let Some(mode) = args.limits.sandbox_mode() {
        options = options.sandbox_mode(mode);
    }
    for permission in args.allow.iter().cloned().chain(secrets.grants()?) {
        options = options.grant(permission);
    }
    // Without a sandbox there is none for the compiler of WebAssembly modules either.
    let is_unsandboxed = configuration.sandbox_mode() == SandboxMode::Off;
    let mut builder = session.builder(configuration)?;
    if let Some(folder) = &args.skills {
        builder = builder.roots(roots_in(folder)?);
    }
    if args.http.address().is_some() {
        builder = builder.audit(AuditLog::user()?);
    }
    let engine = builder
        .compile_in_process(is_unsandboxed)
        .cache_results(args.cache_results)
        .config(args.config.settings()?)
        .secrets(secrets)
        .tls_broker(args.config.opens_tls())
        .build()?;
    cancel_on_interrupt(token);
    let server = McpServer::new(engine.clone(), options);
    session.exit_watchdog().finish();
    output::print_problems(&engine.registry());
    for notice in server.notices() {
        output::print_warning(notice);
    }
    match args.http.address() {
        Some(address) => server.serve_http(args.http.listen(address)?)?,
        None => server.serve_stdio()?,
    }
    Ok(0)
}

/// Prints what the server says on one line, with the command that helps.
fn print_notice(notice: &McpNotice) {
    let command = match (&notice.hint, &notice.skill) {
        (Some(Hint::Trust(_)), Some(skill)) => format!(" (`{COMMAND} trust {}`)", command_word(skill)),
        (Some(Hint::Trust(_)), None) => format!(" (`{COMMAND} trust`)"),
        _ => String::new(),
    };
    output::eprint(&escape_line(&format!("{}{command}", notice.message)));
}

/// Prints what belongs into the file of a client, and on standard error what a person does with it.
fn print_config(client: McpClient, args: &Args, session: &Session) -> Result<()> {
    let Some(address) = args.http.address() else {
        output::print(&client.config(&server_arguments(session)?))?;
        output::eprint(&format!("for {}", client.place()));
        return Ok(());
    };
    output::print(&client.http_config(&args.http.client_url(address)?, args.http.needs_token()))?;
    output::eprint(&format!("for {}", client.place()));
    let others = other_options(std::env::args_os().skip(1))?;
    let others: Vec<String> = others.iter().map(|word| shell_quote(Path::new(word))).collect();
    let command = format!("{COMMAND} mcp --http {address} {}", others.join(" "));
    output::eprint(&format!("the client starts no server: run `{}` in the project", command.trim_end()));
    if args.http.needs_token() {
        output::eprint(&format!("{}; make one: openssl rand -hex 32", client.token_help()));
    }
    Ok(())
}

/// The skills of one folder that the caller named.
fn roots_in(folder: &Path) -> Result<Roots> {
    if folder.is_dir() {
        return Ok(Roots::empty().with(Root::new(Scope::Explicit, "skills", folder)));
    }
    let sentence = format!("{} is not a folder", folder.display());
    Err(SkillError::new(ErrorKind::Usage, sentence).with_help("name a folder with skills with --skills"))
}

/// The error with the command by which a person allows what was missing: the options of this one are out of reach for a model.
fn error_for_model(skill: &str, error: SkillError) -> SkillError {
    let name = command_word(skill);
    let allow = |permission: &str| format!("`{COMMAND} allow {name} {}`", command_word(permission));
    if let (ErrorKind::Untrusted, Some(Hint::Trust(_))) = (error.kind(), error.hint()) {
        return error
            .with_help(format!("a person can look at it and trust it again: `{COMMAND} trust {name}`"));
    }
    let Some(Hint::Grant(permission)) = error.hint() else { return error_with_option(error) };
    if let Some(variable) = unpassed_variable(&error, permission) {
        // A server passes no variables of its own on, but secrets.
        let key = command_word(&format!("skills.{skill}.secrets.{variable}"));
        let set = format!("`{COMMAND} config set {key} '{{env = \"{variable}\"}}'`");
        let secret = format!("secret:{variable}");
        let way = format!("a person can give it as a secret: {set} and {}", allow(&secret));
        return error_with_way(error.clone(), &way, |listing| listing.replace(permission, &secret));
    }
    let way = format!("a person can allow it: {}", allow(permission));
    error_with_way(error.clone(), &way, str::to_owned)
}

/// A word of a command that a person types, in quotes if a shell would change it.
fn command_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    shell_quote(Path::new(text))
}

/// The variable that an external script was not given, where the error is about one.
fn unpassed_variable<'p>(error: &SkillError, permission: &'p str) -> Option<&'p str> {
    let is_of_script = error.help().is_some_and(|help| help.contains("environment variable"));
    permission.strip_prefix("env:").filter(|_| is_of_script)
}

/// The error with this help in place of its grant. Where the skill does not list the permission, no grant is enough: it says so first.
fn error_with_way(error: SkillError, way: &str, listing: impl Fn(&str) -> String) -> SkillError {
    let Some(Hint::Grant(permission)) = error.hint() else { return error };
    let listed = error.help().and_then(|help| {
        let end = help.rfind(&format!(" and grant {permission}"))?;
        let start = help[..end].rfind(&format!("list {permission} under "))?;
        Some(listing(&help[start..end]))
    });
    let help = match listed {
        Some(listed) => format!("{listed} and trust the skill again (`{COMMAND} trust`); then {way}"),
        None => way.to_owned(),
    };
    error.with_help(help)
}

/// The same for skills of one folder, which `metier allow` does not find.
fn error_of_plugin(_: &str, error: SkillError) -> SkillError {
    match error.hint() {
        Some(Hint::Grant(permission)) => {
            let way =
                format!("a person can allow it by `--allow {permission}` among the arguments of this server");
            error_with_way(error.clone(), &way, str::to_owned)
        }
        _ => error_with_option(error),
    }
}

/// The arguments with which a client starts this server for the same project.
fn server_arguments(session: &Session) -> Result<Vec<String>> {
    let project = std::path::absolute(session.project()?)
        .map_err(|source| SkillError::io("failed to find the project", source))?;
    let mut arguments = vec!["mcp".to_owned(), "--project".to_owned(), project.display().to_string()];
    if session.product() != "metier" {
        arguments.extend(["--product".to_owned(), session.product().to_owned()]);
    }
    arguments.extend(other_options(std::env::args_os().skip(1))?);
    Ok(arguments)
}

/// The options of this command line that the server is started with, too. Paths are absolute.
fn other_options(given: impl Iterator<Item = OsString>) -> Result<Vec<String>> {
    // The client is told of these otherwise, or they are about what is printed.
    const LEFT_OUT: [&str; 4] = ["--print-config", "--project", "--product", "--http"];
    const PATHS: [&str; 2] = ["--skills", "--token-file"];
    let mut options = Vec::new();
    let mut is_before_command = true;
    let mut given = given;
    while let Some(word) = given.next() {
        let word = word.into_string().map_err(|word| {
            let sentence = format!("{} cannot stand in the file of a client", word.display());
            SkillError::new(ErrorKind::Usage, sentence).with_help("use names in UTF-8")
        })?;
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if LEFT_OUT.contains(&name) {
            if value.is_none() {
                given.next();
            }
        } else if PATHS.contains(&name) {
            let path = value.map(OsString::from).or_else(|| given.next()).unwrap_or_default();
            let path = std::path::absolute(path).map_err(|source| {
                SkillError::io(format_args!("failed to find the path of {name}"), source)
            })?;
            options.extend([name.to_owned(), path.display().to_string()]);
        } else if is_before_command && word == "mcp" {
            is_before_command = false;
        } else if word != "--json" {
            options.push(word);
        }
    }
    Ok(options)
}
