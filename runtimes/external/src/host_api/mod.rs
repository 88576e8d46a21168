//! The host API in scripts: lines of JSON over an inherited socket, and the clients that use it.
//!
//! A request is `{"id": 1, "call": "read_file", "args": ["a.txt"]}`. Its answer is `{"id": 1, "ok": ".."}` or
//! `{"id": 1, "error": {"kind", "message", "help"}}`. Besides the functions of the host there are `input`, which returns the
//! input of the run, `api`, which returns the table of functions, and `fail`, by which a process reports that it exits because of
//! the last error that it received.
//!
//! The processes of one tree share the socket, and an answer there goes to whichever of them reads first. A process can therefore
//! send one end of a socket pair over it, with a NUL byte, and get a connection of its own. The host answers one call at a time
//! over all connections.

mod clients;
mod connection;
mod connections;
mod ctx_command;
mod request;
mod request_handler;

pub(crate) use self::clients::{ApiClients, imports_client};
pub(crate) use self::connections::Connections;
pub use self::ctx_command::client_main;
pub(crate) use self::request_handler::RequestHandler;
