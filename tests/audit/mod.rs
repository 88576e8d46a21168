//! What the audit log promises: a line for whatever happens, no secret in it, and a chain that shows what was changed.

mod commands;
mod runs;
mod writers;
