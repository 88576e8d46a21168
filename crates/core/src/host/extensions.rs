//! Values of an embedder's own types that travel with an invocation.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A value of each type, as an embedder attached them to an invocation: which tab asks, a user, a database handle.
///
/// Cloning is cheap; clones share the values. Without a value it takes no memory.
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<BTreeMap<TypeId, Extension>>>);

#[derive(Clone)]
struct Extension {
    type_name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl Extensions {
    /// Adds a value, in place of an earlier one of the same type.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        let extension = Extension { type_name: type_name::<T>(), value: Arc::new(value) };
        Arc::make_mut(self.0.get_or_insert_default()).insert(TypeId::of::<T>(), extension);
    }

    /// The value of that type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.as_ref()?.get(&TypeId::of::<T>())?.value.downcast_ref()
    }
}

impl fmt::Debug for Extensions {
    /// The types; the values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().flat_map(|values| values.values().map(|value| value.type_name)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_each_type_and_clones_do_not_change_each_other() {
        let mut first = Extensions::default();
        assert_eq!(first.get::<u8>(), None);
        first.insert(1_u8);
        first.insert("a");
        let mut second = first.clone();
        second.insert(2_u8);
        assert_eq!((first.get::<u8>(), second.get::<u8>()), (Some(&1), Some(&2)));
        assert_eq!((second.get::<&str>(), second.get::<u16>()), (Some(&"a"), None));
        assert_eq!(format!("{second:?}").matches("u8").count(), 1);
    }
}
