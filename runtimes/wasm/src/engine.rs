//! WebAssembly engines and their settings.

use wasmtime::{Collector, Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::metadata::ModuleMetadata;
use metier_core::error::{ErrorKind, SkillError};

/// The maximum native stack of a plug-in's calls in bytes; a thread usually has 2 MiB.
const MAX_STACK_BYTES: usize = 512 << 10;

/// Bytes of the memory, and of each table, that are cleared and kept after a run instead of being returned to the system.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// An engine for a plug-in of modules with this metadata. A pool of one instance of each makes fresh instances cheap; it
/// reserves address space, of which there may not be enough.
pub(super) fn pooling_engine<'m>(
    modules: impl Iterator<Item = &'m ModuleMetadata>,
    counts: bool,
) -> wasmtime::Result<Engine> {
    new_engine(pooling_strategy(modules), counts)
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
fn pooling_strategy<'m>(modules: impl Iterator<Item = &'m ModuleMetadata>) -> InstanceAllocationStrategy {
    let mut total = PoolSize::default();
    for module in modules {
        total.instances += 1;
        total.memories += module.memories;
        total.tables += module.tables;
        total.tables_per_module = total.tables_per_module.max(module.tables);
        total.table_elements = total.table_elements.max(module.largest_table_elements);
    }
    let elements = usize::try_from(total.table_elements).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_core_instances(total.instances)
        // One more memory is the heap of references, for modules that have one.
        .total_memories(total.memories + 1)
        .total_gc_heaps(1)
        .total_tables(total.tables)
        .max_tables_per_module(total.tables_per_module)
        .table_elements(elements.max(100_000))
        .max_unused_warm_slots(4.max(total.memories + 1))
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES);
    InstanceAllocationStrategy::Pooling(pool)
}

/// What the modules of a plug-in take together.
#[derive(Default)]
struct PoolSize {
    instances: u32,
    memories: u32,
    tables: u32,
    tables_per_module: u32,
    table_elements: u64,
}

/// The error for a module that cannot be compiled or linked.
pub(super) fn invalid_module(file: &str, error: &wasmtime::Error) -> SkillError {
    SkillError::new(ErrorKind::InvalidSkill, format!("{file} cannot be made ready to run: {error:#}"))
}
