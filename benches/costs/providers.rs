//! What a call of a provider costs: it is made on another thread, so that a provider that blocks cannot hold its run.

use std::hint::black_box;

use criterion::Criterion;
use metier::host::{ClosureTools, Providers, SkillContext, ToolProvider};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::policy::PathProtection;
use serde_json::{Value, json};

/// A call of a tool that does nothing, as a script makes it and as Rust does.
pub fn tool_calls(criterion: &mut Criterion) {
    let echo = || ClosureTools::new().tool("echo", "d", json!({}), |_, args| Ok(args.clone()));
    let providers = Providers::default().tools(echo());
    let grant = Permission::tool("echo").expect("a permission");
    let nothing: [String; 0] = [];
    let permissions = Permissions::new(RequestedPermissions::All, [grant], PathProtection::new(nothing));
    let context = SkillContext::builder("bench").providers(providers).permissions(permissions).build();
    let tools = echo();
    let mut group = criterion.benchmark_group("tool");
    group.bench_function("metier", |b| {
        b.iter(|| context.call("tool", vec!["echo".into(), black_box(json!(1))]).expect("answers"));
    });
    group.bench_function("direct", |b| {
        b.iter(|| -> Value { tools.call(&context, "echo", &black_box(json!(1))).expect("answers") });
    });
    group.finish();
}
