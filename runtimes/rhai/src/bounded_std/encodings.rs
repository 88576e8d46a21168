//! Base64 and percent-encoding, which Rhai has not by itself.

use rhai::{Blob, Module, NativeCallContext};

use crate::run_limits::{RhaiError, require_memory};
use metier_core::text_encoding::{
    MAX_GROWTH, decode_base64, decode_url_part, encode_base64, encode_url_part,
};

/// Registers `base64_encode`, `base64_decode`, `base64_decode_blob`, `url_encode` and `url_decode`.
pub(super) fn install(module: &mut Module) {
    module.set_native_fn("base64_encode", |call: NativeCallContext, text: &str| {
        encode(&call, text.as_bytes(), encode_base64)
    });
    module.set_native_fn("base64_encode", |call: NativeCallContext, bytes: Blob| {
        encode(&call, &bytes, encode_base64)
    });
    module.set_native_fn("base64_decode", |call: NativeCallContext, text: &str| {
        text_of(decode(&call, ("base64_decode", text), decode_base64)?, "base64_decode")
    });
    module.set_native_fn("base64_decode_blob", |call: NativeCallContext, text: &str| {
        decode(&call, ("base64_decode_blob", text), decode_base64)
    });
    module.set_native_fn("url_encode", |call: NativeCallContext, text: &str| {
        encode(&call, text.as_bytes(), encode_url_part)
    });
    module.set_native_fn("url_decode", |call: NativeCallContext, text: &str| {
        text_of(decode(&call, ("url_decode", text), decode_url_part)?, "url_decode")
    });
}

fn encode(
    call: &NativeCallContext<'_>,
    bytes: &[u8],
    encode: fn(&[u8]) -> String,
) -> Result<String, RhaiError> {
    require_memory(call, bytes.len(), MAX_GROWTH)?;
    Ok(encode(bytes))
}

fn decode(
    call: &NativeCallContext<'_>,
    (name, text): (&str, &str),
    decode: fn(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<Blob, RhaiError> {
    require_memory(call, text.len(), MAX_GROWTH)?;
    decode(text.as_bytes()).map_err(|reason| format!("{name}: {reason}").into())
}

fn text_of(bytes: Blob, name: &str) -> Result<String, RhaiError> {
    String::from_utf8(bytes).map_err(|_| format!("{name}: the bytes are not UTF-8 text").into())
}
