//! Host functions that keep values from one run to the next.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::provider_call::{call_provider, unavailable};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::value_size::memory_size;
use crate::host::{Args, RunContext, RunMessages, SkillContext, StoreProvider};
use crate::strict_json;

/// Maximum bytes of a key.
const MAX_KEY_BYTES: usize = 256;
/// Maximum bytes of a value, as JSON text.
const MAX_VALUE_BYTES: usize = 64 << 10;

const KEY: Param = Param {
    name: "key",
    value_type: ValueType::Text,
    required: true,
    doc: "the key: 1 to 256 bytes of text without control characters",
};

const STORE: Param = Param {
    name: "store",
    value_type: ValueType::Text,
    required: false,
    doc: "the store that skills of the project share under this name, with the permission `store:NAME`; the skill's own by default",
};

pub(super) const STORE_GET: HostFunction = HostFunction {
    name: "store_get",
    aliases: &["host_store_get"],
    params: &[KEY, STORE],
    returns: ValueType::Any,
    access: AccessRule::Store(1),
    doc: "Answers with the value under a key of the skill's store, null where there is none.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"store": {"last": {"page": 3}}}"#,
        grants: &["state"],
        args: r#"["last"]"#,
        answer: r#"{"page": 3}"#,
    },
    body: store_get,
};

pub(super) const STORE_SET: HostFunction = HostFunction {
    name: "store_set",
    aliases: &["host_store_set"],
    params: &[
        KEY,
        Param {
            name: "value",
            value_type: ValueType::Any,
            required: true,
            doc: "the value, at most 64 KiB as JSON text",
        },
        STORE,
    ],
    returns: ValueType::Null,
    access: AccessRule::Store(2),
    doc: "Keeps a value under a key for later runs, in place of an earlier one. It is kept at once, however the run ends. A value or key \
          that contains a secret of the run is `denied`. A store holds 1,000 values and 16 MiB; what would exceed that fails with `state`.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"store": {}}"#,
        grants: &["state"],
        args: r#"["last", {"page": 4}]"#,
        answer: "null",
    },
    body: store_set,
};

pub(super) const STORE_LIST: HostFunction = HostFunction {
    name: "store_list",
    aliases: &["host_store_list"],
    params: &[
        Param {
            name: "prefix",
            value_type: ValueType::Text,
            required: false,
            doc: "how the keys begin; all keys by default",
        },
        STORE,
    ],
    returns: ValueType::List(&ValueType::Text),
    access: AccessRule::Store(1),
    doc: "Answers with the keys of the skill's store, in the order of their bytes.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"store": {"page/2": "b", "page/1": "a", "last": 2}}"#,
        grants: &["state"],
        args: r#"["page/"]"#,
        answer: r#"["page/1", "page/2"]"#,
    },
    body: store_list,
};

pub(super) const STORE_DELETE: HostFunction = HostFunction {
    name: "store_delete",
    aliases: &["host_store_delete"],
    params: &[KEY, STORE],
    returns: ValueType::Boolean,
    access: AccessRule::Store(1),
    doc: "Removes the value under a key of the skill's store; answers whether there was one.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"store": {"last": {"page": 3}}}"#,
        grants: &["state"],
        args: r#"["last"]"#,
        answer: "true",
    },
    body: store_delete,
};

fn store_get(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (key, shared) = (checked_key(args)?, args.optional_text(1).map(str::to_owned));
    let value = call_provider(ctx, provider(ctx)?, "the store", move |store, ctx| {
        store.get(ctx, shared.as_deref(), &key)
    })?;
    let value = value.unwrap_or_default();
    ctx.host_memory().empty_reservation().add(memory_size(&value))?;
    Ok(value)
}

fn store_set(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (key, value) = (checked_key(args)?, args.value(1));
    check_value(value)?;
    check_secrets(ctx, &key, value)?;
    let (value, shared) = (value.clone(), args.optional_text(2).map(str::to_owned));
    call_provider(ctx, provider(ctx)?, "the store", move |store, ctx| {
        store.set(ctx, shared.as_deref(), &key, &value)
    })?;
    Ok(Value::Null)
}

fn store_list(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let prefix = args.optional_text(0).unwrap_or_default();
    if prefix.len() > MAX_KEY_BYTES {
        return Err(invalid_key());
    }
    let prefix = prefix.to_owned();
    let shared = args.optional_text(1).map(str::to_owned);
    let mut keys = call_provider(ctx, provider(ctx)?, "the store", move |store, ctx| {
        store.keys(ctx, shared.as_deref(), &prefix)
    })?;
    keys.sort_unstable();
    let keys: Value = keys.into();
    ctx.host_memory().empty_reservation().add(memory_size(&keys))?;
    Ok(keys)
}

fn store_delete(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (key, shared) = (checked_key(args)?, args.optional_text(1).map(str::to_owned));
    let was_there = call_provider(ctx, provider(ctx)?, "the store", move |store, ctx| {
        store.delete(ctx, shared.as_deref(), &key)
    })?;
    Ok(was_there.into())
}

fn provider(ctx: &SkillContext) -> Result<&Arc<dyn StoreProvider>> {
    ctx.providers().store.as_ref().ok_or_else(|| unavailable("a store"))
}

fn checked_key(args: &Args) -> Result<String> {
    let key = args.text(0);
    let is_key = (1..=MAX_KEY_BYTES).contains(&key.len()) && !key.contains(char::is_control);
    is_key.then(|| key.to_owned()).ok_or_else(invalid_key)
}

fn invalid_key() -> SkillError {
    let sentence = format!("a key of a store has 1 to {MAX_KEY_BYTES} bytes and no control characters");
    SkillError::new(ErrorKind::InvalidArgument, sentence)
}

/// Checks that the value is small enough, and that its text can be read again.
fn check_value(value: &Value) -> Result<()> {
    let refused = |sentence: String| SkillError::new(ErrorKind::InvalidArgument, sentence);
    let mut text = BoundedText(Vec::new());
    serde_json::to_writer(&mut text, value).map_err(|_| {
        refused(format!(
            "the value is larger than {MAX_VALUE_BYTES} bytes, the most that a store keeps under a key"
        ))
        .with_help("keep it in parts, or in a file")
    })?;
    let text = String::from_utf8_lossy(&text.0);
    strict_json::parse(&text)
        .map(drop)
        .map_err(|reason| refused(format!("the value cannot be kept in a store: {reason}")))
}

/// Checks that neither holds a secret of this run or of those that led to it.
fn check_secrets(ctx: &SkillContext, key: &str, value: &Value) -> Result<()> {
    let mut runs = std::iter::successors(Some(ctx), |ctx| ctx.caller());
    let holds_secret = runs.any(|ctx| {
        let redaction = ctx.redaction();
        redaction.contains_secret(key) || redaction.holds_secret(value)
    });
    if !holds_secret {
        return Ok(());
    }
    let sentence = "the value or its key contains a secret of the run, and a store keeps no secrets";
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help("store it without the secret, and read the secret again in the run that needs it"))
}

/// A text that is not longer than a value may be.
struct BoundedText(Vec<u8>);

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_VALUE_BYTES {
            return Err(io::Error::other("it is too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::host::{Fixtures, RunContextBuilder};
    use crate::policy::{PathProtection, Permission, Permissions, RequestedPermissions};

    fn context(fixtures: &str, grants: &[&str]) -> SkillContext {
        let grants: Vec<Permission> = grants.iter().map(|text| text.parse().unwrap()).collect();
        SkillContext::builder("test")
            .providers(Fixtures::new(fixtures).unwrap().providers())
            .permissions(Permissions::new(RequestedPermissions::All, grants, PathProtection::default()))
            .build()
    }

    #[test]
    fn what_is_set_is_read_listed_and_deleted() {
        let ctx = context(r#"{"store": {}}"#, &["state"]);
        let call = |name: &str, args: Value| ctx.call(name, serde_json::from_value(args).unwrap()).unwrap();
        assert_eq!(call("store_get", json!(["a"])), Value::Null);
        for value in [json!(1), json!(null), json!({"b": [1.5, "x"]})] {
            assert_eq!(call("store_set", json!(["a", value])), Value::Null);
            assert_eq!(
                (call("store_get", json!(["a"])), call("store_list", json!([]))),
                (value, json!(["a"]))
            );
        }
        assert_eq!(call("store_list", json!(["b"])), json!([]));
        assert_eq!(
            (call("store_delete", json!(["a"])), call("store_delete", json!(["a"]))),
            (true.into(), false.into())
        );
        assert_eq!(call("store_get", json!(["a"])), Value::Null);
    }

    #[test]
    fn a_shared_store_takes_a_permission_with_its_name() {
        let fixtures = r#"{"store": {"a": 1}, "stores": {"team": {"a": 2}, "other": {"a": 3}}}"#;
        let get = |grants: &[&str], args: Value| {
            context(fixtures, grants).call("store_get", serde_json::from_value(args).unwrap())
        };
        assert_eq!(get(&["state"], json!(["a"])).unwrap(), 1);
        assert_eq!(get(&["store:team"], json!(["a", "team"])).unwrap(), 2);
        for (grants, args, needed) in [
            (&["store:team"][..], json!(["a"]), "grant state"),
            (&["state", "store:other"], json!(["a", "team"]), "grant store:team"),
            (&["state"], json!(["a", "team"]), "grant store:team"),
        ] {
            let error = get(grants, args).unwrap_err();
            assert_eq!((error.kind(), error.help()), (ErrorKind::Denied, Some(needed)), "{error}");
        }
        assert_eq!(get(&["state"], json!(["a", ""])).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn keys_and_values_are_bounded() {
        let ctx = context(r#"{"store": {}}"#, &["state"]);
        let kind = |key: String, value: Value| {
            ctx.call("store_set", vec![key.into(), value]).map_err(|error| error.kind()).map(drop)
        };
        for key in
            [String::new(), "x".repeat(257), "é".repeat(129), "a\nb".into(), "a\0".into(), "\u{85}".into()]
        {
            assert_eq!(kind(key.clone(), json!(1)), Err(ErrorKind::InvalidArgument), "{key:?}");
        }
        for key in ["x".repeat(256), "é".repeat(128), "../../etc/passwd".into(), "..".into(), "/".into()] {
            assert_eq!(kind(key.clone(), json!(1)), Ok(()), "{key:?}");
        }
        let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(kind("a".into(), "x".repeat(MAX_VALUE_BYTES - 2).into()), Ok(()));
        assert_eq!(kind("a".into(), deep(127)), Ok(()));
        for value in [json!("x".repeat(MAX_VALUE_BYTES - 1)), json!("\u{1}".repeat(11_000)), deep(200)] {
            assert_eq!(kind("a".into(), value), Err(ErrorKind::InvalidArgument));
        }
    }

    #[test]
    fn a_secret_of_the_run_or_of_its_caller_is_not_stored() {
        let fixtures = r#"{"store": {}, "secrets": {"TOKEN": "hunter2hunter2"}}"#;
        let ctx = context(fixtures, &["state", "secret:TOKEN"]);
        let set =
            |ctx: &SkillContext, key: &str, value: Value| ctx.call("store_set", vec![key.into(), value]);
        assert!(set(&ctx, "a", json!("hunter2hunter2")).is_ok(), "the run does not know it yet");
        ctx.call("secret", vec!["TOKEN".into()]).unwrap();
        let callee = SkillContext::builder("callee")
            .providers(ctx.providers().clone())
            .permissions(ctx.permissions().clone())
            .called_by(ctx.clone())
            .build();
        for ctx in [&ctx, &callee] {
            for (key, value) in [
                ("a", json!({"header": ["Bearer hunter2hunter2"]})),
                ("a", json!({"hunter2hunter2": 1})),
                ("hunter2hunter2", json!(1)),
            ] {
                let error = set(ctx, key, value).unwrap_err();
                assert!(
                    error.kind() == ErrorKind::Denied && !error.to_string().contains("hunter2"),
                    "{error}"
                );
            }
            assert!(set(ctx, "a", json!("harmless")).is_ok());
        }
    }
}
