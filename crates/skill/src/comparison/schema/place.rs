//! A place in a schema, as a JSON Pointer that is written only where something is reported.

use crate::contract::escape_token;

/// A place below another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    token: &'p str,
}

impl<'p> Place<'p> {
    /// The place with this pointer.
    pub(super) fn root(pointer: &'p str) -> Self {
        Self { parent: None, token: pointer }
    }

    /// The place of that name or number below this one.
    pub(super) fn below<'q>(&'q self, token: &'q str) -> Place<'q> {
        Place { parent: Some(self), token }
    }

    /// Whether nothing is above it.
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// The JSON Pointer.
    pub(super) fn pointer(&self) -> String {
        match self.parent {
            Some(parent) => format!("{}/{}", parent.pointer(), escape_token(self.token)),
            None => self.token.to_owned(),
        }
    }
}
