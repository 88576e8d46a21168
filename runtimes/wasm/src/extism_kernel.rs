//! The functions of `extism:host/env` that Extism's plug-in kits use, and the few that instrumented modules call.

use wasmparser::ValType::{self, I32, I64};

use super::extism_http::http_request;
use crate::run_state::RunState;
use metier_core::error::Result;
use metier_core::host::LogLevel;

/// One function: its parameter and result types in WebAssembly, and its implementation.
pub(super) struct KernelFunction {
    pub(super) name: &'static str,
    pub(super) params: &'static [ValType],
    pub(super) result: Option<ValType>,
    pub(super) body: KernelFn,
}

/// Integers are passed as 64 bits, whatever their width. An error ends the run.
type KernelFn = fn(&mut RunState, &[u64]) -> Result<u64>;

const fn kernel_function(name: &'static str, params: &'static [ValType], body: KernelFn) -> KernelFunction {
    KernelFunction { name, params, result: None, body }
}

impl KernelFunction {
    const fn returns(self, result: ValType) -> Self {
        Self { result: Some(result), ..self }
    }
}

/// The functions of Extism that plug-ins may import.
pub(super) const EXTISM_FUNCTIONS: &[KernelFunction] = &[
    kernel_function("alloc", &[I64], |run, args| run.allocate(args[0])).returns(I64),
    kernel_function("free", &[I64], |run, args| run.release(args[0])),
    kernel_function("length", &[I64], |run, args| Ok(run.memory.length(args[0]))).returns(I64),
    kernel_function("length_unsafe", &[I64], |run, args| Ok(run.memory.length(args[0]))).returns(I64),
    kernel_function("load_u8", &[I64], |run, args| Ok(run.memory.load(args[0], 1))).returns(I32),
    kernel_function("load_u64", &[I64], |run, args| Ok(run.memory.load(args[0], 8))).returns(I64),
    kernel_function("store_u8", &[I64, I32], |run, args| run.save(args[0], 1, args[1])),
    kernel_function("store_u64", &[I64, I64], |run, args| run.save(args[0], 8, args[1])),
    kernel_function("input_offset", &[], |run, _| Ok(run.input().0)).returns(I64),
    kernel_function("input_length", &[], |run, _| Ok(run.input().1)).returns(I64),
    kernel_function("input_load_u8", &[I64], |run, args| Ok(run.load_input(args[0], 1))).returns(I32),
    kernel_function("input_load_u64", &[I64], |run, args| Ok(run.load_input(args[0], 8))).returns(I64),
    kernel_function("output_set", &[I64, I64], |run, args| run.set_output(args[0], args[1])),
    kernel_function("error_set", &[I64], |run, args| run.set_error(args[0])),
    kernel_function("config_get", &[I64], |run, args| run.load_setting(args[0])).returns(I64),
    kernel_function("var_get", &[I64], |run, args| run.load_variable(args[0])).returns(I64),
    kernel_function("var_set", &[I64, I64], |run, args| run.set_variable(args[0], args[1])),
    kernel_function("http_request", &[I64, I64], |run, args| http_request(run, args[0], args[1]))
        .returns(I64),
    kernel_function("http_status_code", &[], |run, _| Ok(run.response.status)).returns(I32),
    kernel_function("http_headers", &[], |run, _| run.load_headers()).returns(I64),
    kernel_function("log_trace", &[I64], |run, args| run.log(LogLevel::Trace, args[0])),
    kernel_function("log_debug", &[I64], |run, args| run.log(LogLevel::Debug, args[0])),
    kernel_function("log_info", &[I64], |run, args| run.log(LogLevel::Info, args[0])),
    kernel_function("log_warn", &[I64], |run, args| run.log(LogLevel::Warn, args[0])),
    kernel_function("log_error", &[I64], |run, args| run.log(LogLevel::Error, args[0])),
    // The lowest level there is: the log takes everything.
    kernel_function("get_log_level", &[], |_, _| Ok(0)).returns(I32),
];

/// The namespace of the imports that instrumentation adds to a module.
pub(super) const METIER_NAMESPACE: &str = "metier:run";

/// Called before a memory or table grows, with the number of bytes; called again with the negative number if it then did not
/// grow.
pub(super) const GROW: KernelFunction =
    kernel_function("grow", &[I64], |run, args| run.account_growth(args[0].cast_signed()));

/// Called when the start function and the initialisers are over, before the entry.
pub(super) const BEGIN: KernelFunction = kernel_function("begin", &[], |run, _| run.begin());
