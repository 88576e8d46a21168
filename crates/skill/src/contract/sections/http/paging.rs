//! How a declared call reads a list that a service gives in pages.

use metier_core::template::Reference;

use super::result::ResultTemplate;

/// How the pages of a list are read and joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Paging {
    /// Where the place of the next page comes from.
    pub next: NextPage,
    /// Where in the request it is sent.
    pub into: PagePlace,
    /// The input with which a caller goes on from where an earlier call ended.
    pub from: Option<Reference>,
    /// The list in the response.
    pub items: Reference,
    /// What becomes of each item; the item itself by default.
    pub item: Option<ResultTemplate>,
    /// What in the response says that there is another page; by default there is one wherever it has a place.
    pub more: Option<Reference>,
    /// How many items are read before no further page is.
    pub max_items: ItemCount,
}

/// Where the place of the next page comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum NextPage {
    /// The parameter of the same name in the address that the header `Link` calls `next` (RFC 8288).
    Link,
    /// Pages are counted from this number.
    Number(u64),
    /// A value in the response.
    Cursor(Reference),
}

/// Where in a request the place of a page is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// A parameter.
    Query(String),
    /// A field of the body in JSON, below these keys.
    Body(Vec<String>),
}

/// A number of items.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemCount {
    /// It is written in the contract.
    Fixed(u64),
    /// An input names it.
    Input(Reference),
}

impl Paging {
    /// The number of items where a contract names none.
    pub const DEFAULT_ITEMS: u64 = 100;
    /// The largest number of items.
    pub const MAX_ITEMS: u64 = 10_000;
    /// The name by which a result refers to the items of all pages.
    pub const ITEMS: &'static str = "items";
    /// The name by which it refers to the place of the page after them.
    pub const NEXT: &'static str = "next";
    /// The name by which the template of an item refers to it.
    pub const ITEM: &'static str = "item";

    /// The inputs that it reads.
    pub(super) fn sent_references(&self) -> impl Iterator<Item = &Reference> {
        let count = match &self.max_items {
            ItemCount::Input(reference) => Some(reference),
            ItemCount::Fixed(_) => None,
        };
        self.from.iter().chain(count)
    }
}
