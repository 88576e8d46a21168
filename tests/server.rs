//! What the server of the Model Context Protocol promises.
#![allow(missing_docs)]

#[cfg(all(unix, feature = "cli", feature = "mcp", feature = "lua-runtime"))]
mod mcp;
mod support;
