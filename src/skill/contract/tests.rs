//! What a contract says, and what is told about one that is wrong.
