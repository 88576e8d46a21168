//! Does what its input says, call by call, and answers with what each of them gave: `"var_set a x;var_get a"`.
//!
//! `@N` is a value of N bytes, `#HEX` one of these bytes, anything else is its own text.

use std::collections::BTreeMap;

use extism_pdk::*;

#[plugin_fn]
pub fn run(input: Vec<u8>) -> FnResult<Vec<u8>> {
    let script = String::from_utf8_lossy(&input).trim_matches('"').to_owned();
    let mut answers = Vec::new();
    for line in script.split(';') {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        match word() {
            "input" => answers.push(shown(&input)),
            "var_get" => answers.push(optional(var::get::<Vec<u8>>(word())?)),
            "var_set" => var::set(word(), value(word()))?,
            "var_remove" => var::remove(word())?,
            "config" => answers.push(optional(config::get(word())?.map(String::into_bytes))),
            "log" => match word() {
                "trace" => trace!("{}", word()),
                "debug" => debug!("{}", word()),
                "info" => info!("{}", word()),
                "warn" => warn!("{}", word()),
                _ => error!("{}", word()),
            },
            "http" => {
                let (method, url, body) = (word(), word(), word());
                let mut request = HttpRequest::new(url).with_method(method);
                request.headers = BTreeMap::from([("x-from".to_owned(), "plug-in".to_owned())]);
                let answer = http::request(&request, (!body.is_empty()).then(|| value(body)))?;
                answers.push(answer.status_code().to_string());
                answers.push(shown(&answer.body()));
                answers.push(optional(answer.header("x-back").map(|text| text.as_bytes().to_vec())));
            }
            "error" => unsafe { extism::error_set(Memory::from_bytes(value(word()))?.offset()) },
            "fail" => return Err(WithReturnCode::new(Error::msg(text(word())), 1)),
            // Without a text there is no error, only the code.
            "code" => return Err(WithReturnCode::new(Error::msg(""), word().parse().unwrap_or(0))),
            "output" => return Ok(value(word())),
            other => return Err(WithReturnCode::new(Error::msg(format!("no call is named {other}")), 2)),
        }
    }
    let answers: Vec<String> = answers.iter().map(|answer| format!("\"{answer}\"")).collect();
    Ok(format!("[{}]", answers.join(",")).into_bytes())
}

fn value(word: &str) -> Vec<u8> {
    if let Some(length) = word.strip_prefix('@') {
        return vec![b'x'; length.parse().unwrap_or(0)];
    }
    let Some(digits) = word.strip_prefix('#') else { return word.as_bytes().to_vec() };
    (0..digits.len() / 2).filter_map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()).collect()
}

fn text(word: &str) -> String {
    String::from_utf8_lossy(&value(word)).into_owned()
}

fn optional(bytes: Option<Vec<u8>>) -> String {
    bytes.map_or_else(|| "none".to_owned(), |bytes| shown(&bytes))
}

/// The length, a sum (FNV-1a), and the first bytes.
fn shown(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let head: String = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{} {sum:08x} {head}", bytes.len())
}
