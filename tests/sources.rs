//! What holds for the sources themselves: layout, names, circles of imports, and what fuzzers start from.
#![allow(missing_docs)]

mod circles;
mod corpus;
mod layout;
mod names;
