//! Sorts so that a stopped run ends: every comparison may fail, and first checks whether the run goes on.
//!
//! The library's own functions continue after a comparison has failed, and compare long texts millions of times without a
//! check. These replace them, with the same names and results.

use std::any::TypeId;
use std::cmp::Ordering;

use rhai::{Array, Dynamic, EvalAltResult, FnPtr, ImmutableString, Module, NativeCallContext, Position};

use crate::run_slot::{RhaiError, check_stop, require_memory};

type Call<'a> = NativeCallContext<'a>;

/// Comparisons of small values between two checks.
const COMPARISONS_PER_CHECK: u32 = 4096;
/// Bytes of text between two checks.
const BYTES_PER_CHECK: usize = 1 << 20;

/// Registers the functions.
pub(super) fn install(module: &mut Module) {
    for (sorts, orders, is_descending) in [("sort", "order", false), ("sort_desc", "order_desc", true)] {
        module.set_native_fn(sorts, move |call: Call, list: &mut Array| {
            merge_sort(&call, list, &mut DefaultComparator::for_list(&call, list, is_descending)?)
        });
        module.set_native_fn(orders, move |call: Call, mut list: Array| {
            let mut compare = DefaultComparator::for_list(&call, &list, is_descending)?;
            merge_sort(&call, &mut list, &mut compare)?;
            Ok(list)
        });
    }
    for name in ["sort", "sort_by"] {
        module.set_native_fn(name, |call: Call, list: &mut Array, by: FnPtr| {
            merge_sort(&call, list, &mut ScriptComparator { call: &call, by })
        });
    }
    for name in ["order", "order_by"] {
        module.set_native_fn(name, |call: Call, mut list: Array, by: FnPtr| {
            merge_sort(&call, &mut list, &mut ScriptComparator { call: &call, by })?;
            Ok(list)
        });
    }
    module.set_native_fn("dedup", |call: Call, list: &mut Array| {
        let by = FnPtr::new("==").ok();
        dedup(&call, list, |call, first, second| match &by {
            Some(by) => by.call_raw(call, None, [first, second]),
            None => call.call_native_fn_raw("==", true, &mut [&mut first.clone(), &mut second.clone()]),
        })
    });
    module.set_native_fn("dedup", |call: Call, list: &mut Array, by: FnPtr| {
        dedup(&call, list, |call, first, second| by.call_raw(call, None, [first, second]))
    });
}

/// Compares two values, or fails if the run must end.
trait Comparator {
    fn compare(&mut self, first: &Dynamic, second: &Dynamic) -> Result<Ordering, RhaiError>;
}

/// Compares by a function of the script.
struct ScriptComparator<'a, 'b> {
    call: &'a Call<'b>,
    by: FnPtr,
}

impl Comparator for ScriptComparator<'_, '_> {
    fn compare(&mut self, first: &Dynamic, second: &Dynamic) -> Result<Ordering, RhaiError> {
        let result = self.by.call_raw(self.call, None, [first.clone(), second.clone()]);
        // As in the library, the types decide the order if the comparer fails; but if the run must end, it ends.
        check_stop(self.call)?;
        let result = result.ok().and_then(|result| {
            result.as_int().or_else(|_| result.as_bool().map(|is_first| if is_first { -1 } else { 1 })).ok()
        });
        Ok(result.map_or_else(|| first.type_id().cmp(&second.type_id()), |result| result.cmp(&0)))
    }
}

/// Compares by the order of the language, among values of one type.
struct DefaultComparator<'a, 'b> {
    call: &'a Call<'b>,
    compare_values: fn(&Dynamic, &Dynamic) -> (Ordering, usize),
    is_descending: bool,
    /// The bytes that may be compared until the next check.
    bytes_until_check: usize,
}

impl<'a, 'b> DefaultComparator<'a, 'b> {
    fn for_list(call: &'a Call<'b>, list: &Array, is_descending: bool) -> Result<Self, RhaiError> {
        let comparator =
            |of| Ok(Self { call, compare_values: of, is_descending, bytes_until_check: BYTES_PER_CHECK });
        let Some(first) = list.first().filter(|_| list.len() > 1) else {
            return comparator(|_, _| (Ordering::Equal, 0));
        };
        let kind = first.type_id();
        if list.iter().any(|item| item.type_id() != kind) {
            return Err(unsortable("elements of different types cannot be sorted").into());
        }
        let is = |other: TypeId| kind == other;
        if is(TypeId::of::<i64>()) {
            comparator(|first, second| (first.as_int().ok().cmp(&second.as_int().ok()), 0))
        } else if is(TypeId::of::<char>()) {
            comparator(|first, second| (first.as_char().ok().cmp(&second.as_char().ok()), 0))
        } else if is(TypeId::of::<f64>()) {
            comparator(|first, second| {
                let order = first.as_float().ok().partial_cmp(&second.as_float().ok());
                (order.unwrap_or(Ordering::Equal), 0)
            })
        } else if is(TypeId::of::<bool>()) {
            comparator(|first, second| (first.as_bool().ok().cmp(&second.as_bool().ok()), 0))
        } else if is(TypeId::of::<ImmutableString>()) {
            comparator(|first, second| {
                match (first.as_immutable_string_ref(), second.as_immutable_string_ref()) {
                    (Ok(first), Ok(second)) => {
                        (first.as_str().cmp(second.as_str()), first.len().min(second.len()))
                    }
                    _ => (Ordering::Equal, 0),
                }
            })
        } else if is(TypeId::of::<()>()) {
            comparator(|_, _| (Ordering::Equal, 0))
        } else {
            Err(unsortable(&format!("elements of {} cannot be sorted", first.type_name())).into())
        }
    }
}

impl Comparator for DefaultComparator<'_, '_> {
    fn compare(&mut self, first: &Dynamic, second: &Dynamic) -> Result<Ordering, RhaiError> {
        let (order, read) = (self.compare_values)(first, second);
        if let Some(left) =
            self.bytes_until_check.checked_sub(read + BYTES_PER_CHECK / COMPARISONS_PER_CHECK as usize)
        {
            self.bytes_until_check = left;
        } else {
            check_stop(self.call)?;
            self.bytes_until_check = BYTES_PER_CHECK;
        }
        Ok(if self.is_descending { order.reverse() } else { order })
    }
}

fn unsortable(why: &str) -> EvalAltResult {
    EvalAltResult::ErrorFunctionNotFound(why.to_owned(), Position::NONE)
}

/// Sorts by merging runs of doubling length, so that equal values keep their order. If sorting fails, the list is unchanged.
fn merge_sort(call: &Call, list: &mut Array, by: &mut impl Comparator) -> Result<(), RhaiError> {
    require_memory(call, list.len(), 2 * size_of::<usize>() as u64 + size_of::<Dynamic>() as u64)?;
    let mut places: Vec<usize> = (0..list.len()).collect();
    let mut merged = Vec::with_capacity(list.len());
    let mut length = 1;
    while length < list.len() {
        merged.clear();
        for pair in places.chunks(2 * length) {
            let (mut left, mut right) = pair.split_at(length.min(pair.len()));
            while let ([first, ..], [second, ..]) = (left, right) {
                let from =
                    if by.compare(&list[*first], &list[*second])?.is_gt() { &mut right } else { &mut left };
                merged.push(from[0]);
                *from = &from[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut places, &mut merged);
        length *= 2;
    }
    let mut taken: Vec<Dynamic> = Vec::with_capacity(list.len());
    taken.extend(places.iter().map(|place| std::mem::take(&mut list[*place])));
    *list = taken;
    Ok(())
}

/// Removes each value that equals the one before it.
fn dedup(
    call: &Call,
    list: &mut Array,
    equal: impl Fn(&Call, Dynamic, Dynamic) -> Result<Dynamic, RhaiError>,
) -> Result<(), RhaiError> {
    let mut failed = Ok(());
    list.dedup_by(|second, first| {
        if failed.is_err() {
            return false;
        }
        let result = equal(call, first.clone(), second.clone());
        failed = check_stop(call);
        result.ok().and_then(|result| result.as_bool().ok()).unwrap_or(false)
    });
    failed
}
