//! The pages of a list: which one comes next, and which items are taken.

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::memory_size;
use metier_core::percent_encoding::decode_lenient;
use metier_core::template::{Reference, ReferenceRoot};
use metier_skill::contract::{ItemCount, NextPage, PagePlace, Paging, RESPONSE};
use serde_json::{Value, json};

use super::response::{ResultBudget, Scope, response_error};

/// The most pages of one call.
const MAX_PAGES: usize = 100;

/// The items of the pages so far.
pub(super) struct PageReader<'c> {
    paging: &'c Paging,
    items: Vec<Value>,
    max_items: usize,
    /// The places of the pages that were read.
    places: Vec<Value>,
    count: usize,
    budget: ResultBudget<'c>,
    omitted: usize,
}

/// Whether another page is read.
pub(super) enum PageState {
    /// The page at this place.
    Next(Value),
    /// None; a later call could go on at this place, or null.
    Ended(Value),
}

impl<'c> PageReader<'c> {
    /// With the place of the first page, if the request names one.
    pub(super) fn new(
        paging: &'c Paging,
        input: &Value,
        budget: ResultBudget<'c>,
    ) -> Result<(Self, Option<Value>)> {
        let given = |reference: &Reference| match reference.root {
            ReferenceRoot::Inputs => reference.resolve_in(input).filter(|value| !value.is_null()),
            _ => None,
        };
        let max_items = match &paging.max_items {
            ItemCount::Fixed(count) => *count,
            ItemCount::Input(reference) => match given(reference) {
                None => Paging::DEFAULT_ITEMS,
                Some(value) => value.as_u64().filter(|count| *count > 0).ok_or_else(|| {
                    input_error(format!("{reference} must be a number from 1 to {}", Paging::MAX_ITEMS))
                })?,
            },
        };
        let first = match paging.from.as_ref().and_then(given) {
            Some(place) if place.is_string() || place.is_u64() => Some(place.clone()),
            Some(_) => return Err(input_error("the place of a page is a text or a number".into())),
            None => match paging.next {
                NextPage::Number(first) => Some(first.into()),
                NextPage::Link | NextPage::Cursor(_) => None,
            },
        };
        let reader = Self {
            paging,
            items: Vec::new(),
            max_items: usize::try_from(max_items.min(Paging::MAX_ITEMS)).unwrap_or(usize::MAX),
            places: first.iter().cloned().collect(),
            count: 0,
            budget,
            omitted: 0,
        };
        Ok((reader, first))
    }

    /// Takes the items of a page. A page is taken as a whole, so that the place behind it is where a later call goes on: one that is too
    /// much is left to that call, and of a first page that is too much by itself the rest is omitted.
    pub(super) fn add(&mut self, scope: &Scope<'_>) -> Result<PageState> {
        let list = match scope.lookup(&self.paging.items) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(items)) => items.as_slice(),
            Some(_) => return Err(response_error(format!("{} is not a list", self.paging.items))),
        };
        self.count += 1;
        let is_first = self.items.is_empty();
        let next = self.next_place(scope, list.is_empty())?;
        let fits = self.max_items - self.items.len();
        let mut budget = self.budget.copy();
        let mut page = Vec::new();
        for item in list.iter().take(fits) {
            match self.item(scope, item, &mut budget) {
                Ok(item) => page.push(item),
                Err(error) if error.kind() == ErrorKind::Output => break,
                Err(error) => return Err(error),
            }
        }
        if page.len() < list.len() && !is_first {
            return Ok(PageState::Ended(self.places.last().cloned().unwrap_or_default()));
        }
        self.omitted = list.len() - page.len();
        self.budget = budget;
        self.items.extend(page);
        if next.is_null() || self.items.len() >= self.max_items || self.omitted > 0 || self.count >= MAX_PAGES
        {
            return Ok(PageState::Ended(next));
        }
        if self.places.contains(&next) {
            return Err(response_error(
                "the service names a page as the next one that was read already".into(),
            ));
        }
        self.places.push(next.clone());
        Ok(PageState::Next(next))
    }

    /// The items of all pages, and how many of the first page were omitted.
    pub(super) fn into_items(self) -> (Value, usize) {
        (self.items.into(), self.omitted)
    }

    fn item(&self, scope: &Scope<'_>, item: &Value, budget: &mut ResultBudget<'_>) -> Result<Value> {
        if let Some(template) = &self.paging.item {
            return scope.with(Paging::ITEM, item).value(template, budget);
        }
        budget.take(memory_size(item))?;
        Ok(item.clone())
    }

    /// The place of the page after this one; null if there is none.
    fn next_place(&self, scope: &Scope<'_>, is_empty: bool) -> Result<Value> {
        let paging = self.paging;
        if paging.more.as_ref().is_some_and(|more| scope.lookup(more) != Some(&Value::Bool(true))) {
            return Ok(Value::Null);
        }
        match (&paging.next, &paging.into) {
            (NextPage::Number(_), _) if is_empty => Ok(Value::Null),
            (NextPage::Number(first), _) => {
                let current = self.places.last().map_or(Some(*first), page_number);
                let current = current.ok_or_else(|| input_error("the place of a page is a number".into()))?;
                Ok(current.saturating_add(1).into())
            }
            (NextPage::Cursor(reference), _) => match scope.lookup(reference) {
                Some(place @ (Value::String(_) | Value::Number(_))) if *place != json!("") => {
                    Ok(place.clone())
                }
                None | Some(Value::Null | Value::Bool(false) | Value::String(_)) => Ok(Value::Null),
                Some(_) => Err(response_error(format!("{reference} is no place of a page"))),
            },
            (NextPage::Link, PagePlace::Query(name)) => {
                let header =
                    scope.variable(RESPONSE).and_then(|response| response["headers"]["link"].as_str());
                let Some(url) = header.and_then(next_link) else { return Ok(Value::Null) };
                let place = url_parameter(url, name);
                place.map(Value::from).ok_or_else(|| {
                    response_error(format!("the address of the next page has no parameter {name}"))
                })
            }
            (NextPage::Link, PagePlace::Body(_)) => Ok(Value::Null),
        }
    }
}

/// A number, also as a model writes it that takes it from a text.
fn page_number(place: &Value) -> Option<u64> {
    place.as_u64().or_else(|| place.as_str()?.parse().ok())
}

/// The address with the relation `next` in a header `Link` (RFC 8288, 3). Sentry names one also where nothing follows, with
/// `results="false"`.
fn next_link(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>')?;
        let url = &rest[start + 1..end];
        let parameters = rest[end + 1..].split('<').next().unwrap_or_default();
        let has = |name: &str, accepts: &dyn Fn(&str) -> bool| {
            parameters.split([';', ',']).filter_map(|part| part.split_once('=')).any(|(key, value)| {
                key.trim().eq_ignore_ascii_case(name) && accepts(value.trim().trim_matches('"'))
            })
        };
        let is_next = |value: &str| value.split_whitespace().any(|word| word.eq_ignore_ascii_case("next"));
        if has("rel", &is_next) {
            return (!has("results", &|value| value == "false")).then_some(url);
        }
        rest = &rest[end + 1..];
    }
    None
}

/// The first value of a parameter in a URL.
fn url_parameter(url: &str, name: &str) -> Option<String> {
    let query = url.split_once('?')?.1.split('#').next().unwrap_or_default();
    let decoded = |text: &str| String::from_utf8(decode_lenient(text.replace('+', " ").as_bytes())).ok();
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (decoded(key)? == name).then(|| decoded(value)).flatten()
    })
}

fn input_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::InvalidInput, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_of_a_link_is_one_parameter() {
        let github = "<https://api.github.com/repositories/1/issues?page=1>; rel=\"prev\", <https://api.github.com/repositories/1/issues?per_page=2&page=3>; rel=\"next\", <https://x.test?page=9>; rel=\"last\"";
        assert_eq!(next_link(github).and_then(|url| url_parameter(url, "page")), Some("3".into()));
        let sentry = |results: &str| {
            format!(
                "<https://sentry.io/x/?&cursor=0:0:1>; rel=\"previous\"; results=\"true\"; cursor=\"0:0:1\", <https://sentry.io/x/?&cursor=0%3A100%3A0>; rel=\"next\"; results=\"{results}\"; cursor=\"0:100:0\""
            )
        };
        let more = sentry("true");
        assert_eq!(next_link(&more).and_then(|url| url_parameter(url, "cursor")), Some("0:100:0".into()));
        assert_eq!(next_link(&sentry("false")), None);
        for hostile in [
            "",
            "<",
            "<>",
            "next",
            "<https://a.test?page=2",
            "<https://a.test>; rel=nextish",
            "><;=\",rel=next",
        ] {
            assert_eq!(next_link(hostile).and_then(|url| url_parameter(url, "page")), None, "{hostile}");
        }
        assert_eq!(
            next_link("<?page=2>; title=\"a\"; rel=\"first NEXT\"")
                .and_then(|url| url_parameter(url, "page")),
            Some("2".into())
        );
        for (url, found) in [
            ("https://a.test?after=a%20b+c&x=1#after=2", Some("a b c")),
            ("https://a.test?a=1", None),
            ("https://a.test?after", None),
            ("https://a.test?after=%ff", None),
        ] {
            assert_eq!(url_parameter(url, "after").as_deref(), found, "{url}");
        }
    }
}
