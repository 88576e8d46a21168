//! Declared HTTP calls: a tool whose call is a request, described as data in the contract of its skill.
//!
//! `request` makes the request of the input, `response` the value of the response, `retry` when it is made again, `paging` which page follows;
//! `executor` does all of it through `ctx.http`, with the
//! permissions, the addresses and the client of every other request.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod executor;
mod paging;
mod request;
mod response;
mod retry;

pub use self::executor::load;
