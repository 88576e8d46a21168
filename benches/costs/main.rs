//! What metier costs, as ratios against the floor in the same run: `cargo bench`.

mod audit;
mod cold;
mod configuration;
mod contract;
mod files;
mod gates;
mod http_calls;
mod imports;
mod lua;
mod mcp;
mod modules;
mod overshoot;
mod previews;
mod providers;
mod ratios;
mod registry;
mod rhai_calls;
mod sandbox;
mod sanitizer;
mod scripts;
mod secrets;
mod sequence;
mod trust;
mod walks;
mod wasm_calls;
mod worker_calls;

use criterion::Criterion;

/// As in the `metier` command: its cost is in every number here, on both sides.
#[global_allocator]
static HEAP: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;

fn main() {
    // Processes in sandboxes are started by this very program, as by the `metier` command.
    metier::helper_main();
    if mcp::is_echo_server() {
        return;
    }
    // Before thousands of files are made and removed, after which some file systems are slow to make a folder.
    if is_selected("sandbox") {
        sandbox::measure_starts();
    }
    if is_selected("scripts") {
        scripts::measure_starts();
        scripts::measure_connections();
        secrets::measure_requests();
    }
    if is_selected("walks") {
        walks::measure_projects();
    }
    if is_selected("previews") {
        previews::measure_commands();
    }
    // Criterion measures none of these.
    if std::env::args().skip(1).any(|arg| ["sandbox", "scripts", "walks", "previews"].contains(&&*arg)) {
        ratios::print();
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    lua::calls(&mut criterion);
    lua::tight_loop(&mut criterion);
    worker_calls::calls(&mut criterion);
    lua::observed_calls(&mut criterion);
    providers::tool_calls(&mut criterion);
    if is_selected("overshoot") {
        overshoot::print();
    }
    rhai_calls::calls(&mut criterion);
    rhai_calls::pushes(&mut criterion);
    sequence::steps(&mut criterion);
    sequence::parallel_steps(&mut criterion);
    wasm_calls::calls(&mut criterion);
    wasm_calls::load(&mut criterion);
    contract::check(&mut criterion);
    imports::definitions(&mut criterion);
    files::read(&mut criterion);
    files::grep(&mut criterion);
    registry::scan(&mut criterion);
    registry::availability(&mut criterion);
    registry::listing(&mut criterion);
    trust::digest(&mut criterion);
    trust::runs(&mut criterion);
    audit::lines(&mut criterion);
    gates::runs(&mut criterion);
    http_calls::calls(&mut criterion);
    sanitizer::runs(&mut criterion);
    configuration::load(&mut criterion);
    mcp::calls(&mut criterion);
    cold::start(&mut criterion);
    criterion.final_summary();
    ratios::print();
}

/// Whether what criterion does not measure is to be measured.
fn is_selected(name: &str) -> bool {
    std::env::args().skip(1).all(|arg| arg.starts_with('-') || arg == name)
}
