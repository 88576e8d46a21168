//! Calls are stopped, report progress, wait their turn, and end with the server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
use crate::mcp::processes::{processes, wait_until};
use crate::support::cli::Project;

const ENDLESS: &str = "while true do end";

#[test]
fn a_cancelled_call_stops_and_is_not_answered() {
    let project = Project::new().lua("endless", ENDLESS).lua("quick", "return 'quick'").trusted();
    let mut client = project.client(&["--max-calls", "1"]);
    let id = client.start("tools/call", json!({"name": "endless", "arguments": {}}));
    std::thread::sleep(Duration::from_millis(200));
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    // The only place is free again.
    assert_eq!(client.text("quick", json!({})), "quick");
    assert!(client.messages.iter().all(|message| message["id"] != id), "{:?}", client.messages);
}

#[test]
fn a_value_is_used_again_only_where_the_server_is_configured_so() {
    let contract = "metadata: {idempotent: true, cacheable: true, cache_ttl: 5m}\n";
    let project = Project::new()
        .lua("reads", "return ctx.read_file('n.txt')")
        .file(".metier/skills/reads/skill.yaml", contract)
        .trusted();
    for (arguments, is_cached) in [(vec![], false), (vec!["--cache-results"], true)] {
        let mut client = project.client(&arguments);
        let mut call = |text: &str| {
            std::fs::write(project.path("n.txt"), text).unwrap();
            let result = client.call("reads", json!({}));
            assert_eq!(result["content"][0]["text"], text, "{arguments:?}");
            result["_meta"]["metier/cached"]["age_ms"].is_u64()
        };
        assert_eq!(
            [call("old"), call("old"), call("new"), call("new")],
            [false, is_cached, false, is_cached]
        );
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_cancelled_call_ends_its_whole_process_tree() {
    let project =
        Project::new().shell("tree", "sleep 7654.321 & (sleep 7654.322 & sleep 7654.323) & wait").trusted();
    let mut client = project.client(&[]);
    let id = client.start("tools/call", json!({"name": "tree", "arguments": {}}));
    wait_until(|| processes("7654.32") == 3);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    wait_until(|| processes("7654.32") == 0);
    assert!(client.tool_names().contains(&"tree".to_owned()), "the server goes on");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_end_of_the_client_ends_what_it_started() {
    for (number, signal) in [("8765.431", false), ("8765.432", true)] {
        let project = Project::new().shell("tree", &format!("sleep {number} & wait")).trusted();
        let mut client = project.client(&[]);
        client.start("tools/call", json!({"name": "tree", "arguments": {}}));
        wait_until(|| processes(number) == 1);
        let started = Instant::now();
        if signal {
            let pid = rustix::process::Pid::from_child(&client.child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        } else {
            client.close();
        }
        let (code, stderr) = client.wait();
        assert_eq!(code, Some(0), "{stderr}");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(processes(number), 0);
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_killed_server_leaves_no_process() {
    let project = Project::new().shell("tree", "sleep 6543.211 & (sleep 6543.212) & wait").trusted();
    let mut client = project.client(&[]);
    client.start("tools/call", json!({"name": "tree", "arguments": {}}));
    wait_until(|| processes("6543.21") == 2);
    client.child.kill().unwrap();
    wait_until(|| processes("6543.21") == 0);
}

#[test]
fn progress_is_reported_to_whoever_asks_and_grows() {
    let script =
        "for i = 1, 3 do ctx.progress('step ' .. i, i, 3) end ctx.progress('back', 1, 3) return 'end'";
    let project = Project::new().lua("steps", script).trusted();
    let mut client = project.client(&[]);
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let id = client.start("tools/call", params);
    assert_eq!(client.response(id)["result"]["content"][0]["text"], "end");
    let reports: Vec<_> =
        client.messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert_eq!(reports.len(), 4, "{reports:?}");
    assert!(reports.iter().all(|report| report["params"]["progressToken"] == "mine"));
    assert_eq!(reports[1]["params"]["message"], "step 2");
    assert_eq!(reports[1]["params"]["total"], 3.0);
    let amounts: Vec<f64> =
        reports.iter().map(|report| report["params"]["progress"].as_f64().unwrap()).collect();
    assert!(amounts.windows(2).all(|pair| pair[0] < pair[1]), "{amounts:?}");
    client.text("steps", json!({}));
    assert_eq!(client.messages.len(), 4, "nobody asked");
}

#[test]
fn thousands_of_calls_wait_their_turn_and_none_is_lost() {
    const CALLS: i64 = 2_000;
    let project = Project::new().lua("double", "return {n = input.n * 2}").trusted();
    let mut client = project.client(&["--max-calls", "4"]);
    let params = |n: i64| json!({"name": "double", "arguments": {"input": {"n": n}}});
    let mut ids: BTreeSet<i64> = (0..CALLS).map(|n| client.start("tools/call", params(n))).collect();
    let first = *ids.first().unwrap();
    while !ids.is_empty() {
        let answer = client.wait_for(|message| message.get("result").is_some());
        let id = answer["id"].as_i64().unwrap();
        assert!(ids.remove(&id), "answered twice: {answer}");
        assert_eq!(answer["result"]["structuredContent"]["n"], (id - first) * 2);
    }
}

#[test]
fn a_call_ends_at_its_deadline() {
    // SY-35
    let project = Project::new().lua("endless", ENDLESS).trusted();
    let result = project.client(&["--timeout", "100ms"]).call("endless", json!({}));
    assert_eq!(result["_meta"]["metier/error"]["kind"], "timeout");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("--timeout"), "{result}");
}

#[test]
fn nothing_but_the_protocol_is_written_to_standard_output() {
    // SY-35, AK-08
    let project = Project::new()
        .lua("loud", "print('loud') ctx.log('info', 'louder') ctx.progress('loudest') return 'quiet'")
        .trusted();
    let mut client = project.client(&[]);
    assert_eq!(client.text("loud", json!({})), "quiet");
    client.close();
    // The client fails at every line that is not a message.
    assert!(client.next(Duration::from_secs(5)).is_none());
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_streams_of_a_process_are_not_those_of_the_server() {
    let project =
        Project::new().shell("loud", "echo loud >&2; echo quiet; exec 1>&2; cat /dev/stdin").trusted();
    let mut client = project.client(&[]);
    assert_eq!(client.text("loud", json!({"input": "from the caller"})).trim(), "quiet");
}
