//! Providers that answer from a JSON object: for examples, tests and dry runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::context::SkillContext;
use super::context::{
    ConfigProvider, HttpClient, HttpRequest, HttpResponse, Providers, SampleRequest, SampleResponse,
    SamplingProvider, SecretProvider, SkillProvider, StoreProvider, Tool, ToolProvider,
};
use crate::error::{ErrorKind, Result, SkillError};

/// Predefined answers of providers. Parts that the object omits are `unavailable` to scripts. `model` is a text, or an object as
/// [`SampleResponse`] has it in JSON. `store` has the values of the skill's own store, `stores` those of shared ones; scripts change them
/// for as long as the providers are there. `http` has a response for a URL, or for a method and a URL; of a list, each request gets the next
/// one, and the last one counts for all further ones. `json` is a body in JSON.
///
/// ```
/// # use metier_core as metier;
/// use metier::host::{Fixtures, SkillContext};
/// use serde_json::json;
///
/// # fn main() -> metier::error::Result<()> {
/// let fixtures = Fixtures::new(
///     r#"{
///         "tools": {"add": 3},
///         "skills": {"greet": "hello"},
///         "model": "what the model says",
///         "config": {"width": 80},
///         "secrets": {"TOKEN": "s3cret"},
///         "store": {"last": 3},
///         "stores": {"team": {"last": 4}},
///         "http": {
///             "https://example.com/": {"status": 200, "headers": {"etag": "1"}, "body": "page"},
///             "POST https://example.com/items": [{"status": 503}, {"status": 201, "json": {"id": 7}}]
///         }
///     }"#,
/// )?;
/// let ctx = SkillContext::builder("test").providers(fixtures.providers()).build();
/// assert_eq!(ctx.call("config", vec![json!("width")])?, 80);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fixtures {
    tools: Option<Map<String, Value>>,
    skills: Option<Map<String, Value>>,
    model: Option<ModelFixture>,
    config: Option<Map<String, Value>>,
    secrets: Option<BTreeMap<String, String>>,
    store: Option<StoredValues>,
    stores: Option<BTreeMap<String, StoredValues>>,
    http: Option<BTreeMap<String, HttpFixtures>>,
    /// How many requests each entry of `http` answered.
    #[serde(skip)]
    answered: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// The predefined answer of a model: its text, or the whole response.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum ModelFixture {
    Text(String),
    Response(SampleResponse),
}

/// The predefined HTTP responses of a URL: one for every request, or one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum HttpFixtures {
    Every(HttpFixture),
    Each(Vec<HttpFixture>),
}

/// A predefined HTTP response.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HttpFixture {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    json: Option<Value>,
}

impl Default for HttpFixture {
    fn default() -> Self {
        Self { status: 200, headers: BTreeMap::new(), body: String::new(), json: None }
    }
}

impl HttpFixtures {
    /// The response to the request with this number, from 0.
    fn nth(&self, number: usize) -> Option<&HttpFixture> {
        match self {
            Self::Every(response) => Some(response),
            Self::Each(responses) => responses.get(number).or(responses.last()),
        }
    }
}

impl Fixtures {
    /// Reads the fixtures from a JSON object; an empty text has none. Any other text is a `usage` error.
    pub fn new(json: &str) -> Result<Self> {
        if json.trim().is_empty() {
            return Ok(Self::default());
        }
        let object: serde_json::Result<Map<String, Value>> = serde_json::from_str(json);
        object
            .and_then(|object| serde_json::from_value(Value::Object(object)))
            .map_err(|error| SkillError::new(ErrorKind::Usage, format!("invalid fixtures: {error}")))
    }

    /// A provider for each part that the object has.
    pub fn providers(&self) -> Providers {
        let own = Arc::new(self.clone());
        Providers {
            tools: self.tools.as_ref().map(|_| own.clone() as Arc<dyn ToolProvider>),
            skills: self.skills.as_ref().map(|_| own.clone() as Arc<dyn SkillProvider>),
            sampling: self.model.as_ref().map(|_| own.clone() as Arc<dyn SamplingProvider>),
            config: self.config.as_ref().map(|_| own.clone() as Arc<dyn ConfigProvider>),
            secrets: self.secrets.as_ref().map(|_| own.clone() as Arc<dyn SecretProvider>),
            store: self.store_provider(),
            http: self.http.as_ref().map(|_| own as Arc<dyn HttpClient>),
            approver: None,
            files: None,
        }
    }

    fn store_provider(&self) -> Option<Arc<dyn StoreProvider>> {
        if self.store.is_none() && self.stores.is_none() {
            return None;
        }
        let own = self.store.clone().map(|values| (None, values));
        let shared = self.stores.iter().flatten().map(|(name, values)| (Some(name.clone()), values.clone()));
        Some(Arc::new(FixtureStore(Mutex::new(own.into_iter().chain(shared).collect()))))
    }
}

impl ToolProvider for Fixtures {
    fn tools(&self) -> Vec<Tool> {
        let tool = |name: &String| Tool {
            name: name.clone(),
            description: "returns its fixture".into(),
            input_schema: Value::Object(Map::new()),
        };
        self.tools.iter().flat_map(Map::keys).map(tool).collect()
    }

    fn call(&self, _: &SkillContext, name: &str, _: &Value) -> Result<Value> {
        fixture(self.tools.as_ref().and_then(|tools| tools.get(name)), "tool", name).cloned()
    }
}

impl SkillProvider for Fixtures {
    fn run(&self, _: &SkillContext, name: &str, _: Value) -> Result<Value> {
        fixture(self.skills.as_ref().and_then(|skills| skills.get(name)), "skill", name).cloned()
    }
}

impl SamplingProvider for Fixtures {
    fn sample(&self, _: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
        Ok(match fixture(self.model.as_ref(), "response to the prompt", request.prompt())? {
            ModelFixture::Text(text) => text.as_str().into(),
            ModelFixture::Response(response) => response.clone(),
        })
    }
}

impl ConfigProvider for Fixtures {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        Ok(self.config.clone().unwrap_or_default())
    }
}

impl SecretProvider for Fixtures {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok(self.secrets.as_ref().and_then(|secrets| secrets.get(name)).cloned())
    }

    fn has(&self, _: &SkillContext, name: &str) -> Option<bool> {
        Some(self.secrets.as_ref().is_some_and(|secrets| secrets.contains_key(name)))
    }
}

/// Values by their keys.
type StoredValues = BTreeMap<String, Value>;

/// The skill's own store, under no name, and the shared ones.
struct FixtureStore(Mutex<BTreeMap<Option<String>, StoredValues>>);

impl FixtureStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<String>, StoredValues>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, shared: Option<&str>, work: impl FnOnce(&mut StoredValues) -> T) -> T {
        work(self.lock().entry(shared.map(str::to_owned)).or_default())
    }
}

impl StoreProvider for FixtureStore {
    fn get(&self, _: &SkillContext, shared: Option<&str>, key: &str) -> Result<Option<Value>> {
        Ok(self.with(shared, |values| values.get(key).cloned()))
    }

    fn set(&self, _: &SkillContext, shared: Option<&str>, key: &str, value: &Value) -> Result<()> {
        self.with(shared, |values| values.insert(key.to_owned(), value.clone()));
        Ok(())
    }

    fn keys(&self, _: &SkillContext, shared: Option<&str>, prefix: &str) -> Result<Vec<String>> {
        Ok(self.with(shared, |values| values.keys().filter(|key| key.starts_with(prefix)).cloned().collect()))
    }

    fn delete(&self, _: &SkillContext, shared: Option<&str>, key: &str) -> Result<bool> {
        Ok(self.with(shared, |values| values.remove(key).is_some()))
    }
}

impl HttpClient for Fixtures {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        let named = format!("{} {}", request.method, request.url);
        let responses = self.http.as_ref();
        let key =
            [&named, &request.url].into_iter().find(|key| responses.is_some_and(|it| it.contains_key(*key)));
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let number = key.map_or(0, |key| {
            let count = answered.entry(key.clone()).or_default();
            *count += 1;
            *count - 1
        });
        let found = key.and_then(|key| responses?.get(key)?.nth(number));
        let page = fixture(found, "response for the URL", &named)?;
        let lower = |(name, value): (&String, &String)| (name.to_ascii_lowercase(), value.clone());
        Ok(HttpResponse {
            status: page.status,
            headers: page.headers.iter().map(lower).collect(),
            body: page.json.as_ref().map_or_else(|| page.body.clone(), Value::to_string).into_bytes(),
            url: request.url,
        })
    }
}

fn fixture<'a, T>(answer: Option<&'a T>, what: &str, name: &str) -> Result<&'a T> {
    answer.ok_or_else(|| {
        SkillError::new(ErrorKind::Unavailable, format!("the fixtures have no {what} `{name}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_given_is_not_provided() {
        let providers = Fixtures::new("").unwrap().providers();
        assert!(providers.tools.is_none() && providers.skills.is_none() && providers.sampling.is_none());
        assert!(providers.config.is_none() && providers.secrets.is_none() && providers.http.is_none());
        assert!(Fixtures::new(r#"{"tools": {}}"#).unwrap().providers().tools.is_some());
    }

    #[test]
    fn a_slip_in_the_answers_is_reported() {
        for slip in
            [r#"{"tool": {}}"#, "[]", r#"{"http": {"https://a": {"code": 1}}}"#, r#"{"secrets": {"A": 1}}"#]
        {
            assert_eq!(Fixtures::new(slip).unwrap_err().kind(), ErrorKind::Usage, "{slip}");
        }
    }

    #[test]
    fn a_page_answers_with_what_was_canned_for_its_url() {
        let canned =
            Fixtures::new(r#"{"http": {"https://a.example/": {"headers": {"ETag": "1"}, "body": "hi"}}}"#);
        let send = |url: &str| {
            let (method, url) = ("GET".to_owned(), url.to_owned());
            let request = HttpRequest {
                method,
                url,
                headers: vec![],
                body: None,
                timeout: None,
                max_bytes: 9,
                base_url: None,
            };
            canned.clone().unwrap().send(&SkillContext::builder("x").build(), request)
        };
        let answer = send("https://a.example/").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hi"[..]));
        assert_eq!(answer.headers, [("etag".to_owned(), "1".to_owned())]);
        assert_eq!(send("https://b.example/").unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_method_has_responses_of_its_own_and_a_list_is_answered_in_order() {
        let fixtures = r#"{"http": {"https://a.test/": {"json": [1]}, "POST https://a.test/": [{"status": 503}, {"status": 201}]}}"#;
        let client = Fixtures::new(fixtures).unwrap().providers().http.unwrap();
        let send = |method: &str| {
            let response = client
                .send(&SkillContext::builder("x").build(), HttpRequest::new(method, "https://a.test/", 99));
            response.map(|response| (response.status, response.body))
        };
        assert_eq!(send("GET").unwrap(), (200, b"[1]".to_vec()));
        let statuses: Vec<u16> = (0..3).map(|_| send("POST").unwrap().0).collect();
        assert_eq!(statuses, [503, 201, 201]);
    }
}
