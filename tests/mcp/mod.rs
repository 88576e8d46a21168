//! What the server of the Model Context Protocol promises, over the standard streams of the command: lines in, lines out.

#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod client;
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod http_client;
#[allow(dead_code, reason = "not every platform has processes in a sandbox")]
mod processes;

mod approvals;
mod audit;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod availability;
mod calls;
mod changes;
mod configs;
mod disclosure;
mod failed_runs;
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod forms;
mod hostile;
mod http;
mod http_callers;
mod http_hostile;
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod http_session_tasks;
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod http_tasks;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod kill;
mod offered_resources;
#[cfg(target_os = "linux")]
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod other_user;
mod plan_journals;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod plan_reviews;
mod plugin;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod previews;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod refusal_questions;
mod results;
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod sampling;
mod sanitizer;
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod session_tasks;
mod skill_tools;
mod skills_extension;
#[cfg(target_os = "linux")]
mod soak;
mod task_subscriptions;
mod tasks;
mod tools;
mod trust;

/// Writes a file of a project that a test holds already.
fn write(project: &crate::support::cli::Project, path: &str, text: &str) {
    std::fs::write(project.path(path), text).unwrap();
}
