//! A client that answers as the real one would, or as a case declares, and records the requests.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{HttpClient, HttpRequest, HttpResponse, SkillContext};

/// The maximum number of recorded requests; further ones are refused.
const MAX_REQUESTS: usize = 1_000;

/// The requests of one run, in order: `{method, url, headers, json}` each, with `body` in place of `json` for a body that is none.
#[derive(Clone, Default)]
pub(super) struct RecordedRequests(Arc<Mutex<Vec<Value>>>);

impl RecordedRequests {
    /// The same client, with its requests recorded.
    pub(super) fn wrap(&self, client: Arc<dyn HttpClient>) -> Arc<dyn HttpClient> {
        Arc::new(RecordingClient { client, requests: self.clone() })
    }

    /// Takes the requests so far; the list is empty afterwards.
    pub(super) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, request: &HttpRequest) -> Result<()> {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == MAX_REQUESTS {
            let sentence = format!("a case takes at most {MAX_REQUESTS} requests");
            return Err(SkillError::new(ErrorKind::Unavailable, sentence));
        }
        let headers: Map<String, Value> = request
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone().into()))
            .collect();
        let mut record = json!({"method": request.method, "url": request.url, "headers": headers});
        if let Some(body) = &request.body {
            match serde_json::from_slice::<Value>(body) {
                Ok(value) => record["json"] = value,
                Err(_) => record["body"] = String::from_utf8_lossy(body).into_owned().into(),
            }
        }
        requests.push(record);
        Ok(())
    }
}

struct RecordingClient {
    client: Arc<dyn HttpClient>,
    requests: RecordedRequests,
}

impl HttpClient for RecordingClient {
    fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        self.requests.record(&request)?;
        self.client.send(ctx, request)
    }
}
