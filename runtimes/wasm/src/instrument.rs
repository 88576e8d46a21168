//! Rewrites a module so that none of its code runs before the host calls it, and nothing in it grows without the host's
//! permission.
//!
//! The start function and the initialisers are called by one new function, before the entry; the import `begin` between them
//! gives the input. It is the only function that the main module exports. A library also exports the functions that it offers,
//! and its new function only initialises it. Each instruction that grows a memory or a table is replaced by a call of an added
//! function, which calls the import `grow` first.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, DataCountSection, DataSection, ElementSection, Elements, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, ImportSection, Instruction, MemorySection,
    NameSection, TableSection, TypeSection, ValType,
};
use wasmparser::{CustomSectionReader, ExternalKind, KnownCustom, Operator, Parser, Payload};

use super::module::{
    CheckedModule, ELEMENT_BYTES, INITIALIZE_EXPORT, Initialiser, MAX_TABLE_ELEMENTS, PAGE_BYTES,
};
use crate::extism_kernel::{BEGIN, GROW, METIER_NAMESPACE};

/// The function that an instrumented main module exports. It returns the code of the module's own entry, or 0 if that has none.
pub(super) const ENTRY_EXPORT: &str = "run";

/// The memory that WASI looks for; the only export that is kept, besides the functions of a library.
const MEMORY_EXPORT: &str = "memory";

/// A module that is being rewritten.
struct Instrumenter<'a> {
    module: &'a CheckedModule,
    /// The functions that instructions refer to, by their new index.
    referenced: BTreeSet<u32>,
}

/// The sections of the rewritten module, in order.
#[derive(Default)]
struct Sections {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    data_count: Option<DataCountSection>,
    code: CodeSection,
    data: DataSection,
    names: Option<NameSection>,
}

/// The types that are added after the module's own.
const PLAIN_TYPE: u32 = 0;
const GROW_CALLBACK_TYPE: u32 = 1;
const RUN_TYPE: u32 = 2;
const GROW_MEMORY_TYPE: u32 = 3;
const GROW_TABLE_TYPE: u32 = 4;

/// The functions that are added before the module's own, which are imports: `grow` and `begin`.
pub(super) const ADDED_IMPORTS: u32 = 2;

/// Rewrites a checked module.
pub(super) fn instrument(binary: &[u8], module: &CheckedModule) -> Result<Vec<u8>, Error<Infallible>> {
    let mut rewriter = Instrumenter { module, referenced: BTreeSet::new() };
    let mut sections = Sections::default();
    for payload in Parser::new(0).parse_all(binary) {
        rewriter.copy_section(payload?, &mut sections)?;
    }
    rewriter.add_functions(&mut sections)?;
    Ok(sections.finish())
}

/// The index of the first function that was added; a module's own functions are before it.
pub(super) fn first_added_function(module: &CheckedModule) -> u32 {
    import_count(module) + ADDED_IMPORTS + module.functions
}

fn import_count(module: &CheckedModule) -> u32 {
    to_u32(module.imports.len())
}

/// The counts here are bounded far below the maximum.
fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Reencode for Instrumenter<'_> {
    type Error = Infallible;

    /// Imports come first, so the ones that are added after them shift the module's own functions.
    fn function_index(&mut self, function: u32) -> Result<u32, Error> {
        let is_imported = function < import_count(self.module);
        Ok(if is_imported { function } else { function + ADDED_IMPORTS })
    }

    fn instruction<'a>(&mut self, operator: Operator<'a>) -> Result<Instruction<'a>, Error> {
        Ok(match operator {
            Operator::MemoryGrow { .. } => Instruction::Call(first_added_function(self.module) + 1),
            Operator::MemoryFill { .. } => Instruction::Call(self.fill_function_index()),
            Operator::MemoryCopy { .. } => Instruction::Call(self.fill_function_index() + 1),
            Operator::RefFunc { function_index } => {
                let function = self.function_index(function_index)?;
                self.referenced.insert(function);
                Instruction::RefFunc(function)
            }
            Operator::TableGrow { table } => Instruction::Call(first_added_function(self.module) + 2 + table),
            other => utils::instruction(self, other)?,
        })
    }
}

impl Instrumenter<'_> {
    /// The index of the replacement for `memory.fill`; that for `memory.copy` follows it.
    fn fill_function_index(&self) -> u32 {
        first_added_function(self.module) + 2 + to_u32(self.module.tables.len())
    }

    fn copy_section(&mut self, payload: Payload<'_>, to: &mut Sections) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(section) => self.parse_type_section(&mut to.types, section),
            Payload::ImportSection(section) => self.parse_import_section(&mut to.imports, section),
            Payload::FunctionSection(section) => self.parse_function_section(&mut to.functions, section),
            Payload::TableSection(section) => self.parse_table_section(&mut to.tables, section),
            Payload::MemorySection(section) => self.parse_memory_section(&mut to.memories, section),
            Payload::GlobalSection(section) => self.parse_global_section(&mut to.globals, section),
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if self.keeps_export(&export) {
                        self.parse_export(&mut to.exports, export)?;
                    }
                }
                Ok(())
            }
            Payload::ElementSection(section) => self.parse_element_section(&mut to.elements, section),
            Payload::DataCountSection { count, .. } => {
                to.data_count = Some(DataCountSection { count });
                Ok(())
            }
            Payload::CodeSectionEntry(body) => self.parse_function_body(&mut to.code, body),
            Payload::DataSection(section) => self.parse_data_section(&mut to.data, section),
            Payload::CustomSection(section) => {
                to.names = self.names(&section).or(to.names.take());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn keeps_export(&self, export: &wasmparser::Export<'_>) -> bool {
        match export.kind {
            ExternalKind::Memory => export.name == MEMORY_EXPORT,
            ExternalKind::Func => self.module.entry.is_none(),
            _ => false,
        }
    }

    /// The names of functions, for traces. They are not validated; if they cannot be parsed, there are none.
    fn names(&mut self, section: &CustomSectionReader<'_>) -> Option<NameSection> {
        match section.as_known() {
            KnownCustom::Name(names) => self.custom_name_section(names).ok(),
            _ => None,
        }
    }

    fn add_functions(&mut self, to: &mut Sections) -> Result<(), Error> {
        let first = self.module.types;
        to.types.ty().function([], []);
        to.types.ty().function([ValType::I64], []);
        to.types.ty().function([], [ValType::I32]);
        to.types.ty().function([ValType::I32], [ValType::I32]);
        to.imports.import(METIER_NAMESPACE, GROW.name, EntityType::Function(first + GROW_CALLBACK_TYPE));
        to.imports.import(METIER_NAMESPACE, BEGIN.name, EntityType::Function(first + PLAIN_TYPE));
        // An export declares that a function may be referred to, and most exports are gone.
        if !self.referenced.is_empty() {
            let functions: Vec<u32> = self.referenced.iter().copied().collect();
            to.elements.declared(Elements::Functions(Cow::Owned(functions)));
        }
        let (name, ty) = match self.module.entry {
            Some(_) => (ENTRY_EXPORT, RUN_TYPE),
            None => (INITIALIZE_EXPORT, PLAIN_TYPE),
        };
        to.exports.export(name, ExportKind::Func, first_added_function(self.module));
        to.functions.function(first + ty);
        let run = self.run_function()?;
        to.code.function(&run);
        if !to.memories.is_empty() {
            to.functions.function(first + GROW_MEMORY_TYPE);
            to.code.function(&self.grow_function(0, PAGE_BYTES, None));
        } else if !self.module.tables.is_empty() {
            // Never called; it only keeps the index, since the functions of the tables follow.
            to.functions.function(first + PLAIN_TYPE);
            to.code.function(&finish_function(Function::new([])));
        }
        for (table, ty) in (0..).zip(&self.module.tables) {
            let element = self.ref_type(*ty)?;
            to.types.ty().function([ValType::Ref(element), ValType::I32], [ValType::I32]);
            to.functions.function(first + GROW_TABLE_TYPE + table);
            to.code.function(&self.grow_function(1, ELEMENT_BYTES, Some(table)));
        }
        if !to.memories.is_empty() {
            let bulk = first + GROW_TABLE_TYPE + to_u32(self.module.tables.len());
            to.types.ty().function([ValType::I32; 3], []);
            to.functions.function(bulk).function(bulk);
            to.code.function(&fill_function()).function(&copy_function());
        }
        Ok(())
    }

    /// Initialises; in the main module also begins, runs, and returns the code.
    fn run_function(&mut self) -> Result<Function, Error> {
        let mut run = Function::new([]);
        let start = self.module.start.map(|function| Initialiser { function, params: 0, results: 0 });
        for initialiser in start.iter().chain(&self.module.initialisers) {
            for _ in 0..initialiser.params {
                run.instruction(&Instruction::I32Const(0));
            }
            run.instruction(&Instruction::Call(self.function_index(initialiser.function)?));
            for _ in 0..initialiser.results {
                run.instruction(&Instruction::Drop);
            }
        }
        if let Some(entry) = &self.module.entry {
            run.instruction(&Instruction::Call(import_count(self.module) + 1));
            run.instruction(&Instruction::Call(self.function_index(entry.function)?));
            if !entry.returns_code {
                run.instruction(&Instruction::I32Const(0));
            }
        }
        Ok(finish_function(run))
    }

    /// The replacement for `memory.grow` and `table.grow`: requests the bytes, and returns them if nothing grew. The number
    /// of units is the last parameter.
    fn grow_function(&self, units: u32, unit: u64, table: Option<u32>) -> Function {
        let before = units + 1;
        let bytes = |sign: i64| {
            [
                Instruction::LocalGet(units),
                Instruction::I64ExtendI32U,
                Instruction::I64Const(unit.cast_signed() * sign),
                Instruction::I64Mul,
                Instruction::Call(import_count(self.module)),
            ]
        };
        let mut function = Function::new([(1, ValType::I32)]);
        let tell = |function: &mut Function, sign| {
            for instruction in bytes(sign) {
                function.instruction(&instruction);
            }
        };
        tell(&mut function, 1);
        match table {
            None => {
                function.instruction(&Instruction::LocalGet(0)).instruction(&Instruction::MemoryGrow(0));
            }
            // No table has more elements than one instruction may process.
            Some(table) => {
                for instruction in [
                    Instruction::TableSize(table),
                    Instruction::I64ExtendI32U,
                    Instruction::LocalGet(units),
                    Instruction::I64ExtendI32U,
                    Instruction::I64Add,
                    Instruction::I64Const(MAX_TABLE_ELEMENTS.cast_signed()),
                    Instruction::I64GtU,
                    Instruction::If(BlockType::Result(ValType::I32)),
                    Instruction::I32Const(-1),
                    Instruction::Else,
                    Instruction::LocalGet(0),
                    Instruction::LocalGet(units),
                    Instruction::TableGrow(table),
                    Instruction::End,
                ] {
                    function.instruction(&instruction);
                }
            }
        }
        function.instruction(&Instruction::LocalTee(before));
        function.instruction(&Instruction::I32Const(-1));
        function.instruction(&Instruction::I32Eq);
        function.instruction(&Instruction::If(BlockType::Empty));
        tell(&mut function, -1);
        function.instruction(&Instruction::End);
        function.instruction(&Instruction::LocalGet(before));
        finish_function(function)
    }
}

/// The number of bytes that `memory.fill` and `memory.copy` process at a time; in between the run can be stopped.
const CHUNK_BYTES: i32 = 1 << 20;

/// The parameters of both: the destination, the value or source, and the number of bytes.
const TO: u32 = 0;
const FROM: u32 = 1;
const BYTES: u32 = 2;

/// The replacement for `memory.fill`: it fills in chunks, after a check that the whole range is inside the memory.
fn fill_function() -> Function {
    use Instruction as I;
    let fill = [I::LocalGet(TO), I::LocalGet(FROM), I::LocalGet(BYTES), I::MemoryFill(0)];
    let piece = [I::LocalGet(TO), I::LocalGet(FROM), I::I32Const(CHUNK_BYTES), I::MemoryFill(0)];
    let pieces = [&piece[..], &advance(TO), &subtract_chunk(), &loop_while_over_chunk()].concat();
    build_function(
        &[
            &if_small_or_out_of_bounds(&[TO])[..],
            &fill,
            &[I::Return, I::End, I::Loop(BlockType::Empty)],
            &pieces,
            &fill,
        ]
        .concat(),
    )
}

/// The replacement for `memory.copy`: it copies in chunks, from the end if the ranges could overlap otherwise.
fn copy_function() -> Function {
    use Instruction as I;
    let memory = I::MemoryCopy { src_mem: 0, dst_mem: 0 };
    let copy = [I::LocalGet(TO), I::LocalGet(FROM), I::LocalGet(BYTES), memory.clone()];
    let piece = [I::LocalGet(TO), I::LocalGet(FROM), I::I32Const(CHUNK_BYTES), memory.clone()];
    let forwards =
        [&piece[..], &advance(TO), &advance(FROM), &subtract_chunk(), &loop_while_over_chunk()].concat();
    let behind = |place| [I::LocalGet(place), I::LocalGet(BYTES), I::I32Add];
    let last = [&behind(TO)[..], &behind(FROM), &[I::I32Const(CHUNK_BYTES), memory]].concat();
    let backwards = [&subtract_chunk()[..], &last, &loop_while_over_chunk()].concat();
    let is_forwards = [I::LocalGet(TO), I::LocalGet(FROM), I::I32LeU, I::If(BlockType::Empty)];
    let (repeat, end) = ([I::Loop(BlockType::Empty)], [I::End]);
    let (direct, otherwise) = ([&copy[..], &[I::Return], &end].concat(), [I::Else]);
    build_function(
        &[
            &if_small_or_out_of_bounds(&[TO, FROM])[..],
            &direct,
            &is_forwards,
            &repeat,
            &forwards,
            &otherwise,
            &repeat,
            &backwards,
            &end,
            &copy,
        ]
        .concat(),
    )
}

/// Opens a branch for a small range, and for one that is not inside the memory, which traps before anything is written.
fn if_small_or_out_of_bounds(places: &[u32]) -> Vec<Instruction<'static>> {
    use Instruction as I;
    let mut is = vec![I::LocalGet(BYTES), I::I32Const(CHUNK_BYTES), I::I32LeU];
    for place in places {
        is.extend([
            I::LocalGet(*place),
            I::I64ExtendI32U,
            I::LocalGet(BYTES),
            I::I64ExtendI32U,
            I::I64Add,
            I::MemorySize(0),
            I::I64ExtendI32U,
            I::I64Const(PAGE_BYTES.cast_signed()),
            I::I64Mul,
            I::I64GtU,
            I::I32Or,
        ]);
    }
    is.push(I::If(BlockType::Empty));
    is
}

fn advance(place: u32) -> [Instruction<'static>; 4] {
    use Instruction as I;
    [I::LocalGet(place), I::I32Const(CHUNK_BYTES), I::I32Add, I::LocalSet(place)]
}

fn subtract_chunk() -> [Instruction<'static>; 4] {
    use Instruction as I;
    [I::LocalGet(BYTES), I::I32Const(CHUNK_BYTES), I::I32Sub, I::LocalSet(BYTES)]
}

/// Ends a loop, and repeats it while more than one chunk is left.
fn loop_while_over_chunk() -> [Instruction<'static>; 5] {
    use Instruction as I;
    [I::LocalGet(BYTES), I::I32Const(CHUNK_BYTES), I::I32GtU, I::BrIf(0), I::End]
}

fn build_function(instructions: &[Instruction<'static>]) -> Function {
    let mut function = Function::new([]);
    for instruction in instructions {
        function.instruction(instruction);
    }
    finish_function(function)
}

fn finish_function(mut function: Function) -> Function {
    function.instruction(&Instruction::End);
    function
}

impl Sections {
    fn finish(&self) -> Vec<u8> {
        let mut module = wasm_encoder::Module::new();
        module.section(&self.types).section(&self.imports).section(&self.functions);
        module.section(&self.tables).section(&self.memories).section(&self.globals);
        module.section(&self.exports).section(&self.elements);
        if let Some(count) = &self.data_count {
            module.section(count);
        }
        module.section(&self.code).section(&self.data);
        if let Some(names) = &self.names {
            module.section(names);
        }
        module.finish()
    }
}
