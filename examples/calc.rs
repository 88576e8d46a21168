//! A program with a language of its own, and a skill inside the program that is written in it.

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result, SkillError};
use metier::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use metier::host::SkillContext;
use metier::registry::{EmbeddedSkill, Roots};
use serde_json::json;

/// A program with more skills includes them from files, by `include_bytes!`.
static SKILLS: &[EmbeddedSkill] = &[EmbeddedSkill::new(
    "area",
    &[
        ("SKILL.md", b"---\nname: area\ndescription: Computes the surface of a box.\n---\n"),
        (
            "skill.yaml",
            b"runtime: calc\ninputs: {a: {type: number}, b: {type: number}, c: {type: number, default: 1}}\n",
        ),
        ("scripts/main.calc", b"a b * a c * + b c * + 2 *"),
    ],
)];

/// A formula as on a pocket calculator with a stack: each operator takes the two values before it.
struct Calc(Vec<String>);

fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    let text = std::str::from_utf8(&script.source)
        .map_err(|_| SkillError::new(ErrorKind::InvalidSkill, format!("{} is not text", script.path)))?;
    Ok(Box::new(Calc(text.split_whitespace().map(str::to_owned).collect())))
}

impl SkillExecutor for Calc {
    fn execute_with_context(&self, input: SkillInput, ctx: Option<&SkillContext>) -> Result<SkillOutput> {
        let error = |sentence: String| SkillError::new(ErrorKind::Script, sentence);
        let (input, mut stack) = (input.value_or_empty(), Vec::new());
        for word in &self.0 {
            ctx.map_or(Ok(()), |ctx| ctx.cancel().check())?;
            let value = match word.as_str() {
                "+" | "*" => match (stack.pop(), stack.pop()) {
                    (Some(right), Some(left)) if word == "+" => left + right,
                    (Some(right), Some(left)) => left * right,
                    _ => return Err(error(format!("`{word}` needs two values before it"))),
                },
                _ => (word.parse().ok().or_else(|| input[word].as_f64()))
                    .ok_or_else(|| error(format!("`{word}` is neither a number nor in the input")))?,
            };
            stack.push(value);
        }
        Ok(json!(stack.pop()).into())
    }
}

fn main() -> Result<()> {
    metier::helper_main();
    let engine = Engine::builder(".")
        .roots(Roots::empty().with_embedded("acme", SKILLS))
        .runtime("calc", &["calc"], load)
        .build()?;
    let outcome = engine.run(Invocation::new("area").input(json!({"a": 2, "b": 3})));
    println!("the surface is {}", outcome.result?);
    Ok(())
}
