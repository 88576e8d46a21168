//! WebAssembly engines and their settings.

use wasmtime::{Collector, Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::metadata::ModuleMetadata;
use crate::error::{ErrorKind, SkillError};

/// The maximum native stack of a plug-in's calls in bytes; a thread usually has 2 MiB.
const MAX_STACK_BYTES: usize = 512 << 10;

/// Bytes of the memory, and of each table, that are cleared and kept after a run instead of being returned to the system.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// An engine for a module with this metadata. A pool of one instance makes a fresh instance cheap; it reserves address space,
/// of which there may not be enough.
pub(super) fn pooling_engine(facts: &ModuleMetadata, counts: bool) -> wasmtime::Result<Engine> {
    new_engine(pooling_strategy(facts), counts)
}

/// An engine that allocates each instance from the system.
pub(super) fn on_demand_engine(counts: bool) -> wasmtime::Result<Engine> {
    new_engine(InstanceAllocationStrategy::OnDemand, counts)
}

fn new_engine(strategy: InstanceAllocationStrategy, counts: bool) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .max_wasm_stack(MAX_STACK_BYTES)
        .allocation_strategy(strategy)
        .epoch_interruption(true)
        .consume_fuel(counts)
        // The only references of a plug-in are to functions, or null.
        .collector(Collector::Null)
        // Traces name functions, never positions in them.
        .generate_address_map(false);
    Engine::new(&config)
}

/// A pool for one run.
fn pooling_strategy(facts: &ModuleMetadata) -> InstanceAllocationStrategy {
    let elements = usize::try_from(facts.largest_table_elements).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_core_instances(1)
        // The second memory is the heap of references, for modules that have one.
        .total_memories(2)
        .total_gc_heaps(1)
        .total_tables(facts.tables)
        .max_tables_per_module(facts.tables)
        .table_elements(elements.max(100_000))
        .max_unused_warm_slots(4)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES);
    InstanceAllocationStrategy::Pooling(pool)
}

/// The error for a module that cannot be compiled or linked.
pub(super) fn invalid_module(file: &str, error: &wasmtime::Error) -> SkillError {
    SkillError::new(ErrorKind::InvalidSkill, format!("{file} cannot be made ready to run: {error:#}"))
}
