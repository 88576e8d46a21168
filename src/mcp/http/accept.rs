//! In which forms a client accepts an answer, by the `Accept` header of its request.

use http::HeaderMap;
use http::header::ACCEPT;

/// What `rmcp` requires of every client, whatever form its answers get afterwards.
pub(super) const BOTH: &str = "application/json, text/event-stream";

/// The forms that one client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptedForms {
    /// One message of JSON.
    pub(super) json: bool,
    /// A stream of events.
    pub(super) events: bool,
    /// Whether the client speaks of streams of events, and does not merely accept everything.
    pub(super) names_events: bool,
}

/// A range of media types that a client accepts, or does not.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    is_accepted: bool,
}

impl AcceptedForms {
    /// Without the header, everything is accepted.
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<MediaRange<'_>> =
            values.flat_map(|value| value.split(',')).filter_map(MediaRange::parse).collect();
        if ranges.is_empty() {
            // A header that is there and cannot be read is no consent.
            let is_absent =
                headers.get_all(ACCEPT).iter().all(|value| value.as_bytes().trim_ascii().is_empty());
            return Self { json: is_absent, events: is_absent, names_events: false };
        }
        let events = is_accepted(&ranges, "text", "event-stream");
        let names = |range: &MediaRange<'_>| {
            range.is_accepted
                && range.exactness("text", "event-stream").is_some_and(|exactness| exactness > 0)
        };
        Self {
            json: is_accepted(&ranges, "application", "json"),
            events,
            names_events: events && ranges.iter().any(names),
        }
    }
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let (kind, subtype) = parts.next()?.trim().split_once('/')?;
        let is_excluded = |parameter: &str| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let quality = value.trim().parse::<f32>();
            name.trim().eq_ignore_ascii_case("q") && quality.is_ok_and(|quality| quality <= 0.0)
        };
        Some(Self { kind, subtype, is_accepted: !parts.any(is_excluded) })
    }

    /// How exactly the range names this type; `None` if it does not have it.
    fn exactness(&self, kind: &str, subtype: &str) -> Option<u8> {
        match (self.kind, self.subtype) {
            (own, exact) if own.eq_ignore_ascii_case(kind) && exact.eq_ignore_ascii_case(subtype) => Some(2),
            (own, "*") if own.eq_ignore_ascii_case(kind) => Some(1),
            ("*", "*") => Some(0),
            _ => None,
        }
    }
}

/// Whether the range that names the type most exactly accepts it.
fn is_accepted(ranges: &[MediaRange<'_>], kind: &str, subtype: &str) -> bool {
    let fitting =
        ranges.iter().filter_map(|range| Some((range.exactness(kind, subtype)?, range.is_accepted)));
    fitting.max().is_some_and(|(_, is_accepted)| is_accepted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    /// Which of JSON, events, and events by name a client with these headers accepts.
    fn accepted(values: &[&str]) -> (bool, bool, bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        let forms = AcceptedForms::new(&headers);
        (forms.json, forms.events, forms.names_events)
    }

    #[test]
    fn the_header_says_which_forms_a_client_accepts() {
        for (values, expected) in [
            (&[][..], (true, true, false)),
            (&[""], (true, true, false)),
            (&["*/*"], (true, true, false)),
            (&["application/*"], (true, false, false)),
            (&["application/json"], (true, false, false)),
            (&["Application/JSON; charset=utf-8"], (true, false, false)),
            (&["text/event-stream"], (false, true, true)),
            (&["text/*"], (false, true, true)),
            (&["application/json, text/event-stream"], (true, true, true)),
            (&["application/json", "text/event-stream"], (true, true, true)),
            (&["application/json;q=0.9,text/event-stream;q=0.1"], (true, true, true)),
            (&["*/*;q=0.1, application/json;q=0"], (false, true, false)),
            (&["*/*, text/event-stream;Q=0.0"], (true, false, false)),
            (&["text/html, */*;q=0.8"], (true, true, false)),
            (&["*/*;q=0"], (false, false, false)),
            (&["text/html"], (false, false, false)),
            (&["image/*, application/xml"], (false, false, false)),
            (&["json"], (false, false, false)),
            (&[",;,/;q"], (false, false, false)),
        ] {
            assert_eq!(accepted(values), expected, "{values:?}");
        }
    }
}
