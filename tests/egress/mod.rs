//! The network of scripts that reach granted hosts only: real clients against real servers, and attacks.
//!
//! The servers listen on loopback addresses under test names. The lookup of the engine is replaced; a test grants the address of its
//! server as well, because an address that is not the public internet must be granted by itself.

mod attacks;
mod attacks_on_secrets;
mod clients;
mod fixture;
mod go_client;
mod ordinary;
mod questions;
mod secrets;
mod servers;
