//! The host API in scripts: lines of JSON over a descriptor that a process inherits, and clients that speak them.
//!
//! A request is `{"id": 1, "call": "read_file", "args": ["a.txt"]}`, its answer `{"id": 1, "ok": ".."}` or
//! `{"id": 1, "error": {"kind", "message", "help"}}`, a line each. Beside the functions of the host there are `input` and
//! `api`, which answer with the run's input and with the table of functions, and `fail`, by which a process says that it ends
//! for the last error it was answered.
//!
//! Processes of one tree share the descriptor, and whoever reads an answer there has it. So a process may send, with a NUL
//! byte, one end of a socket pair: a line of its own. Calls are answered one at a time, whatever line they come by.

pub(in crate::runtimes::external::host_api) mod clients;
pub(in crate::runtimes::external::host_api) mod connection;
pub(in crate::runtimes::external::host_api) mod connections;
pub(in crate::runtimes::external::host_api) mod ctx_command;
pub(in crate::runtimes::external::host_api) mod request;
pub(in crate::runtimes::external::host_api) mod request_handler;

pub(in super::super) use self::clients::ApiClients;
pub(super) use self::clients::imports_client;
pub(super) use self::connections::Connections;
pub(in super::super) use self::ctx_command::client_main;
pub(super) use self::request_handler::RequestHandler;
