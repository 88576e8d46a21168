//! `http` of a tool: a declared HTTP call. `call` is what the other modules of metier work with, `base_url`, `paging`, `references` and
//! `result` are its parts, and `reader` reads them from the contract.

pub(in crate::contract) mod base_url;
pub(in crate::contract) mod call;
pub(in crate::contract) mod paging;
pub(in crate::contract) mod reader;
pub(in crate::contract) mod references;
pub(in crate::contract) mod result;
