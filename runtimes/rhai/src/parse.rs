//! The language, without anything of the host, and its parser.

use std::collections::HashSet;
use std::mem::ManuallyDrop;
use std::sync::{LazyLock, Mutex, PoisonError};

use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, SkillError};
use metier_core::executor::Script;
use metier_core::policy::CancelToken;
use rhai::packages::{Package, StandardPackage};
use rhai::{AST, Engine, LexError, OptimizationLevel, Shared, Token};

use super::failure;
use super::stack::Stack;
use crate::closure_leaks::LeakCounter;

/// The maximum size of a script in bytes.
const MAX_SOURCE: usize = 64 << 10;
/// The maximum number of keys of a map literal.
const MAX_KEYS: usize = 1024;
/// The maximum number of comparisons of names, in all. A comparison takes up to 20 ns, and ten times that in a build that is
/// not optimised. Usual code of 64 KiB needs about half.
const MAX_COMPARISONS: usize = 4_000_000;

/// A parsed script; names that are unknown to it are looked up at run time.
pub(super) struct ParsedScript {
    pub(super) file: String,
    /// The function that is called once the script has run.
    pub(super) function: Option<String>,
    pub(super) ast: ManuallyDrop<AST>,
    pub(super) leaks: LeakCounter,
}

pub(super) fn parse(script: &Script, cancel: &CancelToken) -> metier_core::error::Result<ParsedScript> {
    let invalid = |sentence: String| SkillError::new(ErrorKind::InvalidSkill, sentence);
    let size = script.source.len();
    if size > MAX_SOURCE {
        let sentence = format!("{} has {size} bytes, and a Rhai script may have {MAX_SOURCE}", script.path);
        return Err(
            invalid(sentence).with_help("put data into a file of the skill and read it with ctx.asset")
        );
    }
    let text = std::str::from_utf8(&script.source)
        .map_err(|error| invalid(format!("{} is not UTF-8 at byte {}", script.path, error.valid_up_to())))?;
    let mut stack = Stack::for_parser()?;
    let compiled = stack.run(|| {
        let mut engine = new_engine();
        engine.set_max_map_size(MAX_KEYS);
        limit_parser(&mut engine, cancel);
        engine.compile(without_mark(text))
    });
    stack.checkin();
    let parsed = compiled.map(|ast| ParsedScript {
        file: script.path.clone(),
        function: script.function.clone(),
        ast: ManuallyDrop::new(ast),
        leaks: LeakCounter::default(),
    });
    cancel.check()?;
    let parsed = parsed.map_err(|error| {
        let at = failure::location(&script.path, error.position());
        let error = invalid(error.err_type().to_string());
        match at {
            Some(at) => error.with_location(at),
            None => error,
        }
    })?;
    match parsed.function.as_deref().filter(|name| !parsed.has_function(name)) {
        None => Ok(parsed),
        Some(name) => {
            let name = name.escape_debug();
            Err(invalid(format!("{} has no function `{name}` with one parameter", script.path))
                .with_help(format!("write fn {name}(input) {{ … }}")))
        }
    }
}

impl ParsedScript {
    fn has_function(&self, name: &str) -> bool {
        self.ast.iter_functions().any(|function| function.name == name && function.params.len() == 1)
    }
}

/// Stops the parser at its next token if the run no longer waits, or if the script takes too much work.
#[allow(deprecated, reason = "what Rhai calls volatile it marks in this way")]
fn limit_parser(engine: &mut Engine, cancel: &CancelToken) {
    let cancel = cancel.clone();
    let work = Mutex::new(ParserWork::default());
    engine.on_parse_token(move |token, _, _| {
        if cancel.check().is_err() {
            return error_token("the run has ended".to_owned());
        }
        match work.lock().unwrap_or_else(PoisonError::into_inner).count_token(&token) {
            Ok(()) => token,
            Err(sentence) => error_token(sentence),
        }
    });
}

fn error_token(sentence: String) -> Token {
    Token::LexError(Box::new(LexError::Runtime(sentence)))
}

/// An upper bound of the parser's work.
#[derive(Default)]
struct ParserWork {
    names: HashSet<String>,
    functions: usize,
    /// The number of closures around the token; when a closure begins and ends, the names in it are looked up again.
    closure_depth: usize,
    /// The number of closures around each open bracket.
    closure_depth_by_bracket: Vec<usize>,
    is_after_value: bool,
    is_after_period: bool,
    comparisons: usize,
}

impl ParserWork {
    fn count_token(&mut self, token: &Token) -> Result<(), String> {
        match token {
            Token::LeftBrace | Token::LeftParen | Token::LeftBracket | Token::MapStart => {
                self.closure_depth_by_bracket.push(self.closure_depth);
            }
            Token::RightBrace | Token::RightParen | Token::RightBracket => {
                self.closure_depth = self.closure_depth_by_bracket.pop().unwrap_or_default();
            }
            Token::SemiColon => {
                self.closure_depth = self.closure_depth_by_bracket.last().copied().unwrap_or_default();
            }
            Token::Fn => self.functions += 1,
            Token::Pipe | Token::Or if !self.is_after_value => {
                self.functions += 1;
                self.closure_depth += 1;
            }
            // A name after a period is looked up at run time.
            Token::Identifier(name) if !self.is_after_period => self.count_lookup(name)?,
            _ => {}
        }
        self.is_after_value = matches!(
            token,
            Token::Identifier(_)
                | Token::IntegerConstant(_)
                | Token::FloatConstant(_)
                | Token::CharConstant(_)
                | Token::StringConstant(_)
                | Token::True
                | Token::False
                | Token::RightParen
                | Token::RightBracket
        );
        self.is_after_period = matches!(token, Token::Period | Token::Elvis);
        Ok(())
    }

    fn count_lookup(&mut self, name: &str) -> Result<(), String> {
        if !self.names.contains(name) {
            if self.names.len() == MAX_NAMES {
                return Err(format!("a script may have {MAX_NAMES} different names, and this is one more"));
            }
            self.names.insert(name.to_owned());
        }
        self.comparisons += (self.names.len() + self.functions) * (1 + 2 * self.closure_depth);
        if self.comparisons > MAX_COMPARISONS {
            return Err("the script has too many names in too much text: leave some of it to another script"
                .to_owned());
        }
        Ok(())
    }
}

/// A tree is dropped by recursion, too.
impl Drop for ParsedScript {
    fn drop(&mut self) {
        let tree = std::mem::take(&mut *self.ast);
        match Stack::for_parser() {
            Ok(mut stack) => {
                stack.run(|| drop(tree));
                stack.checkin();
            }
            // Without a stack the tree is leaked, which is better than a crash of the host.
            Err(_) => std::mem::forget(tree),
        }
    }
}

/// The standard library of the language, the same for every engine.
static STANDARD: LazyLock<Shared<rhai::Module>> = LazyLock::new(|| StandardPackage::new().as_shared_module());

/// Keywords that are removed: they run code from text or from other files.
const REMOVED_KEYWORDS: [&str; 3] = ["eval", "import", "export"];

/// The maximum depth of calls (the stack itself is checked as well), and of expressions in the script and in its functions.
const MAX_CALL_LEVELS: usize = 128;
const MAX_EXPR_DEPTHS: (usize, usize) = (64, 32);
/// The maximum number of functions of a script, and of variables in scope at once.
const MAX_NAMES: usize = 1024;

/// An engine with the language and nothing else.
pub(super) fn new_engine() -> Engine {
    let mut engine = Engine::new_raw();
    engine.register_global_module(STANDARD.clone());
    for symbol in REMOVED_KEYWORDS {
        engine.disable_symbol(symbol);
    }
    // The optimiser compares each case of a `switch` with all others, without a noticeable gain for a run.
    engine.set_optimization_level(OptimizationLevel::None);
    engine
        .set_max_modules(0)
        .set_max_call_levels(MAX_CALL_LEVELS)
        .set_max_expr_depths(MAX_EXPR_DEPTHS.0, MAX_EXPR_DEPTHS.1)
        .set_max_functions(MAX_NAMES)
        .set_max_variables(MAX_NAMES);
    engine
}
