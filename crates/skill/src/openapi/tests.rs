//! Descriptions and the tools that are made of them.

use serde_json::{Map, Value as Json, json};

use metier_core::error::Hint;

use super::{OpenApiAuthentication, OpenApiImport, OpenApiOptions, OperationGroup, import_openapi};
use crate::contract::{Contract, call_definition};

/// A description with these paths and components.
fn description(paths: &Json, components: &Json) -> Json {
    json!({
        "openapi": "3.0.3", "info": {"title": "Acme API"}, "servers": [{"url": "https://api.acme.test/v1"}],
        "paths": paths, "components": components,
    })
}

fn import(description: &Json) -> OpenApiImport {
    import_openapi("api.json", description.to_string().as_bytes(), &OpenApiOptions::default()).unwrap()
}

fn refusal(description: &Json, options: &OpenApiOptions) -> String {
    let error = import_openapi("api.json", description.to_string().as_bytes(), options).expect_err("refused");
    format!("{}; {}", error.message(), error.help().unwrap_or_default())
}

/// The contract, which its own reader takes without a diagnostic.
fn contract(imported: &OpenApiImport) -> Contract {
    let [(_, skill_text), (file, source)] = &imported.skill.files[..] else { panic!("two files") };
    let text = std::str::from_utf8(skill_text).unwrap();
    let parsed = crate::parse(
        skill_text,
        crate::SkillLocation { directory: &imported.skill.name, file_name: "SKILL.md" },
    );
    assert!(parsed.diagnostics.is_empty(), "{text}: {:?}", parsed.diagnostics);
    let parsed = crate::formats::parse(file, source, parsed.manifest.as_ref());
    let source = std::str::from_utf8(source).unwrap();
    assert!(parsed.diagnostics.is_empty(), "{source}: {:?}", parsed.diagnostics);
    parsed.contract.unwrap()
}

/// The only tool that is made of an operation, `(inputs, http)`.
fn tool(method: &str, path: &str, operation: &Json, components: &Json) -> (Json, Json) {
    let imported = import(&description(&json!({path: {method: operation}}), components));
    let contract = contract(&imported);
    let [tool] = &contract.tools[..] else { panic!("one tool") };
    let inputs = tool.input_schema.as_ref().unwrap().json().clone();
    (inputs, serde_json::to_value(tool.http().unwrap()).unwrap())
}

/// What the schema of a parameter or a field becomes.
fn schema(written: &Json, components: &Json) -> Json {
    let body = json!({"required": true, "content": {"application/json": {"schema": {"type": "object", "properties": {"x": written}}}}});
    let (inputs, _) = tool("post", "/x", &json!({"requestBody": body}), components);
    inputs["properties"]["x"].clone()
}

fn groups(groups: &[OperationGroup]) -> Vec<(&str, usize)> {
    groups.iter().map(|group| (group.reason.as_str(), group.count)).collect()
}

#[test]
fn the_parts_of_an_operation_are_those_of_a_call() {
    let operation = json!({
        "operationId": "updateItem", "summary": "Updates $one item", "description": "It [must](https://a.test) exist.",
        "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}},
            {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
            {"name": "filter[name]", "in": "query", "schema": {"type": "string"}, "required": true, "description": "Only these."},
            {"name": "X-Request-Id", "in": "header", "schema": {"type": "string"}},
        ],
        "requestBody": {"content": {"application/json": {"schema": {
            "type": "object", "required": ["title"], "properties": {"title": {"type": "string"}, "id": {"type": "integer", "readOnly": true},
            "tag": {"type": "string"}},
        }}}},
    });
    let (inputs, http) = tool("patch", "/items/{id}.json", &operation, &json!({}));
    assert_eq!(
        inputs,
        json!({
            "type": "object", "required": ["id", "filter_name", "title"], "additionalProperties": false, "properties": {
                "id": {"type": "integer"}, "tag": {"type": "array", "items": {"type": "string"}},
                "filter_name": {"type": "string", "description": "Only these."}, "X-Request-Id": {"type": "string"},
                "title": {"type": "string"}, "body_tag": {"type": "string"},
            },
        })
    );
    assert_eq!(
        http,
        json!({
            "method": "PATCH", "path": "/items/${inputs.id}.json",
            "query": {"tag": "$inputs.tag", "filter[name]": "$inputs.filter_name"},
            "headers": {"X-Request-Id": "$inputs.X-Request-Id"},
            "body": {"title": "$inputs.title", "tag": "$inputs.body_tag"},
        })
    );
}

#[test]
fn a_schema_is_kept_as_far_as_a_contract_takes_it() {
    let components = json!({"schemas": {
        "name": {"type": "string", "minLength": 1}, "base": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}},
        "node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/node"}, "v": {"type": "integer"}}},
        "list": {"type": "array", "items": {"$ref": "#/components/schemas/list"}},
        "self": {"$ref": "#/components/schemas/self"},
    }});
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    for (written, expected) in [
        (
            json!({"type": "string", "nullable": true, "enum": ["a", "b"]}),
            json!({"type": ["string", "null"], "enum": ["a", "b", null]}),
        ),
        (json!({"type": ["integer", "null"]}), json!({"type": ["integer", "null"]})),
        (
            json!({"type": "string", "enum": [1, true, "x"]}),
            json!({"type": "string", "enum": ["1", "true", "x"]}),
        ),
        (
            json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}),
        ),
        (
            json!({"type": "number", "exclusiveMaximum": 5, "multipleOf": 0.5}),
            json!({"type": "number", "exclusiveMaximum": 5, "multipleOf": 0.5}),
        ),
        (
            json!({"type": "string", "format": "date", "pattern": "^a+$", "maxLength": 5, "default": "a", "example": "a", "x-y": 1, "xml": {}}),
            json!({"type": "string", "description": "Default: a", "maxLength": 5, "pattern": "^a+$", "format": "date"}),
        ),
        (reference("name"), json!({"type": "string", "minLength": 1})),
        (
            json!({"allOf": [reference("base"), {"properties": {"b": {"type": "string"}}, "required": ["b", "none"]}], "description": "Both."}),
            json!({"type": "object", "description": "Both.", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}], "nullable": true}),
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        ),
        (
            json!({"anyOf": [reference("name")], "nullable": true}),
            json!({"type": ["string", "null"], "minLength": 1}),
        ),
        (json!({"anyOf": [{"type": "string"}, {}]}), json!({})),
        (
            reference("node"),
            json!({"type": "object", "properties": {"next": {"type": "object"}, "v": {"type": "integer"}}}),
        ),
        (reference("list"), json!({"type": "array", "items": {"type": "array"}})),
        (reference("self"), json!({})),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (
            json!({"properties": {"a": {"type": "string", "readOnly": true}, "b": {}}, "required": ["a", "b"], "additionalProperties": false}),
            json!({"additionalProperties": false, "type": "object", "properties": {"b": {}}, "required": ["b"]}),
        ),
        (json!({"type": "string", "pattern": "^(?!a)"}), json!({"type": "string"})),
        (
            json!({"type": 7, "minLength": "x", "enum": {}, "properties": [], "allOf": {}, "items": 5, "required": "x", "minimum": "a"}),
            json!({}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": false}),
            json!({"type": "array"}),
        ),
        (json!({"enum": [{"a": 1}]}), json!({})),
        (
            json!({"type": "string", "enum": (0..200).map(|n| n.to_string()).collect::<Vec<_>>()}),
            json!({"type": "string"}),
        ),
        (
            json!({"properties": {"a\u{1}": {}, "b": {"type": "string", "enum": ["\u{0}"]}}}),
            json!({"type": "object", "properties": {"b": {"type": "string"}}}),
        ),
        (json!(true), json!({})),
    ] {
        let written_before = written.clone();
        // An empty schema is no schema, and a recursive one is not the only field.
        let found = schema(&written, &components);
        assert_eq!(found, expected, "{written_before}");
    }
}

const EXTERNAL: &str = "it refers to another file, and only references inside the description are followed";

/// An operation with this key beside one that can be called: it alone is left out, for this reason.
#[track_caller]
fn left_out(method: &str, path: &str, operation: &Json, reason: &str) {
    let imported = import(&description(&json!({"/ok": {"get": {}}, path: {method: operation}}), &json!({})));
    assert_eq!(groups(&imported.left_out), [(reason, 1)], "{method} {path} {operation}");
    assert_eq!((imported.operations, imported.chosen, imported.tools), (2, 2, 1));
    assert_eq!(imported.left_out[0].examples, [format!("{} {path}", method.to_uppercase())]);
    contract(&imported);
}

#[test]
fn a_parameter_that_must_be_there_and_cannot_leaves_the_operation_out() {
    let object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for (parameter, reason) in [
        (json!({"in": "cookie"}), "it has a parameter in a cookie"),
        (json!({"in": "moon"}), "it has a parameter in a place that calls do not have"),
        (json!({"schema": object}), "it has a parameter that is an object"),
        (
            json!({"in": "path", "style": "deepObject", "schema": object}),
            "it has a parameter that is an object",
        ),
        (
            json!({"schema": {"type": "array", "items": {"type": "array"}}}),
            "it has a list of lists in a parameter",
        ),
        (json!({"in": "path", "style": "matrix"}), "it has a parameter in the style matrix or label"),
        (
            json!({"in": "path", "style": "label", "schema": {"type": "array"}}),
            "it has a parameter in the style matrix or label",
        ),
        (json!({"content": {"application/json": {}}}), "it has a parameter that is JSON in a text"),
        (json!({"name": "Host", "in": "header"}), "it has a parameter in a header that calls cannot set"),
        (json!({"name": "a b", "in": "header"}), "it has a parameter in a header that calls cannot set"),
        (json!({"name": "a\r\nb", "in": "header"}), "it has a parameter with a name that calls cannot send"),
        (json!({"name": "", "in": "query"}), "it has a parameter with a name that calls cannot send"),
        (json!({"schema": {"$ref": "x.json"}}), EXTERNAL),
        (json!({"$ref": "common.yaml#/a"}), EXTERNAL),
        (json!({"$ref": "#/none"}), "a reference of it leads nowhere"),
    ] {
        let mut written = json!({"name": "a", "in": "query", "required": true});
        written.as_object_mut().unwrap().extend(parameter.as_object().unwrap().clone());
        left_out("get", "/{a}", &json!({"parameters": [written]}), reason);
    }
}

#[test]
fn the_fields_of_a_form_are_inputs() {
    let schema = json!({
        "type": "object", "required": ["amount"],
        "properties": {
            "amount": {"type": "integer"}, "currency": {"anyOf": [{"type": "string"}, {"enum": [""]}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "expand": {"type": "array", "items": {"type": "string"}}, "metadata": {"type": "object"},
            "rows": {"type": "array", "items": {"type": "object"}},
        },
    });
    let content = json!({"schema": schema, "encoding": {"expand": {"style": "deepObject", "explode": true}, "tags": {"style": "form"}}});
    let operation = json!({"requestBody": {"content": {"application/x-www-form-urlencoded": content}}});
    let (inputs, http) = tool("post", "/charges", &operation, &json!({}));
    let expected = json!({
        "amount": "$inputs.amount", "currency": "$inputs.currency", "tags": "$inputs.tags", "expand": "$inputs.expand",
    });
    assert_eq!((&http["form"], http.get("body")), (&expected, None));
    assert_eq!(http["deep_object"], json!(["expand"]));
    assert_eq!(inputs["required"], json!(["amount"]));
    let names: Vec<&String> = inputs["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["amount", "currency", "tags", "expand"]);
}

#[test]
fn a_form_that_has_no_field_is_not_sent() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let body = json!({"content": {"application/x-www-form-urlencoded": {"schema": schema}}});
    let paths = json!({"/x/{id}": {"delete": {"requestBody": body}}});
    let imported = import(&description(&paths, &json!({})));
    assert_eq!(groups(&imported.simplified), []);
    let call = serde_json::to_value(contract(&imported).tools[0].http().unwrap()).unwrap();
    assert_eq!(call, json!({"method": "DELETE", "path": "/x/${inputs.id}"}));
}

#[test]
fn objects_in_the_style_deep_object_are_inputs() {
    let range = json!({"anyOf": [{"type": "object", "properties": {"gte": {"type": "integer"}}}, {"type": "integer"}]});
    let rows = json!({"type": "array", "items": {"type": "object", "required": ["price"], "properties": {"price": {"type": "string"}}}});
    let form = json!({
        "schema": {"type": "object", "required": ["rows"], "properties": {"rows": rows, "created": {"type": "string"}}},
        "encoding": {"rows": {"style": "deepObject"}, "created": {"style": "deepObject"}},
    });
    let operation = json!({
        "parameters": [{"name": "created", "in": "query", "style": "deepObject", "explode": true, "schema": range}],
        "requestBody": {"required": true, "content": {"application/x-www-form-urlencoded": form}},
    });
    let (inputs, http) = tool("post", "/orders", &operation, &json!({}));
    assert_eq!(inputs["properties"]["created"], range);
    assert_eq!(inputs["properties"]["rows"], rows);
    assert_eq!(
        http,
        json!({
            "method": "POST", "path": "/orders", "query": {"created": "$inputs.created"},
            "form": {"rows": "$inputs.rows", "created": "$inputs.body_created"}, "deep_object": ["created", "rows"],
        })
    );
}

#[test]
fn a_deep_object_may_have_any_name() {
    let names = [
        "",
        "$inputs.x",
        "${secrets.t}",
        "1",
        "yes",
        "null",
        "~",
        "a: b",
        "- a",
        "#",
        "\u{202e}",
        "é[x]",
        " ",
    ];
    let fields: Map<String, Json> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "object"}))).collect();
    let encoding: Map<String, Json> =
        names.iter().map(|name| ((*name).to_owned(), json!({"style": "deepObject"}))).collect();
    let form = json!({"schema": {"type": "object", "properties": fields}, "encoding": encoding});
    let operation =
        json!({"requestBody": {"required": true, "content": {"application/x-www-form-urlencoded": form}}});
    let (_, http) = tool("post", "/x", &operation, &json!({}));
    assert_eq!(http["deep_object"].as_array().unwrap().len(), names.len());
}

#[test]
fn a_list_with_signs_between_its_items_is_a_text() {
    let list = json!({"type": "array", "description": "The states.", "items": {"type": "string", "enum": ["open", "done"]}});
    for (parameter, words) in [
        (
            json!({"explode": false, "schema": list}),
            "The states. Several of open, done, with commas between them.",
        ),
        (
            json!({"explode": false, "schema": list, "description": "Which."}),
            "Which. Several of open, done, with commas between them.",
        ),
        (
            json!({"style": "pipeDelimited", "schema": {"type": "array", "items": {"type": "integer"}}}),
            "Several, with | between them.",
        ),
        (
            json!({"style": "spaceDelimited", "schema": {"type": "array"}}),
            "Several, with blanks between them.",
        ),
        (json!({"in": "path", "schema": {"type": "array"}}), "Several, with commas between them."),
        (json!({"in": "header", "schema": {"type": "array"}}), "Several, with commas between them."),
    ] {
        let mut written = json!({"name": "a", "in": "query"});
        written.as_object_mut().unwrap().extend(parameter.as_object().unwrap().clone());
        let (inputs, http) = tool("get", "/{a}", &json!({"parameters": [written]}), &json!({}));
        let name = if written["in"] == "path" { "a" } else { "query_a" };
        let found = inputs["properties"].get(name).or_else(|| inputs["properties"].get("header_a"));
        assert_eq!(found, Some(&json!({"type": "string", "description": words})), "{written}: {http}");
    }
    let exploded =
        json!({"name": "a", "in": "query", "style": "pipeDelimited", "explode": true, "schema": list});
    let (inputs, _) = tool("get", "/x", &json!({"parameters": [exploded]}), &json!({}));
    assert_eq!(inputs["properties"]["a"], list);
    let many: Vec<String> = (0..100).map(|n| format!("choice-{n}")).collect();
    let long = json!({"name": "a", "in": "query", "explode": false, "description": "x".repeat(5_000),
        "schema": {"type": "array", "items": {"type": "string", "enum": many}}});
    let (inputs, _) = tool("get", "/x", &json!({"parameters": [long]}), &json!({}));
    assert!(inputs["properties"]["a"]["description"].as_str().unwrap().chars().count() < 410);
}

#[test]
fn a_body_that_is_a_text_is_one_input() {
    let body = |kind: &str, schema: Json| json!({"requestBody": {"required": true, "content": {kind: {"schema": schema}}}});
    for (kind, schema) in [
        ("text/plain", json!({"type": "string"})),
        ("text/x-markdown; charset=utf-8", json!({})),
        ("application/yaml", json!({"type": "object", "properties": {"a": {}}})),
    ] {
        let (inputs, http) = tool("post", "/x", &body(kind, schema), &json!({}));
        let plain = kind.split(';').next().unwrap();
        let expected = json!({"type": "string", "description": format!("The body, which is {plain}.")});
        assert_eq!(
            (&inputs["properties"]["body"], &inputs["required"]),
            (&expected, &json!(["body"])),
            "{kind}"
        );
        assert_eq!(http["text"], "$inputs.body");
        assert_eq!(http["headers"], json!({"Content-Type": plain}));
    }
}

#[test]
fn what_calls_cannot_do_is_left_out_with_the_reason() {
    let body = |kind: &str, schema: Json| json!({"requestBody": {"required": true, "content": {kind: {"schema": schema}}}});
    let object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for path in
        ["/x/../y", "/x//y", "/x?a=b", "/x#a", "/{a", "/a%2fb", "/a\r\nb", "/ä", "/a b", "/a\\b", "/./a"]
    {
        left_out("get", path, &json!({}), "its path cannot be that of a call");
    }
    for (method, operation, reason) in [
        ("options", json!({}), "its method is none of a call"),
        ("get", json!({"servers": [{"url": "https://other.test"}]}), "it has a server of its own"),
        ("get", json!({"deprecated": true}), "it is deprecated, and no pattern names it"),
        (
            "post",
            body("application/x-www-form-urlencoded", json!({"type": "object"})),
            "its body is a form without fields of its own",
        ),
        (
            "post",
            body(
                "application/x-www-form-urlencoded",
                json!({"properties": {"card": {"type": "object"}}, "required": ["card"]}),
            ),
            "its body is a form, and the field card is no text, number or list of them",
        ),
        ("post", body("multipart/form-data", object.clone()), "its body is multipart/form-data and not JSON"),
        ("post", body("application/json", json!({"$ref": "https://a.test/x.json"})), EXTERNAL),
        ("post", body("a\r\nb: c+json", object.clone()), "its body is a\\r\\nb: c+json and not JSON"),
        ("get", body("application/json", object), "it reads and has a body"),
        (
            "get",
            json!({"responses": {"200": {"content": {"image/png": {}}}}}),
            "it answers with image/png, which is neither JSON nor a text",
        ),
        (
            "get",
            json!({"security": [{"none": []}]}),
            "it needs an authentication that the description does not define",
        ),
    ] {
        left_out(method, "/x", &operation, reason);
    }
}

#[test]
fn what_need_not_be_there_is_left_out_of_the_tool() {
    let parameters = json!([
        {"name": "session", "in": "cookie"},
        {"name": "filter", "in": "query", "schema": {"type": "object", "properties": {"a": {}}}},
        {"name": "Authorization", "in": "header", "required": true}, {"name": "accept", "in": "header"},
        {"name": "Content-Length", "in": "header"}, {"name": "old", "in": "query", "deprecated": true},
        {"name": "elsewhere", "in": "path", "required": true}, {"name": "q", "in": "query"}, 7, {},
    ]);
    let operation = json!({"parameters": parameters, "requestBody": {"content": {"text/csv": {"schema": {"type": "string"}}}}});
    let imported = import(&description(&json!({"/x": {"delete": operation}}), &json!({})));
    let contract = contract(&imported);
    let tool = &contract.tools[0];
    assert_eq!(tool.input_schema.as_ref().unwrap().names(), ["q"]);
    assert_eq!(
        serde_json::to_value(tool.http().unwrap()).unwrap(),
        json!({"method": "DELETE", "path": "/x", "query": {"q": "$inputs.q"}})
    );
    let mut reasons = groups(&imported.simplified);
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            ("it can have a body that calls do not send", 1),
            ("it has a parameter in a cookie", 1),
            ("it has a parameter in a header that calls cannot set", 1),
            ("it has a parameter that is an object", 1),
        ]
    );
}

#[test]
fn a_body_is_an_input_for_each_field_or_one_input() {
    let post = |body: &Json| {
        let (inputs, http) = tool("post", "/x", &json!({"requestBody": body}), &json!({}));
        (
            inputs["properties"].clone(),
            inputs["required"].clone(),
            http["body"].clone(),
            http["headers"].clone(),
        )
    };
    let json_body = |schema: Json| json!({"content": {"application/json": {"schema": schema}}});
    let whole = (json!("$inputs.body"), Json::Null);
    let list = post(&json_body(json!({"type": "array", "items": {"type": "string"}})));
    assert_eq!(
        list,
        (
            json!({"body": {"type": "array", "items": {"type": "string"}}}),
            json!(["body"]),
            whole.0.clone(),
            Json::Null
        )
    );
    let alternatives =
        json!({"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "string"}]});
    assert_eq!(post(&json_body(alternatives)).2, whole.0);
    let map = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}});
    assert_eq!(post(&json_body(map)).2, whole.0);
    let sets = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(post(&json_body(sets)).2, json!({"a": "$inputs.a", "b": "$inputs.b"}));
    let vendor = json!({"content": {"application/vnd.api+json; ext=\"x\"": {"schema": {"properties": {"a": {"type": "string"}}}}}});
    let (_, _, body, headers) = post(&vendor);
    assert_eq!(
        (body, headers),
        (json!({"a": "$inputs.a"}), json!({"Content-Type": "application/vnd.api+json"}))
    );
}

#[test]
fn names_that_collide_or_mean_something_elsewhere_get_a_prefix() {
    let parameter =
        |name: &str, place: &str| json!({"name": name, "in": place, "schema": {"type": "string"}});
    let operation = json!({
        "parameters": [
            parameter("id", "query"), parameter("id", "path"), parameter("ID", "header"), parameter("__proto__", "query"), parameter("a[b]", "query"),
            parameter("a.b", "query"), parameter("a_b", "query"), parameter("$inputs", "query"), parameter("\u{202e}", "query"), parameter("constructor", "query"),
        ],
        "requestBody": {"content": {"application/json": {"schema": {"properties": {"id": {}, "body_id": {}, "toString": {}, "hasOwnProperty": {}}}}}},
    });
    let (inputs, http) = tool("put", "/x/{id}", &operation, &json!({}));
    let names: Vec<&String> = inputs["properties"].as_object().unwrap().keys().collect();
    let expected = [
        "id",
        "query_id",
        "__proto__",
        "a_b",
        "a.b",
        "query_a_b",
        "_inputs",
        "value",
        "constructor",
        "header_ID",
        "body_id",
        "body_body_id",
        "toString",
        "hasOwnProperty",
    ];
    assert_eq!(names, expected);
    assert_eq!(http["path"], "/x/${inputs.id}");
    assert_eq!(http["query"]["__proto__"], "$inputs.__proto__");
    assert_eq!(http["query"]["a.b"], "$inputs[\"a.b\"]");
    assert_eq!(http["query"]["\u{202e}"], "$inputs.value");
    assert_eq!(http["body"]["body_id"], "$inputs.body_body_id");
}

#[test]
fn secrets_are_bound_to_the_host_and_no_text_becomes_a_reference() {
    let schemes = json!({"securitySchemes": {"t": {"type": "http", "scheme": "bearer", "description": "${secrets.x}"}}});
    let paths = json!({"/$a/(b)": {"get": {
        "summary": "Costs $5 ${inputs.x} \u{202e}and\u{1b}[31m \"more\": #1\n- !x *y &z", "operationId": "../../$x",
        "parameters": [{"name": "q", "in": "query", "description": "$secrets.ACME_TOKEN", "schema": {"type": "string", "enum": ["$inputs.q", "yes", "1.0", "~"]}},
            {"name": "authorization", "in": "header"}],
    }}});
    let mut written = description(&paths, &schemes);
    written["security"] = json!([{"t": []}]);
    let imported = import(&written);
    let contract = contract(&imported);
    let tool = &contract.tools[0];
    assert_eq!(tool.name, "x");
    assert_eq!(tool.description.as_deref(), Some("Costs $5 ${inputs.x} and[31m \"more\": #1 - !x *y &z."));
    let http = serde_json::to_value(tool.http().unwrap()).unwrap();
    assert_eq!(http["path"], "/$$a/(b)");
    assert_eq!(http["headers"], json!({"Authorization": "Bearer ${secrets.ACME_TOKEN}"}));
    let enumeration = &tool.input_schema.as_ref().unwrap().json()["properties"]["q"]["enum"];
    assert_eq!(enumeration, &json!(["$inputs.q", "yes", "1.0", "~"]));
    let secret = &contract.config[0];
    assert_eq!((secret.key.as_str(), &secret.hosts[..]), ("ACME_TOKEN", &["api.acme.test".to_owned()][..]));
    assert_eq!(secret.env.as_deref(), Some("ACME_TOKEN"));
    let call = call_definition(tool.http().unwrap());
    let permissions: Vec<String> = call
        .literal_host_permission()
        .into_iter()
        .chain(call.value_permissions(&contract.config))
        .map(|it| it.to_string())
        .collect();
    assert!(permissions.contains(&"secret:ACME_TOKEN@api.acme.test".to_owned()), "{permissions:?}");
}

#[test]
fn the_way_of_authentication_can_be_stated() {
    let written = description(
        &json!({"/x": {"get": {"parameters": [{"name": "X-Key", "in": "header", "required": true}], "security": [{"o": []}]}}}),
        &json!({"securitySchemes": {"o": {"type": "oauth2"}}}),
    );
    let headers = |authentication: OpenApiAuthentication| {
        let options = OpenApiOptions { authentication: Some(authentication), ..OpenApiOptions::default() };
        let imported = import_openapi("x", written.to_string().as_bytes(), &options).unwrap();
        serde_json::to_value(contract(&imported).tools[0].http().unwrap()).unwrap()["headers"].clone()
    };
    let key = json!("$inputs.X-Key");
    assert_eq!(
        headers(OpenApiAuthentication::Bearer),
        json!({"X-Key": key, "Authorization": "Bearer ${secrets.ACME_TOKEN}"})
    );
    assert_eq!(
        headers(OpenApiAuthentication::Basic),
        json!({"X-Key": key, "Authorization": "Basic ${secrets.ACME_CREDENTIALS}"})
    );
    assert_eq!(
        headers(OpenApiAuthentication::Header("X-Key".to_owned())),
        json!({"X-Key": "$secrets.ACME_API_KEY"})
    );
    let refused =
        import_openapi("x", written.to_string().as_bytes(), &OpenApiOptions::default()).unwrap_err();
    assert_eq!(
        refused.message(),
        "failed to import x: none of its operations can be called: it needs OAuth 2 (1 of 1)"
    );
    assert_eq!(refused.hint(), Some(&Hint::Authentication));
    for name in ["", "Host", "a\r\nb", "a b"] {
        let options = OpenApiOptions {
            authentication: Some(OpenApiAuthentication::Header(name.to_owned())),
            ..OpenApiOptions::default()
        };
        assert!(refusal(&written, &options).contains("cannot carry a secret"), "{name:?}");
    }
}

#[test]
fn methods_say_how_far_a_call_may_go() {
    let methods = ["get", "head", "post", "put", "patch", "delete"];
    let item: Map<String, Json> = methods.iter().map(|method| ((*method).to_owned(), json!({}))).collect();
    let contract = contract(&import(&description(&json!({"/x": item}), &json!({}))));
    let risks: Vec<(&str, u8)> =
        contract.tools.iter().map(|tool| (tool.name.as_str(), tool.risk_score.unwrap())).collect();
    assert_eq!(
        risks,
        [("get_x", 0), ("head_x", 0), ("post_x", 70), ("put_x", 70), ("patch_x", 70), ("delete_x", 80)]
    );
    assert!(contract.tools.iter().all(|tool| !tool.requires_confirmation));
    assert_eq!(contract.tools[0].description.as_deref(), Some("GET /x"));
}

#[test]
fn deprecated_operations_become_tools_where_a_pattern_names_them() {
    let written = description(
        &json!({"/x": {"get": {"deprecated": true, "operationId": "old", "tags": ["t"]}}, "/y": {"get": {"tags": ["t"]}}}),
        &json!({}),
    );
    let made = |only: &[&str], includes_deprecated| {
        let options = OpenApiOptions {
            only: only.iter().map(|it| (*it).to_owned()).collect(),
            includes_deprecated,
            ..OpenApiOptions::default()
        };
        import_openapi("x", written.to_string().as_bytes(), &options).map_or(0, |imported| imported.tools)
    };
    assert_eq!(made(&[], false), 1);
    assert_eq!(made(&["tag:t"], false), 1);
    assert_eq!(made(&["tag:t"], true), 2);
    assert_eq!(made(&["old"], false), 1);
    assert_eq!(made(&["GET /x"], false), 1);
    assert_eq!(made(&["o*"], false), 0);
}

#[test]
fn paths_and_their_parameters_may_be_references() {
    let paths = json!({
        "/x/{id}": {"$ref": "#/components/pathItems/x"},
        "/y/{path}": {"parameters": [{"name": "path", "in": "path", "x-multi-segment": true, "schema": {"type": "string"}}],
            "get": {"parameters": [{"name": "path", "in": "path", "x-multi-segment": true, "description": "Its place."}]}},
        "/z/{a}/{b}x": {"get": {}}, "x-other": {"get": {}},
    });
    let components = json!({
        "pathItems": {"x": {"parameters": [{"$ref": "#/components/parameters/id"}], "get": {}}},
        "parameters": {"id": {"name": "id", "in": "path", "required": true, "schema": {"$ref": "#/components/schemas/id"}}},
        "schemas": {"id": {"type": "integer", "minimum": 1, "readOnly": true}},
    });
    let contract = contract(&import(&description(&paths, &components)));
    let calls: Vec<Json> =
        contract.tools.iter().map(|tool| serde_json::to_value(tool.http().unwrap()).unwrap()).collect();
    assert_eq!(
        calls,
        [
            json!({"path": "/x/${inputs.id}"}),
            json!({"path": "/y/${inputs.path}", "multi_segment": ["path"]}),
            json!({"path": "/z/${inputs.a}/${inputs.b}x"})
        ]
    );
    let inputs = contract.tools[0].input_schema.as_ref().unwrap().json();
    assert_eq!(inputs["properties"]["id"], json!({"type": "integer", "minimum": 1}));
}

#[test]
fn what_a_contract_has_no_place_for_is_refused_with_how_to_choose() {
    let paths: Map<String, Json> =
        (0..300).map(|n| (format!("/p{n}"), json!({"get": {"tags": [format!("t{}", n % 3)]}}))).collect();
    let written = description(&paths.into(), &json!({}));
    let refused = refusal(&written, &OpenApiOptions::default());
    assert!(refused.contains("a contract has place for the first 256 of 300 tools"), "{refused}");
    assert!(refused.contains("its tags are t0 (100), t1 (100), t2 (100)"), "{refused}");
    let options = OpenApiOptions { only: vec!["tag:t1".to_owned()], ..OpenApiOptions::default() };
    assert_eq!(import_openapi("x", written.to_string().as_bytes(), &options).unwrap().tools, 100);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let written = description(&json!({"/x": {"get": {}}}), &json!({}));
    for (options, words) in [
        (OpenApiOptions { name: Some("../x".to_owned()), ..OpenApiOptions::default() }, "write x"),
        (OpenApiOptions { name: Some("Git Hub".to_owned()), ..OpenApiOptions::default() }, "write git-hub"),
        (
            OpenApiOptions { base_url: Some("ftp://x".to_owned()), ..OpenApiOptions::default() },
            "cannot be the base URL",
        ),
        (
            OpenApiOptions { only: vec!["tag:none".to_owned()], ..OpenApiOptions::default() },
            "no operation fits `tag:none`",
        ),
    ] {
        let refused = refusal(&written, &options);
        assert!(refused.contains(words), "{refused}");
    }
    let mut nameless = written.clone();
    nameless["info"] = json!({"title": "API"});
    assert_eq!(import(&nameless).skill.name, "acme", "of the host");
    nameless["servers"] = json!([{"url": "http://127.0.0.1"}]);
    assert!(refusal(&nameless, &OpenApiOptions::default()).contains("makes no name"));
    for paths in [json!({}), json!([]), json!(null)] {
        assert!(
            refusal(&description(&paths, &json!({})), &OpenApiOptions::default())
                .contains("it has no operations")
        );
    }
}

/// Descriptions that are small and mean much.
#[test]
fn no_description_takes_more_than_its_bound() {
    let reference = |name: String| json!({"$ref": format!("#/components/schemas/{name}")});
    let schemas = |make: &dyn Fn(usize) -> Json, count: usize| {
        let named: Map<String, Json> = (0..count).map(|n| (format!("s{n}"), make(n))).collect();
        json!({"schemas": named})
    };
    let doubled_all =
        |n: usize| json!({"allOf": [reference(format!("s{}", n + 1)), reference(format!("s{}", n + 1))]});
    let doubled_any = |n: usize| json!({"anyOf": [reference(format!("s{}", n + 1)), {"type": "object", "properties": {"a": reference(format!("s{}", n + 1))}}]});
    let doubled_fields = |n: usize| {
        let fields: Map<String, Json> =
            (0..10).map(|at| (format!("f{at}"), reference(format!("s{}", n + 1)))).collect();
        json!({"type": "object", "properties": fields})
    };
    let chain = |n: usize| reference(format!("s{}", n + 1));
    let circle = |n: usize| json!({"properties": {"a": reference(format!("s{}", (n + 1) % 50)), "b": reference(format!("s{}", (n + 7) % 50))}});
    let wide = |_: usize| {
        let fields: Map<String, Json> =
            (0..5_000).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
        json!({"properties": fields})
    };
    let choices = |_: usize| json!({"enum": (0..100_000).collect::<Vec<_>>()});
    for (what, components) in [
        ("allOf", schemas(&doubled_all, 60)),
        ("anyOf", schemas(&doubled_any, 60)),
        ("fields", schemas(&doubled_fields, 60)),
        ("chain", schemas(&chain, 5_000)),
        ("circle", schemas(&circle, 50)),
        ("wide", schemas(&wide, 1)),
        ("choices", schemas(&choices, 1)),
    ] {
        let body = json!({"content": {"application/json": {"schema": reference("s0".to_owned())}}});
        let paths: Map<String, Json> =
            (0..40).map(|n| (format!("/p{n}"), json!({"post": {"requestBody": body}}))).collect();
        let mut paths = Json::from(paths);
        paths["/ok"] = json!({"get": {}});
        let start = std::time::Instant::now();
        let made = import_openapi(
            "x",
            description(&paths, &components).to_string().as_bytes(),
            &OpenApiOptions::default(),
        );
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{what}: {:?}", start.elapsed());
        match made {
            Ok(made) => drop(contract(&made)),
            Err(error) => assert!(error.message().contains("a contract has place for"), "{what}: {error}"),
        }
    }
    let deep = (0..90).fold(json!({"type": "string"}), |inner, _| json!({"items": inner}));
    let found = schema(&deep, &json!({}));
    assert!(found.to_string().len() < 500, "{found}");
}
