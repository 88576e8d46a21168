//! What clients write otherwise than the protocol has it, where only one thing can be meant: `[]` for an empty object, `null` for what is left
//! out, and incomplete facts about the client.

use serde_json::{Map, Value, json};

/// Makes the message what it was meant to be. Returns whether that changes it.
pub(super) fn repair(message: &mut Value) -> bool {
    let mut is_changed = remove_nulls_of_envelope(message);
    let mut replace = |value: &mut Value| is_changed |= replace_empty_list(value);
    for pointer in ["/params", "/params/_meta", "/params/arguments"] {
        message.pointer_mut(pointer).into_iter().for_each(&mut replace);
    }
    if message["method"] == "initialize"
        && let Some(params) = message.get_mut("params").and_then(Value::as_object_mut)
    {
        let repaired = with_client(params);
        is_changed |= repaired != *params;
        *params = repaired;
    }
    is_changed
}

/// Some serializers write each field of their type, so an answer has an error and a request has a result.
fn remove_nulls_of_envelope(message: &mut Value) -> bool {
    let Some(fields) = message.as_object_mut() else { return false };
    let is_null = |fields: &Map<String, Value>, name: &str| fields.get(name).is_some_and(Value::is_null);
    let method = fields.get("method").and_then(Value::as_str);
    let (is_call, is_notification) =
        (method.is_some(), method.is_some_and(|method| method.starts_with("notifications/")));
    let has_error = fields.get("error").is_some_and(|error| !error.is_null());
    let superfluous = [
        ("error", is_null(fields, "error")),
        // A result may be null, if it is one.
        ("result", is_null(fields, "result") && (is_call || has_error)),
        ("id", is_null(fields, "id") && is_notification),
        ("method", is_null(fields, "method")),
        ("params", is_null(fields, "params")),
    ];
    let names = superfluous.into_iter().filter(|(_, is_superfluous)| *is_superfluous);
    names.fold(false, |is_changed, (name, _)| fields.shift_remove(name).is_some() || is_changed)
}

/// PHP writes an empty object as `[]`.
fn replace_empty_list(value: &mut Value) -> bool {
    let is_empty = value.as_array().is_some_and(Vec::is_empty);
    if is_empty {
        *value = json!({});
    }
    is_empty
}

/// The parameters of `initialize`, with capabilities that are objects and the name and version of a client.
fn with_client(params: &Map<String, Value>) -> Map<String, Value> {
    let mut params = params.clone();
    let capabilities = params.get("capabilities").map_or_else(|| json!({}), with_objects);
    params.insert("capabilities".into(), capabilities);
    let mut client = params.get("clientInfo").and_then(Value::as_object).cloned().unwrap_or_default();
    client.retain(|_, value| !value.is_null());
    for field in ["name", "version"] {
        client.entry(field).or_insert_with(|| "".into());
    }
    params.insert("clientInfo".into(), client.into());
    params
}

/// The capabilities that are objects. What they hold stays as it is, but for `null` and `[]`.
fn with_objects(capabilities: &Value) -> Value {
    let object = |value: &Value| match value {
        Value::Object(fields) => Some(fields.clone()),
        Value::Bool(true) => Some(Map::new()),
        value => value.as_array().filter(|items| items.is_empty()).map(|_| Map::new()),
    };
    let capability = |(name, value): (&String, &Value)| {
        let mut fields = object(value)?;
        fields.retain(|_, value| {
            replace_empty_list(value);
            // Of these two each field is a capability.
            !value.is_null() && (value.is_object() || !matches!(name.as_str(), "experimental" | "extensions"))
        });
        Some((name.clone(), Value::Object(fields)))
    };
    let all = capabilities.as_object().into_iter().flatten();
    all.filter_map(capability).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(mut message: Value) -> Value {
        repair(&mut message);
        message
    }

    #[test]
    fn an_empty_list_is_an_empty_object_where_the_protocol_has_objects() {
        for (params, read_as) in [
            (json!([]), json!({})),
            (json!({"name": "x", "arguments": []}), json!({"name": "x", "arguments": {}})),
            (json!({"name": "x", "arguments": {"a": []}}), json!({"name": "x", "arguments": {"a": []}})),
            (json!({"_meta": []}), json!({"_meta": {}})),
            (json!([1]), json!([1])),
        ] {
            assert_eq!(repaired(json!({"method": "x", "params": params}))["params"], read_as);
        }
    }

    #[test]
    fn what_a_client_says_about_itself_is_taken_as_far_as_it_is_known() {
        let whole = json!({"name": "a", "version": "1"});
        let read = |capabilities: Value, client: Value| {
            let params =
                json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
            repaired(json!({"method": "initialize", "params": params}))["params"].clone()
        };
        for (capabilities, read_as) in [
            (json!({"roots": {"listChanged": true}}), json!({"roots": {"listChanged": true}})),
            (json!({"roots": {"listChanged": false}}), json!({"roots": {"listChanged": false}})),
            (json!({"roots": {"listChanged": null}}), json!({"roots": {}})),
            (json!(null), json!({})),
            (json!([]), json!({})),
            (
                json!({"sampling": [], "elicitation": {"form": []}}),
                json!({"sampling": {}, "elicitation": {"form": {}}}),
            ),
            (json!({"roots": true, "sampling": false, "elicitation": null}), json!({"roots": {}})),
            (
                json!({"experimental": {"x": [], "y": 7, "z": {"on": [true]}}}),
                json!({"experimental": {"x": {}, "z": {"on": [true]}}}),
            ),
        ] {
            assert_eq!(read(capabilities, whole.clone())["capabilities"], read_as);
        }
        let unnamed = json!({"name": "", "version": ""});
        for (client, read_as) in [
            (whole.clone(), whole.clone()),
            (json!(null), unnamed.clone()),
            (json!({"name": "a", "version": null}), json!({"name": "a", "version": ""})),
        ] {
            assert_eq!(read(json!({}), client)["clientInfo"], read_as);
        }
        let bare = repaired(json!({"method": "initialize", "params": {"protocolVersion": "2025-06-18"}}));
        assert_eq!(bare["params"]["clientInfo"], unnamed);
    }

    #[test]
    fn null_fields_of_a_message_are_left_out_where_they_say_nothing() {
        for (message, read_as) in [
            (
                json!({"id": 1, "method": "x", "result": null, "error": null, "params": null}),
                json!({"id": 1, "method": "x"}),
            ),
            (json!({"id": 1, "error": null, "result": {}, "method": null}), json!({"id": 1, "result": {}})),
            (json!({"id": 1, "error": {"code": 1}, "result": null}), json!({"id": 1, "error": {"code": 1}})),
            (json!({"id": 1, "result": null}), json!({"id": 1, "result": null})),
            (json!({"id": null, "method": "notifications/x"}), json!({"method": "notifications/x"})),
            (json!({"id": null, "method": "x"}), json!({"id": null, "method": "x"})),
        ] {
            assert_eq!(repaired(message), read_as);
        }
    }
}
