//! `http` of a tool: a declared HTTP call. `call` is what the other modules of metier work with, `base_url` and `references`
//! are its parts, and `reader` reads them from the contract.

pub(in crate::contract) mod base_url;
pub(in crate::contract) mod call;
pub(in crate::contract) mod reader;
pub(in crate::contract) mod references;
