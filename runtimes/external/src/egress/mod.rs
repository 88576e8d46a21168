//! The network of a script that reaches granted hosts only, served by the host program.
//!
//! The sandbox makes the sockets in a network without a way out (`sandbox/linux/layers/egress.rs`). The resolver answers granted
//! names with addresses of that network; the forwarder accepts connections to them, inspects what the ports of the web begin
//! with, and connects to the host that was meant. Requests to hosts of secrets it carries on itself.

mod client_stream;
mod connection;
mod connection_permit;
mod dns_connection;
mod dns_message;
mod forwarder;
mod host_approvals;
mod http_guard;
mod name_table;
mod network_log;
mod open_sockets;
mod refusal;
mod request_reader;
mod rules;
mod secret_proxy;
mod tls_hello;
mod upstream;

pub(crate) use self::forwarder::Egress;
pub(crate) use self::network_log::NOT_GRANTED;
pub(crate) use self::rules::EgressRules;
