//! Runs plug-ins in Extism: reads cases from standard input, one in a line, and writes what Extism answers. `tests/wasm/extism` asks it.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::io::{BufRead, Write as _};

use extism::{CompiledPlugin, Function, Manifest, Plugin, PluginBuilder, UserData, ValType, Wasm};
use serde::Deserialize;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What it is asked to run.
#[derive(Deserialize)]
struct Case {
    /// A module, as text or binary, or a manifest; in hexadecimal digits.
    module: String,
    function: String,
    input: String,
    config: Vec<(String, String)>,
    /// The host that may be reached.
    host: Option<String>,
    wasi: bool,
    is_manifest: bool,
    /// The functions of the host, with the numbers of their parameters.
    functions: Vec<(String, usize)>,
    /// The one file that `read_file` knows, and its content.
    file: (String, String),
}

fn main() {
    tracing::subscriber::set_global_default(Log).expect("is the only one");
    let mut answers = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line.expect("a line")).expect("a case");
        LINES.take();
        let result = call(&case).map_err(|error| error.to_string());
        let result = result.map_or_else(|error| json!({"Err": error}), |output| json!({"Ok": output}));
        writeln!(answers, "{}", json!({"result": result, "log": LINES.take()})).expect("somebody reads");
        answers.flush().expect("somebody reads");
    }
}

fn call(case: &Case) -> Result<String, extism::Error> {
    let mut plugin = Plugin::new_from_compiled(&compile(case)?)?;
    let output = plugin.call::<&str, Vec<u8>>(&case.function, &case.input)?;
    // What is not text differs from everything that metier may answer with.
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The compiled plug-in, that of the case before if it is the same.
fn compile(case: &Case) -> Result<CompiledPlugin, extism::Error> {
    let module = decode(&case.module);
    if case.is_manifest {
        return PluginBuilder::new(&module[..]).with_wasi(case.wasi).with_cache_disabled().compile();
    }
    let config = case.config.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut manifest = Manifest::new([Wasm::data(module)]).with_config(config);
    if let Some(host) = &case.host {
        manifest = manifest.with_allowed_host(host);
    }
    if let Some((_, plugin)) = LAST.take().filter(|(last, _)| *last == manifest) {
        LAST.set(Some((manifest, plugin.clone())));
        return Ok(plugin);
    }
    let builder = PluginBuilder::new(&manifest)
        .with_functions(functions(case))
        .with_wasi(case.wasi)
        .with_cache_disabled()
        .with_http_response_headers(true);
    let plugin = builder.compile()?;
    LAST.set(Some((manifest, plugin.clone())));
    Ok(plugin)
}

fn decode(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

thread_local! {
    static LAST: RefCell<Option<(Manifest, CompiledPlugin)>> = const { RefCell::new(None) };
}

/// The host's functions: `read_file` reads the one file, the others, which no case calls, fail.
fn functions(case: &Case) -> Vec<Function> {
    let function = |(name, params): &(String, usize)| {
        let (is_read, file) = (name == "read_file", case.file.clone());
        let params = vec![ValType::I64; *params];
        Function::new(name, params, [ValType::I64], UserData::new(()), move |plugin, args, results, _| {
            let path: String = plugin.memory_get_val(&args[0])?;
            let answer = if is_read && path == serde_json::to_string(&file.0)? {
                json!({"ok": file.1})
            } else {
                json!({"error": {"kind": "io", "message": "no"}})
            };
            plugin.memory_set_val(&mut results[0], answer.to_string())
        })
    };
    case.functions.iter().map(function).collect()
}

thread_local! {
    /// What the plug-in that runs has logged.
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
