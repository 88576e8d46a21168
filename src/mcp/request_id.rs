//! The id of a request that cannot be read as a whole, so that whoever sent it gets an answer to it.

use metier_core::strict_json::replace_half_surrogates;

/// Maximum bytes of an id that is found this way, as it is written.
const MAX_ID: usize = 64 << 10;
/// What some programs write before a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The id of a request as its sender wrote it: a text or a number of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentId(String);

/// Looks for the id in a text that begins like an object, part by part, without keeping it.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is something else that was seen")]
pub(super) struct IdFinder {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_ended: bool,
    /// The name before the value that is being read.
    key: Option<String>,
    /// The text or number at the top that is being read, if it can be a name or an id.
    token: Vec<u8>,
    is_no_token: bool,
    /// Whether white space has ended the token.
    has_gap: bool,
    id: Option<SentId>,
    has_two_ids: bool,
    has_method: bool,
    has_answer: bool,
}

/// The id of a request, if it can be read; `None` for an answer, and where the id is not a text or a number, or two are there.
pub(super) fn request_id(text: &[u8]) -> Option<SentId> {
    let mut finder = IdFinder::default();
    finder.read(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
    finder.into_id()
}

impl SentId {
    /// The id as JSON.
    pub(super) fn json(&self) -> &str {
        &self.0
    }

    /// Whether a text with half of a character is the id.
    pub(super) fn has_half_character(&self) -> bool {
        replace_half_surrogates(&self.0).is_some()
    }

    /// The id of a message that is a request.
    pub(super) fn of_request(message: &serde_json::Value) -> Option<Self> {
        message.get("method")?;
        Self::parse(message.get("id")?.to_string().as_bytes())
    }

    fn parse(token: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        let is_id = match token.first()? {
            b'"' => string(text).is_some(),
            _ => serde_json::from_str::<serde_json::Number>(text).is_ok(),
        };
        is_id.then(|| Self(text.to_owned()))
    }
}

/// The content of a text of JSON.
fn string(token: &str) -> Option<String> {
    let whole = replace_half_surrogates(token);
    serde_json::from_str(whole.as_deref().unwrap_or(token)).ok()
}

impl IdFinder {
    /// Reads the next part of the text.
    pub(super) fn read(&mut self, part: &[u8]) {
        for byte in part {
            if self.has_ended {
                return;
            }
            self.read_byte(*byte);
        }
    }

    /// The id, after all of the text was read, or as much as there is of it.
    pub(super) fn into_id(self) -> Option<SentId> {
        let is_answer = self.has_answer && !self.has_method;
        self.id.filter(|_| !is_answer && !self.has_two_ids)
    }

    fn read_byte(&mut self, byte: u8) {
        if self.is_in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => self.has_gap = !self.token.is_empty(),
            b'{' if self.depth == 0 => self.depth = 1,
            _ if self.depth == 0 => self.has_ended = true,
            b'{' | b'[' => {
                self.is_no_token = true;
                self.depth += 1;
            }
            b'}' | b']' if self.depth == 1 => {
                self.end_value();
                self.has_ended = true;
            }
            b'}' | b']' => self.depth -= 1,
            b':' if self.depth == 1 => {
                let token = std::mem::take(&mut self.token);
                self.key = std::str::from_utf8(&token).ok().and_then(string);
                (self.is_no_token, self.has_gap) = (false, false);
            }
            b',' if self.depth == 1 => self.end_value(),
            b'"' => {
                self.is_in_string = true;
                self.keep(byte);
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 || self.is_no_token {
            return;
        }
        if self.token.len() == MAX_ID || self.has_gap {
            (self.token, self.is_no_token) = (Vec::new(), true);
        } else {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self) {
        let token = std::mem::take(&mut self.token);
        let is_no_token = std::mem::take(&mut self.is_no_token);
        self.has_gap = false;
        match self.key.take().as_deref() {
            Some("method") => self.has_method = true,
            Some("result" | "error") => self.has_answer = true,
            Some("id") => {
                let id = SentId::parse(&token).filter(|_| !is_no_token);
                self.has_two_ids |= self.id.is_some() && self.id != id;
                self.id = self.id.take().or(id);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        request_id(text.as_bytes()).map(|id| id.json().to_owned())
    }

    #[test]
    fn the_id_is_found_wherever_it_stands_and_however_the_rest_is_broken() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "7"),
            (r#"{"method":"x","params":{"id":1,"a":[{"id":2}]},"jsonrpc":"2.0","id":"last"}"#, r#""last""#),
            (r#"{ "id" : "a\"},b" , "method":"x","params":{"a":"\ud83d"}}"#, r#""a\"},b""#),
            (r#"{"id":7,"method":"x","params":{"a":NaN}}"#, "7"),
            (r#"{"id":7,"method":"x","params":"#, "7"),
            (r#"{"id":7,"method":"x","params":{"a":1,"a":2}}"#, "7"),
            (r#"{"id":18446744073709551616,"method":"x"}"#, "18446744073709551616"),
            (r#"{"id":-1.5e3,"method":"x"}"#, "-1.5e3"),
            (r#"{"\u0069d":7,"method":"x"}"#, "7"),
            (r#"{"id":"cut \ud83d","method":"x"}"#, r#""cut \ud83d""#),
            (r#"{"id":7,"id":7,"method":"x"}"#, "7"),
            (r#"{"id":7}"#, "7"),
            (r#"{"id":7,"method":"x","result":1}"#, "7"),
            ("\u{feff}{\"id\":7,\"method\":\"x\"}", "7"),
        ] {
            assert_eq!(found(text).as_deref(), Some(id), "{text}");
        }
        let deep = format!(r#"{{"params":{}{},"id":7,"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(found(&deep).as_deref(), Some("7"));
        assert_eq!(request_id(b"{\"id\":7,\"method\":\"\xff\"}").unwrap().json(), "7");
    }

    #[test]
    fn what_has_no_id_of_a_request_has_none() {
        for text in [
            "",
            "7",
            "[{\"id\":7}]",
            "GET / HTTP/1.1",
            r#"{"id":7"#,
            r#"{"id":"7"#,
            r#"{"id":null,"method":"x"}"#,
            r#"{"id":{"a":1},"method":"x"}"#,
            r#"{"id":[7],"method":"x"}"#,
            r#"{"id":true,"method":"x"}"#,
            r#"{"id":07,"method":"x"}"#,
            r#"{"id":7 8,"method":"x"}"#,
            r#"{"id":7,"id":8,"method":"x"}"#,
            r#"{"id":7,"result":{"a":1,"a":2}}"#,
            r#"{"error":{"code":1,"code":2},"id":7}"#,
            r#"{"params":{"id":7}}"#,
            r#"{"method":"x","params":"\"id\":7,"}"#,
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        let long = format!(r#"{{"id":"{}","method":"x"}}"#, "x".repeat(MAX_ID));
        assert_eq!(found(&long), None);
    }

    #[test]
    fn a_text_in_parts_has_the_same_id() {
        let text = r#"{"method":"x","params":{"a":"\\\"","id":3},"id":"a\u00e9"}"#.as_bytes();
        for size in 1..text.len() {
            let mut finder = IdFinder::default();
            text.chunks(size).for_each(|part| finder.read(part));
            assert_eq!(finder.into_id().unwrap().json(), r#""a\u00e9""#);
        }
    }
}
