//! Texts with references and conditions: what is read prints as what reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier::plan::{Condition, Template};

fuzz_target!(|text: &str| {
    if let Ok(template) = text.parse::<Template>() {
        assert_eq!(template.to_string().parse::<Template>(), Ok(template));
    }
    if let Ok(condition) = text.parse::<Condition>() {
        assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition));
    }
});
