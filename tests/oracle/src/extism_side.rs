//! A case run by Extism.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use extism::{CompiledPlugin, Function, Manifest, Plugin, PluginBuilder, UserData, ValType, Wasm};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::{Answer, Case, FILE};

pub fn run(case: &Case<'_>) -> Answer {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing::subscriber::set_global_default(Log).expect("is the only one"));
    LINES.take();
    let result = call(case).map_err(|error| error.to_string());
    Answer { result, log: LINES.take() }
}

fn call(case: &Case<'_>) -> Result<String, extism::Error> {
    let mut plugin = Plugin::new_from_compiled(&compiled(case)?)?;
    let output = plugin.call::<String, Vec<u8>>(case.function, case.input.to_string())?;
    // What is not text differs from everything that metier may answer with.
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The compiled plug-in, that of the case before if it is the same.
fn compiled(case: &Case<'_>) -> Result<CompiledPlugin, extism::Error> {
    if case.is_manifest {
        return PluginBuilder::new(case.module).with_wasi(case.wasi).with_cache_disabled().compile();
    }
    let mut manifest = Manifest::new([Wasm::data(case.module)]).with_config(case.config.iter().copied());
    if let Some(host) = case.host {
        manifest = manifest.with_allowed_host(host);
    }
    if let Some((_, plugin)) = LAST.take().filter(|(last, _)| *last == manifest) {
        LAST.set(Some((manifest, plugin.clone())));
        return Ok(plugin);
    }
    let builder = PluginBuilder::new(&manifest)
        .with_functions(if case.user { functions() } else { Vec::new() })
        .with_wasi(case.wasi)
        .with_cache_disabled()
        .with_http_response_headers(true);
    let plugin = builder.compile()?;
    LAST.set(Some((manifest, plugin.clone())));
    Ok(plugin)
}

thread_local! {
    static LAST: RefCell<Option<(Manifest, CompiledPlugin)>> = const { RefCell::new(None) };
}

/// The host's functions: `read_file` reads the one file, the others, which no case calls, fail.
fn functions() -> Vec<Function> {
    metier::host::functions()
        .iter()
        .map(|function| {
            let params = vec![ValType::I64; function.params.len()];
            let name = function.name;
            Function::new(name, params, [ValType::I64], UserData::new(()), move |plugin, args, results, _| {
                let path: String = plugin.memory_get_val(&args[0])?;
                let answer = if name == "read_file" && path == serde_json::to_string(FILE.0)? {
                    json!({"ok": FILE.1})
                } else {
                    json!({"error": {"kind": "io", "message": "no"}})
                };
                plugin.memory_set_val(&mut results[0], answer.to_string())
            })
        })
        .collect()
}

thread_local! {
    /// What the plug-in that runs on this thread has logged.
    static LINES: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
}

/// Takes what plug-ins log.
struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "extism::pdk"
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        LINES.with_borrow_mut(|lines| lines.push((level, line.0)));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
