//! Scripts that were not written for metier, run by their interpreter and by `metier run`: the exit code, both streams and the files
//! that they leave are the same, with the grants that a person gives.
//!
//! Each case is one piece of work in Python, in the shell and in Node. It runs at every level of the sandbox.

mod difference;
mod environment;
mod files;
mod hints;
mod hints_grants;
mod hints_home;
mod hints_network;
mod hints_variables;
mod layouts;
mod network;
mod packages;
mod programs;
mod refusals;
mod repositories;
mod streams;
mod work;
