//! When a request is made again: after answers that say that a later one may succeed, and after connections that broke.

use std::error::Error;
use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use metier_core::error::{Result, SkillError};
use metier_core::host::SkillContext;
use metier_skill::contract::CallDefinition;
use serde_json::{Map, Value};

/// How often a request is made at most.
const MAX_TRIES: u32 = 4;

/// The pause after the first try, where the server names none; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The header by which a server recognises a request that it has seen.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The tries of one call.
pub(super) struct Tries {
    is_repeatable: bool,
    count: u32,
    /// When the run has no time left.
    until: Instant,
}

/// What becomes of an answer or a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextTry {
    /// It counts.
    None,
    /// Another request is made after this time.
    After(Duration),
    /// Another one could be made after this time, which is longer than the run has.
    TooLate(Duration),
}

impl Tries {
    /// For a call with these headers. One that changes something is repeated only if a key tells the server that it is the same.
    pub(super) fn new(call: &CallDefinition, headers: &Value, ctx: &SkillContext) -> Self {
        let has_key = headers
            .as_object()
            .is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY)));
        Self {
            is_repeatable: call.is_safe() || has_key,
            count: 0,
            until: Instant::now() + ctx.limits().timeout,
        }
    }

    /// After this response.
    pub(super) fn after_response(&mut self, response: &Value) -> NextTry {
        let headers = response["headers"].as_object();
        let pause = headers.and_then(|headers| named_pause(headers, SystemTime::now()));
        match response["status"].as_u64() {
            Some(429 | 502 | 503 | 504) => self.next(pause),
            // Limits of GitHub, which are no refusal for good.
            Some(403) if pause.is_some() => self.next(pause),
            _ => NextTry::None,
        }
    }

    /// After this failure.
    pub(super) fn after_error(&mut self, error: &SkillError) -> NextTry {
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let broken = source.is_some_and(|source| {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            matches!(source.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        });
        if broken { self.next(None) } else { NextTry::None }
    }

    fn next(&mut self, named: Option<Duration>) -> NextTry {
        self.count += 1;
        if !self.is_repeatable || self.count >= MAX_TRIES {
            return named.map_or(NextTry::None, NextTry::TooLate);
        }
        let pause = named.unwrap_or(FIRST_PAUSE * 2_u32.pow(self.count - 1));
        if Instant::now().checked_add(pause).is_none_or(|then| then >= self.until) {
            return NextTry::TooLate(pause);
        }
        NextTry::After(pause)
    }
}

/// The pause that an answer asks for: `Retry-After` in seconds or as a date, and what GitHub says of a limit that is used up.
fn named_pause(headers: &Map<String, Value>, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.as_str().map(str::trim);
    let until = |time: SystemTime| time.duration_since(now).unwrap_or_default();
    if let Some(after) = header("retry-after") {
        let seconds = after.parse().ok().map(Duration::from_secs);
        return seconds.or_else(|| httpdate::parse_http_date(after).ok().map(until));
    }
    let reset = header("x-ratelimit-reset").filter(|_| header("x-ratelimit-remaining") == Some("0"))?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(reset.parse().ok()?)).map(until)
}

/// Waits, unless the run is stopped before.
pub(super) fn wait(ctx: &SkillContext, pause: Duration) -> Result<()> {
    let (sender, stopped) = mpsc::channel();
    let _guard = ctx.cancel().on_stop(move |_| {
        sender.send(()).ok();
    });
    stopped.recv_timeout(pause).ok();
    ctx.cancel().check()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tries(is_repeatable: bool, timeout: Duration) -> Tries {
        Tries { is_repeatable, count: 0, until: Instant::now() + timeout }
    }

    fn response(status: u16, headers: &Value) -> Value {
        json!({"status": status, "headers": headers})
    }

    #[test]
    fn only_what_may_succeed_later_is_tried_again_and_not_for_ever() {
        let hour = Duration::from_hours(1);
        for status in [429, 502, 503, 504] {
            let mut tries = tries(true, hour);
            let pauses: Vec<NextTry> =
                (0..4).map(|_| tries.after_response(&response(status, &json!({})))).collect();
            let millis = |count| NextTry::After(Duration::from_millis(count));
            assert_eq!(pauses, [millis(500), millis(1_000), millis(2_000), NextTry::None], "{status}");
        }
        for status in [200, 301, 400, 401, 403, 404, 500, 501] {
            assert_eq!(
                tries(true, hour).after_response(&response(status, &json!({}))),
                NextTry::None,
                "{status}"
            );
        }
        assert_eq!(tries(false, hour).after_response(&response(503, &json!({}))), NextTry::None);
    }

    #[test]
    fn a_pause_is_what_the_server_says_if_the_run_has_the_time() {
        let (hour, seconds) = (Duration::from_hours(1), Duration::from_secs);
        let named = response(429, &json!({"retry-after": "7"}));
        assert_eq!(tries(true, hour).after_response(&named), NextTry::After(seconds(7)));
        assert_eq!(tries(true, seconds(5)).after_response(&named), NextTry::TooLate(seconds(7)));
        assert_eq!(tries(false, hour).after_response(&named), NextTry::TooLate(seconds(7)));
        let limited = json!({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1000"});
        let limited = limited.as_object().unwrap();
        let at = |second| SystemTime::UNIX_EPOCH + seconds(second);
        assert_eq!(named_pause(limited, at(990)), Some(seconds(10)));
        assert_eq!(named_pause(limited, at(2_000)), Some(Duration::ZERO));
        let dated = json!({"retry-after": "Thu, 01 Jan 1970 00:00:40 GMT"});
        assert_eq!(named_pause(dated.as_object().unwrap(), at(10)), Some(seconds(30)));
        for headers in [
            json!({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "1000"}),
            json!({"retry-after": "soon"}),
            json!({"retry-after": "-1"}),
            json!({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999999999999"}),
        ] {
            assert_eq!(named_pause(headers.as_object().unwrap(), at(0)), None, "{headers}");
        }
        let huge = response(429, &json!({"retry-after": u64::MAX.to_string()}));
        assert!(matches!(tries(true, hour).after_response(&huge), NextTry::TooLate(_)));
    }

    #[test]
    fn a_connection_that_broke_is_made_again_and_a_refused_one_is_not() {
        let hour = Duration::from_hours(1);
        for (kind, is_repeated) in [
            (io::ErrorKind::ConnectionReset, true),
            (io::ErrorKind::UnexpectedEof, true),
            (io::ErrorKind::ConnectionRefused, false),
            (io::ErrorKind::InvalidData, false),
        ] {
            let next = tries(true, hour).after_error(&SkillError::io("failed", kind.into()));
            assert_eq!(next != NextTry::None, is_repeated, "{kind:?}");
        }
    }
}
