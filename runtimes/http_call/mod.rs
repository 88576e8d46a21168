//! Declared HTTP calls: a tool whose call is a request, described as data in the contract of its skill.
//!
//! `request` makes the request of the input, `response` the value of the response, `executor` does both through `ctx.http`, with the
//! permissions, the addresses and the client of every other request.

mod executor;
mod request;
mod response;

pub(super) use self::executor::load;
