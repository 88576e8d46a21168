//! What the engine promises to whoever embeds it.

mod approver;
mod async_providers;
mod async_runs;
mod attacks;
mod availability;
mod bounded;
mod configuration;
mod contract;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod deltas;
mod edited;
mod embedded_skills;
mod events;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod exactness;
mod folders;
mod gates;
mod identity;
mod integers;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod interpreters;
mod leaks;
mod locations;
mod nearness;
mod nested;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod new_files;
mod pending;
mod permissions;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod plan_reviews;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod previews;
mod providers;
mod redaction;
mod result_cache;
mod runtimes;
mod sampling;
mod sanitizer;
mod script_selection;
mod settings;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod streams;
mod tools;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod undoable_runs;
