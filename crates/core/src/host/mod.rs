//! The host API: the functions that a script may call on `ctx`, and the files, providers and network they use.

mod access_listener;
mod address_password;
mod args;
mod async_providers;
mod call;
mod call_access;
pub mod canonical_folder;
pub mod catch_panic;
mod context;
#[cfg(unix)]
mod dir_cleaner;
#[cfg(unix)]
mod doubtful_permission;
mod duration;
mod environment;
mod event;
mod explain;
mod extensions;
pub mod file_stat;
pub mod files;
mod fixtures;
mod function;
mod functions;
pub mod git;
mod host_lookup;
mod host_paths;
mod http;
mod io_error;
mod leftovers;
mod log;
mod memory;
pub mod metier_dirs;
pub mod outcome;
#[cfg(unix)]
mod output_lines;
pub mod outward_link;
#[cfg(unix)]
mod provider_thread;
mod read_record;
mod redaction;
mod refused_access;
mod report;
mod run_events;
mod run_facts;
mod run_id;
mod secret_broker;
mod secret_origin;
mod steps;
mod streams;
#[cfg_attr(not(unix), path = "temp_dirs_unsupported.rs")]
pub mod temp_dirs;
mod tool_providers;
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub mod untrusted;
#[cfg(feature = "user-cache")]
mod user_cache;
mod value_size;
mod variables;
#[cfg(unix)]
#[cfg_attr(not(target_os = "linux"), path = "visibility_lock_unsupported.rs")]
pub mod visibility_lock;

pub use self::async_providers::{
    Async, AsyncApprover, AsyncConfigProvider, AsyncFileProvider, AsyncHttpClient, AsyncSamplingProvider,
    AsyncSecretProvider, AsyncStoreProvider, AsyncToolProvider,
};
pub use self::call::reads_the_same;
pub use self::call_access::{CallAccess, CallRecorder};
#[cfg(unix)]
pub use self::canonical_folder::open_without_links;
pub use self::catch_panic::catch_panic;
#[cfg(unix)]
pub use self::dir_cleaner::{DirCleaner, OPEN_BY_NAME, open_unlocked};
#[cfg(unix)]
#[cfg(unix)]
pub use self::doubtful_permission::opens_more;
pub use self::environment::{
    config_variable, has_plain_variable, has_variable, process_variable_names, process_variables,
    variable_access,
};
pub use self::event::{
    Event, EventKind, Observer, OutputStream, PlanStep, events_dropped, plan_step, run_started, run_stopping,
    step_finished, step_started,
};
pub use self::explain::{
    AccessReason, InterpreterReport, LaunchPreview, SandboxPath, SandboxSupport, ScriptGuesses, TreeKill,
    interpreter_report, sandbox_path,
};
pub use self::extensions::Extensions;
#[cfg_attr(not(unix), allow(unused_imports, reason = "no process is kept there"))]
pub use self::file_stat::{FolderId, file_id};
pub use self::fixtures::Fixtures;
pub use self::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
pub use self::functions::{
    ConfigState, WITHHELD, WITHHELD_HELP, config_from_environment, config_help, config_hint, config_states,
    enter_secrets, function, functions, has_secret_instead_of, misplaced_text, require_setting_variable,
    run_secrets, secret_from_environment, skill_settings,
};
pub use self::host_lookup::HostLookup;
pub use self::host_paths::HostPaths;
pub use self::leftovers::{Leftover, LeftoverPath, LeftoverPlace, MAX_LEFTOVERS, leftover};
pub use self::log::{LogLevel, LogLine, Progress};
pub use self::output_lines::ProcessOutput;
pub use self::run_events::{PanicSafeObserver, RunEvents};
pub use self::run_facts::{InheritedTrust, NewFiles, OutcomeFilter, ProjectDelta, RunOwner, WithheldValues};
pub use self::run_id::{RunId, RunThreadGuard, next_run_id, works_for_run};
pub use self::secret_broker::{
    HostSecrets, RunSecrets, SecretBroker, StreamConcealment, StreamReplacement, is_dropped_header,
    is_placeholder_host, random_stand_in, unsearchable_answer,
};
pub use self::secret_origin::SecretOrigin;
pub use self::tool_providers::ClosureTools;
#[cfg(feature = "user-cache")]
pub use self::user_cache::MacKey;
#[cfg(all(feature = "user-cache", unix))]
pub use self::user_cache::{CacheLimits, UserCache};
pub use args::Args;
pub use context::{
    AccessListener, ApprovalNeed, ApprovalRequest, Approver, AuthorizationRequest, Authorizer, CallRecords,
    ChangeReviewer, ConfigProvider, ConsentReason, ContextBuilder, FileProvider, HostApiClient, HttpClient,
    HttpRequest, HttpResponse, Providers, RunContext, RunContextBuilder, RunFacts, RunFiles, RunMessages,
    RunReporting, SampleMessage, SampleRequest, SampleResponse, SampleRole, SampleUsage, SamplingProvider,
    SecretProvider, SharedFacts, SkillContext, SkillProvider, StopReason, StoreProvider, Tool, ToolProvider,
    ask_about_host, ask_before_start, ask_to_apply, ask_to_call, ask_to_repeat, ask_to_start, authorize,
    have_same_values, may_ask_about_host, override_providers,
};
pub use file_stat::open_regular;
pub use files::{ChangeDecision, FileChange, FileChangeKind, Files};
#[cfg(feature = "http")]
pub use http::WebClient;
#[cfg(unix)]
pub use http::non_public_kind;
pub use http::{
    DEFAULT_CLIENT as DEFAULT_HTTP_CLIENT, OpenedConnection, RootCertificates, RunAuthority,
    SecretHostOptions, SecureHost, download,
};
pub use memory::{
    AddressSpaceReservation, HostMemory, HostMemoryReservation, address_space, check_memory_reserve,
    process_host_memory,
};
#[cfg(unix)]
pub use metier_sandbox::{FileId, begins_with};
pub use read_record::ReadRecord;
#[cfg(unix)]
pub use redaction::RedactedStream;
pub use redaction::{EncodedSecrets, Redacted, Redaction};
pub use refused_access::{
    RefusedAccess, RefusedTarget, refused_texts, refused_with_permission, refused_with_reason,
};
pub use report::{
    EnforcedLevel, MisplacedSecret, NetworkReport, ProcessReport, ProcessUsage, RefusedConnection,
    SandboxReport, error_output, misplaced_secret, refused_connection, weaker_report,
};
pub use steps::{StepReport, StepStatus, skipped_step};
#[cfg(unix)]
pub use streams::OutputSink;
pub use streams::{OutputSinks, StdinSource};
pub use tool_providers::{LayeredTools, ToolLayer};
pub use value_size::memory_size;
#[cfg(unix)]
pub use value_size::{check_value_memory, memory_size_of_json, to_json};
pub use variables::Environment;
