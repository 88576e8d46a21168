//! Ways by which a secret gets somewhere else than its configuration and its options say.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::Answer;
use crate::support::cli::Project;

const SECRET: &str = "s3cret-value-42xyz";

fn server() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<String>>::default());
    let stored = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().take(9).flatten() {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap_or(0);
            stored.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").ok();
        }
    });
    (port, seen)
}

#[test]
fn each_host_gets_the_value_that_was_named_for_it() {
    let ((first, seen_first), (second, seen_second)) = (server(), server());
    let script = format!(
        "local token = ctx.secret('TOKEN')
for _, port in ipairs({{{first}, {second}}}) do
  ctx.http('http://127.0.0.1:' .. port .. '/', {{headers = {{['x-key'] = token}}}})
end
return 'done'"
    );
    let project = Project::new()
        .file(
            ".metier/skills/x/SKILL.md",
            "---\nname: x\ndescription: d\nallowed-tools: secret:TOKEN net\n---\n",
        )
        .file(".metier/skills/x/scripts/main.lua", script);
    let options =
        [format!("TOKEN@127.0.0.1:{first}=FIRST_TOKEN"), format!("TOKEN@127.0.0.1:{second}=SECOND_TOKEN")];
    let answer: Answer = project
        .command(&["run", "x", "--json", "--trust", "--secret", &options[0], "--secret", &options[1]])
        .env("FIRST_TOKEN", "first-value-0123456789")
        .env("SECOND_TOKEN", "second-value-0123456789")
        .output()
        .unwrap()
        .into();
    let (first, second) = (seen_first.lock().unwrap().clone(), seen_second.lock().unwrap().clone());
    assert!(!first.contains("second-value"), "{first}\n{answer:?}");
    assert!(!second.contains("first-value"), "{second}\n{answer:?}");
}

#[test]
fn a_secret_with_a_host_is_never_read_by_a_skill_that_is_not_trusted() {
    let contract = "config: {TOKEN: {secret: true, env: TEST_TOKEN}}\n";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n")
        .file(".metier/skills/x/skill.yaml", contract)
        .file(
            ".metier/skills/x/scripts/main.lua",
            "local token = ctx.secret('TOKEN') return {#token, token == 's3cret-value-42xyz'}",
        )
        .user_config("skills.x.secrets.TOKEN = {env = 'TEST_TOKEN', host = 'api.example.com'}");
    for trust in [&["--trust"][..], &[]] {
        let args = [&["run", "x", "--json", "--allow", "secret:TOKEN"], trust].concat();
        let answer: Answer = project.command(&args).env("TEST_TOKEN", SECRET).output().unwrap().into();
        assert_ne!(answer.json()["value"], json!([SECRET.len(), true]), "{trust:?} {answer:?}");
    }
}
