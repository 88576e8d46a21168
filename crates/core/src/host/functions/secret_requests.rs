//! The secrets of a run in what `ctx.http` sends and receives.

use std::net::IpAddr;
use std::sync::Arc;

use super::provider_call::call_provider;
use super::settings::read_secret;
use crate::error::{ErrorContext, ErrorKind, Result, SkillError};
use crate::host::http::{is_encrypted, url_host_and_port, url_origin};
use crate::host::log::LogLevel;
use crate::host::secret_broker::{
    HostSecrets, RunSecrets, SecretBroker, is_dropped_header, unsearchable_answer,
};
use crate::host::{HttpClient, HttpRequest, HttpResponse, SecretProvider, SkillContext};
use crate::policy::RunPermissions;

impl SkillContext {
    /// The secrets that the run and those that called it use in requests and do not read.
    pub(crate) fn secret_broker(&self) -> &Arc<SecretBroker> {
        match self.caller() {
            Some(caller) => caller.secret_broker(),
            None => self.broker_cell().get_or_init(Arc::default),
        }
    }

    /// What a host may see at this port of the secrets of the run.
    pub(crate) fn secrets_for(&self, host: &str, port: u16) -> Arc<HostSecrets> {
        self.secret_broker().for_host(self.run_id(), host, port)
    }
}

/// The secrets of the run.
pub fn run_secrets(ctx: &SkillContext) -> RunSecrets {
    RunSecrets::new(ctx.secret_broker().clone(), ctx.run_id())
}

/// Lets answers be searched for all secrets that the run may use, whether or not the script has asked for their placeholders.
pub fn enter_secrets(ctx: &SkillContext) {
    if !ctx.begins_to_enter_secrets() {
        return;
    }
    for name in ctx.permitted_secret_names() {
        let is_bound = || {
            let (provider, asked) = (ctx.providers().secrets.as_ref()?, name.clone());
            call_provider(ctx, provider, "secrets", move |provider, ctx| {
                Ok(SecretProvider::hosts(provider, ctx, &asked))
            })
            .ok()?
        };
        if !ctx.permissions().secret_hosts(&name).is_empty() || is_bound().is_some() {
            // Who wants it and does not get it is told so by `ctx.secret`.
            read_secret(ctx, &name).ok();
        }
    }
}

impl SkillContext {
    /// The request with the values of secrets in place of the placeholders that the script has of them, if they are for its host.
    ///
    /// An engine calls it for every client but those that answer [`HttpClient::fills_secrets`] with `true`: they call it for each request
    /// that they send, also for one that follows a redirect, and keep the request as it was for the next.
    pub fn fill_secrets(&self, mut request: HttpRequest) -> Result<HttpRequest> {
        if self.secret_broker().is_empty() {
            return Ok(request);
        }
        let (host, port) = url_host_and_port(&request.url)?;
        let secrets = self.secrets_for(&host, port);
        self.warn_of_misplaced(&host, &secrets, &request)?;
        if !secrets.has_secrets() {
            return Ok(request);
        }
        request.headers.retain(|(name, value)| !is_dropped_header(name, value.as_bytes()));
        let written = request.url.clone();
        request.url = replaced(request.url, |bytes| secrets.fill(bytes));
        let mut has_filled = request.url != written;
        for (name, value) in &mut request.headers {
            let mut bytes = std::mem::take(value).into_bytes();
            has_filled |= secrets.fill_header(name, &mut bytes);
            *value = into_text(bytes);
        }
        if let Some(body) = &mut request.body {
            has_filled |= secrets.fill(body);
        }
        if url_host_and_port(&request.url)? != (host.clone(), port) {
            let sentence =
                format!("the request to {host} has the placeholder of a secret in the name of its host");
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
        }
        if has_filled && !is_encrypted(&request.url)? && !is_this_machine(&host) {
            let sentence = format!("failed to reach {host}: the request has a secret and is not encrypted");
            return Err(
                SkillError::new(ErrorKind::Denied, sentence).with_help(format!("write https://{host}"))
            );
        }
        Ok(request)
    }

    /// The same for a client that does not do it itself, which from then on stays at the origin of a URL that was sent a secret.
    pub(in crate::host) fn fill_secrets_for(
        &self,
        client: &dyn HttpClient,
        request: HttpRequest,
    ) -> Result<HttpRequest> {
        if self.secret_broker().is_empty() || client.fills_secrets() {
            return Ok(request);
        }
        let filled = self.fill_secrets(request.clone())?;
        if filled == request || filled.base_url.is_some() {
            return Ok(filled);
        }
        let origin = url_origin(&filled.url)?;
        Ok(HttpRequest { base_url: Some(origin), ..filled })
    }

    /// What came of a request to this host, with placeholders in place of the values of secrets. A response that cannot be searched for them
    /// is refused.
    pub(in crate::host) fn hide_secrets(
        &self,
        host: &str,
        response: Result<HttpResponse>,
    ) -> Result<HttpResponse> {
        if self.secret_broker().is_empty() {
            return response;
        }
        let hidden = |secrets: &HostSecrets, text: String| replaced(text, |bytes| secrets.hide(bytes));
        let mut response = response.map_err(|error| {
            let secrets = self.secrets_for(host, 0);
            error.map_texts(|text| hidden(&secrets, text.to_owned()))
        })?;
        let (host, port) = url_host_and_port(&response.url)?;
        let secrets = self.secrets_for(&host, port);
        let headers = response.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        if let Some(reason) = unsearchable_answer(response.status, headers).filter(|_| secrets.has_secrets())
        {
            let sentence = format!("failed to use the answer of {host}: it {reason}");
            return Err(SkillError::new(ErrorKind::Io, sentence));
        }
        response.url = hidden(&secrets, response.url);
        response.headers.retain(|(name, _)| !secrets.finds_value(name.as_bytes()));
        for (_, value) in &mut response.headers {
            *value = hidden(&secrets, std::mem::take(value));
        }
        secrets.hide(&mut response.body);
        Ok(response)
    }

    /// Logs each secret whose placeholder is sent to a host that it is not for.
    fn warn_of_misplaced(&self, host: &str, secrets: &HostSecrets, request: &HttpRequest) -> Result<()> {
        let values = request.headers.iter().map(|(_, value)| value.as_bytes());
        let parts = values.chain([request.url.as_bytes()]).chain(request.body.as_deref());
        let mut names: Vec<String> = parts.flat_map(|part| secrets.misplaced(part)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.log(LogLevel::Warn, misplaced_text(&name, host))?;
        }
        Ok(())
    }
}

/// What is logged of a placeholder that was sent to a host.
pub fn misplaced_text(name: &str, host: &str) -> String {
    format!(
        "the placeholder of the secret {name} was sent to {host}, for which the secret is not: it stayed a placeholder"
    )
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// A text whose bytes are replaced by as many others.
fn replaced(text: String, replace: impl FnOnce(&mut [u8]) -> bool) -> String {
    let mut bytes = text.into_bytes();
    replace(&mut bytes);
    into_text(bytes)
}

/// What is replaced is ASCII, and so is what takes its place.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
