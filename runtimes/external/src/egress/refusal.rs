//! Why a connection to a granted host was ended.

/// Why a connection was ended for what was sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotTls,
    OtherServerName,
    OtherHost,
    Http(&'static str),
    Slow,
    TooMany,
}

impl Refusal {
    pub(super) fn reason(self) -> String {
        let known = match self {
            Self::NotTls => "what was sent to it does not begin a TLS connection",
            Self::OtherServerName => "the TLS connection is meant for another server",
            Self::OtherHost => "a request is meant for another host",
            Self::Http(reason) => return format!("a request is refused: {reason}"),
            Self::Slow => "what must be inspected first did not come within 10 seconds",
            Self::TooMany => "the script has too many connections open",
        };
        known.to_owned()
    }
}
