//! One difference between two schemas: its place, and what it means for the values that they accept.

use crate::contract::escape_token;

/// What a difference means for the values that a schema accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The same values.
    None,
    /// All that were accepted, and more.
    Wider,
    /// Less than were accepted.
    Narrower,
    /// Less in one place, and more in another.
    Both,
    /// It cannot be told.
    Unknown,
}

/// What is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DifferenceKind {
    /// What is accepted.
    Values,
    /// A field is declared that was not.
    FieldAdded {
        is_required: bool,
        /// Whether the old schema says itself what other fields may be.
        was_open: bool,
    },
    /// A field is no longer declared.
    FieldRemoved,
    /// The value where none is given.
    Default,
    /// What people read.
    Note,
}

/// One difference between two schemas.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    /// Its JSON Pointer.
    pub(super) path: String,
    pub(super) kind: DifferenceKind,
    pub(super) effect: Effect,
    pub(super) message: String,
}

/// What several differences together mean for the values that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TotalEffect {
    /// Whether all that was accepted still is, for certain.
    pub(super) keeps_all: bool,
    /// Whether nothing more is accepted than was, for certain.
    pub(super) adds_none: bool,
}

impl TotalEffect {
    pub(super) fn from_differences(differences: &[Difference]) -> Self {
        let has = |effects: &[Effect]| differences.iter().any(|found| effects.contains(&found.effect));
        Self {
            keeps_all: !has(&[Effect::Narrower, Effect::Both, Effect::Unknown]),
            adds_none: !has(&[Effect::Wider, Effect::Both, Effect::Unknown]),
        }
    }

    /// Whether both schemas accept the same values.
    pub(super) fn is_none(self) -> bool {
        self.keeps_all && self.adds_none
    }

    /// The same as one effect.
    pub(super) fn effect(self) -> Effect {
        match (self.keeps_all, self.adds_none) {
            (true, true) => Effect::None,
            (true, false) => Effect::Wider,
            (false, true) => Effect::Narrower,
            (false, false) => Effect::Unknown,
        }
    }
}

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
