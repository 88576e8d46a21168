//! A case run by metier.

use std::cell::RefCell;
use std::sync::Arc;

use metier::ScriptLoader;
use metier::error::Result;
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::{ConfigProvider, Files, Providers, SkillContext, WebClient};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::host::RunMessages;
use metier_core::policy::PathProtection;
use serde_json::{Map, Value};

use super::{Answer, Case, FILE};

struct Settings(Map<String, Value>);

impl ConfigProvider for Settings {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        Ok(self.0.clone())
    }
}

/// The executor of a module, that of the case before if it is the same.
fn load(script: Script) -> Result<Arc<dyn SkillExecutor>> {
    if let Some((last, executor)) =
        LAST.take().filter(|(last, _)| last.source == script.source && last.function == script.function)
    {
        LAST.set(Some((last, executor.clone())));
        return Ok(executor);
    }
    let executor = ScriptLoader::new().compile_in_process(true).load(RuntimeId::WASM, &script)?;
    let executor: Arc<dyn SkillExecutor> = executor.into();
    LAST.set(Some((script, executor.clone())));
    Ok(executor)
}

type Loaded = (Script, Arc<dyn SkillExecutor>);

thread_local! {
    static LAST: RefCell<Option<Loaded>> = const { RefCell::new(None) };
}

pub fn run(case: &Case<'_>) -> Answer {
    let config = case.config.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let host = case.host.map(|host| format!("net:{host}"));
    let granted = host.as_deref().into_iter().chain(case.wasi.then_some("wasi"));
    let granted: Vec<Permission> = granted.map(|text| text.parse().expect("is a permission")).collect();
    let project = tempfile::tempdir().expect("a folder");
    std::fs::write(project.path().join(FILE.0), FILE.1).expect("a file");
    let context = SkillContext::builder("oracle")
        .project(Files::open(project.path()).expect("opens"))
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .providers(Providers::default().config(Settings(config)).http(WebClient::new()))
        .build();
    let path = if case.is_manifest { "scripts/plugin.json" } else { "scripts/main.wasm" };
    let mut script = Script::new("oracle", path, case.module);
    script.function = Some(case.function.into());
    let executor = load(script);
    let input = SkillInput::from(case.input.clone());
    let result = executor.and_then(|executor| executor.execute_with_context(input, Some(&context)));
    let log = context.take_log().into_iter().map(|line| {
        let line = serde_json::to_value(line).expect("is JSON");
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        (text("level"), text("message"))
    });
    Answer {
        log: log.collect(),
        result: result.map(|output| output.value.to_string()).map_err(|error| error.message().to_owned()),
    }
}
