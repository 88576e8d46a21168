//! Pages of the lists that clients ask for.

use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

use super::backlog::LIST_BYTES;

/// Items of one page of a list.
pub(super) const PAGE: usize = 500;

/// One page of a list, and the cursor of the next one: at most [`PAGE`] items, and [`LIST_BYTES`] unless one alone has more.
///
/// An item is made only for its page: a client that reads a whole list asks for many pages.
pub(super) fn page<S, T>(
    sources: &[S],
    request: Option<PaginatedRequestParams>,
    item: impl Fn(&S) -> Option<T>,
    size: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor) {
        None => 0,
        Some(cursor) => {
            let start = cursor.parse::<usize>().ok().filter(|start| *start <= sources.len());
            start.ok_or_else(unknown_cursor_error)?
        }
    };
    let (mut page, mut bytes) = (Vec::new(), 0);
    for (position, source) in sources.iter().enumerate().skip(start) {
        let Some(item) = item(source) else { continue };
        bytes += size(&item);
        if page.len() == PAGE || !page.is_empty() && bytes > LIST_BYTES {
            return Ok((page, Some(position.to_string())));
        }
        page.push(item);
    }
    Ok((page, None))
}

pub(super) fn unknown_cursor_error() -> ErrorData {
    ErrorData::invalid_params("the cursor is not one of this list", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_more_items_and_bytes_than_one_answer_may_have() {
        let pages = |items: &[usize]| {
            let items: Vec<String> = items.iter().map(|bytes| "x".repeat(*bytes)).collect();
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let params = PaginatedRequestParams::default().with_cursor(cursor);
                let (page, next) =
                    page(&items, Some(params), |item| Some(item.clone()), String::len).unwrap();
                found.push(page.len());
                match next {
                    Some(next) => cursor = Some(next),
                    None => return found,
                }
            }
        };
        assert_eq!(pages(&[]), [0]);
        assert_eq!(pages(&[1; 1_100]), [500, 500, 100]);
        assert_eq!(pages(&[LIST_BYTES / 3 + 1; 7]), [2, 2, 2, 1]);
        assert_eq!(pages(&[LIST_BYTES * 2, 1, 1, LIST_BYTES * 2, 1]), [1, 2, 1, 1]);
    }

    #[test]
    fn an_item_is_made_only_for_its_page() {
        let (sources, count) = (vec!["x"; 10 * PAGE], std::cell::Cell::new(0));
        let mut cursor = None;
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let make = |source: &&str| {
                count.set(count.get() + 1);
                Some((*source).to_owned())
            };
            cursor = page(&sources, Some(params), make, String::len).unwrap().1;
            if cursor.is_none() {
                break;
            }
        }
        // The first one of the next page is made to see that it does not fit.
        assert_eq!(count.get(), sources.len() + 9);
    }

    #[test]
    fn what_is_not_listed_has_no_place_on_a_page() {
        let sources: Vec<usize> = (0..3 * PAGE).collect();
        let even = |number: &usize| number.is_multiple_of(2).then_some(*number);
        let (first, cursor) = page(&sources, None, even, |_| 1).unwrap();
        assert_eq!((first.len(), first[PAGE - 1]), (PAGE, 2 * PAGE - 2));
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let (second, cursor) = page(&sources, Some(params), even, |_| 1).unwrap();
        assert_eq!((second.first(), second.len(), cursor), (Some(&(2 * PAGE)), PAGE / 2, None));
    }
}
