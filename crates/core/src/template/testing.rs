//! Generates every form of references and templates that the grammar allows, for property tests.

use proptest::prelude::*;

use super::{PathSegment, RESERVED_NAMES, Reference, ReferenceRoot, Template, TemplatePiece};

/// Any reference.
pub fn any_reference() -> impl Strategy<Value = Reference> {
    let name = "[a-z_][a-z0-9_]{0,6}(-[a-z0-9]{1,3})?";
    let variable = name.prop_filter("a word of its own", |name| {
        !RESERVED_NAMES.contains(&name.as_str()) && !name.starts_with("step_")
    });
    let root = prop_oneof![
        Just(ReferenceRoot::Inputs),
        any::<String>().prop_map(ReferenceRoot::Step),
        any::<u16>().prop_map(|at| ReferenceRoot::Result(at.into())),
        variable.prop_map(ReferenceRoot::Variable),
    ];
    let segment = prop_oneof![
        name.prop_map(PathSegment::Field),
        any::<String>().prop_map(PathSegment::Field),
        any::<u16>().prop_map(|at| PathSegment::Index(at.into())),
    ];
    (root, prop::collection::vec(segment, 0..6)).prop_map(|(root, path)| Reference { root, path })
}

/// Any template.
pub fn any_template() -> impl Strategy<Value = Template> {
    let text = ".{1,12}".prop_map(TemplatePiece::Text);
    let optional = (text.clone(), any_reference().prop_map(TemplatePiece::Reference))
        .prop_map(|(text, reference)| vec![text, reference]);
    let optional = prop::collection::vec(optional, 1..4).prop_map(TemplatePiece::Optional);
    let pair = (any_reference().prop_map(TemplatePiece::Reference), text.clone());
    prop_oneof![
        any::<String>().prop_map(Template::Literal),
        any_reference().prop_map(Template::Reference),
        prop::collection::vec(optional, 1..4).prop_map(Template::Pieces),
        prop::collection::vec(pair, 1..5).prop_map(|pairs| {
            Template::Pieces(pairs.into_iter().flat_map(|(reference, text)| [reference, text]).collect())
        }),
    ]
}
