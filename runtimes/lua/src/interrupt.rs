//! Stops a running script from another thread, at no cost to scripts that are never stopped.
//!
//! Luau calls its interrupt callback, if there is one, at every loop, call and step of a pattern, and its header allows
//! setting that one callback from any thread. The callback of mlua is always set and makes a tight loop 1.8 times slower;
//! this one is set only when the run must stop, or from the start if a run counts its operations.
//!
//! Luau's own functions do not call it while they work in C. [`make_interruptible`] wraps each of them in a function that
//! calls the interrupt first, and passes expensive calls to a function that can be stopped.
//!
//! This module contains unsafe code: the state's interrupt is reached through a pointer, and C functions of Luau are called
//! directly.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, transmute};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, Lua, LuaString, ffi};

/// How many functions of the host may have been called by the innermost one of the script.
const MAX_FRAMES_ABOVE_SCRIPT: c_int = 8;

/// The interrupt of one state. The state must outlive every [`InterruptGuard`] of it.
pub(super) struct Interrupt(Arc<InterruptCell>);

struct InterruptCell {
    /// The state's callback, an optional function pointer: null if there is none.
    callback: NonNull<AtomicPtr<()>>,
    /// The number of the run that may be stopped; without one, the state may be gone and the callback may not be set.
    active_run: Mutex<Option<u64>>,
    /// The number of the next run.
    next_run: AtomicU64,
}

// SAFETY: the callback is followed only under the lock and only while a script runs, when the state is alive; it is
// accessed atomically, and Luau reads it as the plain pointer that it is.
unsafe impl Send for InterruptCell {}
// SAFETY: as above.
unsafe impl Sync for InterruptCell {}

impl Interrupt {
    /// The interrupt of this state.
    pub(super) fn for_state(lua: &Lua) -> mlua::Result<Self> {
        let callback = lua.exec_raw_lua(|raw| {
            // SAFETY: the state is alive, and its callbacks lie in memory that lives and stays as long as it does.
            unsafe { &raw mut (*ffi::lua_callbacks(raw.state())).interrupt }.cast::<AtomicPtr<()>>()
        });
        let callback =
            NonNull::new(callback).ok_or_else(|| mlua::Error::runtime("the state has no callbacks"))?;
        Ok(Self(Arc::new(InterruptCell {
            callback,
            active_run: Mutex::default(),
            next_run: AtomicU64::new(0),
        })))
    }

    /// Until the guard is dropped, its [`stopper`](InterruptGuard::stopper) stops the script, and so does exceeding this number
    /// of operations, if they are counted. The script runs on this thread.
    pub(super) fn enable(&self, operations: Option<u64>) -> InterruptGuard<'_> {
        let run = self.0.next_run.fetch_add(1, Ordering::Relaxed);
        *self.0.lock() = Some(run);
        let before = OPERATIONS.replace(operations.map(OperationCounter::new));
        STOPPED_LINE.set(None);
        if operations.is_some() {
            self.0.set_callback(count_operation as *mut ());
        }
        InterruptGuard { cell: &self.0, run, outer_operations: before, on_this_thread: PhantomData }
    }
}

/// Exists while a script is running; restores the state's interrupt on drop.
pub(super) struct InterruptGuard<'a> {
    cell: &'a Arc<InterruptCell>,
    run: u64,
    /// The counter of an outer run on this thread.
    outer_operations: Option<OperationCounter>,
    on_this_thread: PhantomData<*const ()>,
}

impl InterruptGuard<'_> {
    /// Returns a function that stops this run from any thread. If it is called late, when the run has ended and the state may
    /// serve another one, it does nothing.
    pub(super) fn stopper(&self) -> impl FnOnce() + Send + 'static {
        let (target, run) = (Arc::clone(self.cell), self.run);
        move || {
            let active = target.lock();
            if *active == Some(run) {
                target.set_callback(stop as *mut ());
            }
        }
    }

    /// The line of the script at which it was stopped.
    pub(super) fn stopped_line(&self) -> Option<u32> {
        debug_assert!(self.cell.lock().is_some(), "the run is over");
        STOPPED_LINE.get()
    }

    /// Whether the script was stopped because it exceeded its limit of operations.
    pub(super) fn is_exhausted(&self) -> bool {
        // Read while the guard exists, since afterwards the counter on this thread is that of the outer run.
        debug_assert!(self.cell.lock().is_some(), "the run is over");
        OPERATIONS.get().is_some_and(|operations| operations.is_exhausted)
    }
}

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        let mut active = self.cell.lock();
        *active = None;
        self.cell.set_callback(null_mut());
        OPERATIONS.set(self.outer_operations);
    }
}

/// The operations that the run on this thread may still execute.
#[derive(Clone, Copy)]
struct OperationCounter {
    remaining: u64,
    is_exhausted: bool,
}

thread_local! {
    static OPERATIONS: Cell<Option<OperationCounter>> = const { Cell::new(None) };
    /// Where the run on this thread was stopped first.
    static STOPPED_LINE: Cell<Option<u32>> = const { Cell::new(None) };
}

impl OperationCounter {
    fn new(operations: u64) -> Self {
        Self { remaining: operations, is_exhausted: false }
    }

    /// Counts one operation. Returns whether it may be executed.
    fn spend() -> bool {
        let Some(operations) = OPERATIONS.get() else { return true };
        match operations.remaining.checked_sub(1) {
            Some(left) => OPERATIONS.set(Some(Self { remaining: left, ..operations })),
            None => OPERATIONS.set(Some(Self { remaining: 0, is_exhausted: true })),
        }
        operations.remaining > 0
    }
}

impl InterruptCell {
    /// Called under the lock, while a script runs.
    fn set_callback(&self, callback: *mut ()) {
        // SAFETY: the state is alive, and an optional function has the size, alignment and null of a pointer.
        unsafe { self.callback.as_ref() }.store(callback, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.active_run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises an error in the script. A script that catches it gets it again at its next step.
unsafe extern "C-unwind" fn stop(state: *mut ffi::lua_State, gc: c_int) {
    // The garbage collector calls this too, with its phase, and must not be left by an error.
    if gc < 0 {
        // SAFETY: Luau calls with the running state, which has space for a few values above any frame; no Rust value of this
        // frame waits to be dropped when the error unwinds it.
        unsafe {
            if STOPPED_LINE.get().is_none() {
                STOPPED_LINE.set(running_line(state));
            }
            ffi::lua_pushnil(state);
            ffi::lua_error(state);
        }
    }
}

/// The line at which the innermost function of the script is.
///
/// # Safety
/// The state is alive and runs on this thread.
unsafe fn running_line(state: *mut ffi::lua_State) -> Option<u32> {
    (0..MAX_FRAMES_ABOVE_SCRIPT).find_map(|level| {
        // SAFETY: the structure has numbers and pointers only, for which zero is a value. Luau fills it in, and its texts live as long
        // as the function does.
        unsafe {
            let mut frame = MaybeUninit::<ffi::lua_Debug>::zeroed().assume_init();
            let is_frame = ffi::lua_getinfo(state, level, c"sl".as_ptr(), &raw mut frame) != 0;
            // Functions of the host and of C have names in brackets.
            let is_of_script =
                is_frame && !frame.short_src.is_null() && *frame.short_src.cast::<u8>() != b'[';
            u32::try_from(frame.currentline).ok().filter(|line| is_of_script && *line > 0)
        }
    })
}

/// Counts an operation, and stops the script if it exceeds the limit.
unsafe extern "C-unwind" fn count_operation(state: *mut ffi::lua_State, gc: c_int) {
    if gc < 0 && !OperationCounter::spend() {
        // SAFETY: called as `stop` is.
        unsafe { stop(state, gc) }
    }
}

/// Calls the interrupt, if there is one.
///
/// # Safety
/// The state is alive and is calling a function of ours, on this thread.
unsafe fn poll_interrupt(state: *mut ffi::lua_State) {
    // SAFETY: as in `Interrupt::for_state`; the stored value is null or an interrupt.
    unsafe {
        let callback = (&raw mut (*ffi::lua_callbacks(state)).interrupt).cast::<*mut ()>();
        let callback = AtomicPtr::from_ptr(callback).load(Ordering::Acquire);
        if !callback.is_null() {
            transmute::<*mut (), unsafe extern "C-unwind" fn(*mut ffi::lua_State, c_int)>(callback)(
                state, -1,
            );
        }
    }
}

/// Does work of the host's on this thread whose steps do not count as operations of the run.
pub(super) fn without_counting<T>(work: impl FnOnce() -> T) -> T {
    let counted = OPERATIONS.take();
    let result = work();
    OPERATIONS.set(counted);
    result
}

/// Whether a call with these arguments is too expensive to run without checking for a stop.
pub(super) type IsExpensive = fn(&Arguments) -> bool;

/// Wraps `native`, a function of Luau's own, so that it calls the interrupt first; calls that `is_expensive` finds expensive are
/// passed to the function that `finder` returns for `path`, such as `string.rep`. Scripts see the same function: errors contain
/// its name and point to the same line.
pub(super) fn make_interruptible(
    lua: &Lua,
    name: &CStr,
    native: &Function,
    is_expensive: IsExpensive,
    finder: &Function,
    path: &LuaString,
) -> mlua::Result<Function> {
    // SAFETY: the arguments are the only values on the stack, which has space for two more; the name is copied.
    unsafe {
        lua.exec_raw((native, finder, path), |state| {
            let Some(native) = ffi::lua_tocfunction(state, 1) else {
                // No function is returned, which is an error.
                return ffi::lua_settop(state, 0);
            };
            ffi::lua_pushlightuserdata(state, native as *mut c_void);
            ffi::lua_insert(state, 2);
            ffi::lua_pushlightuserdata(state, is_expensive as *mut c_void);
            ffi::lua_insert(state, 3);
            ffi::lua_pushcclosurek(state, call_interruptible, name.as_ptr(), 4, None);
            ffi::lua_replace(state, 1);
        })
    }
}

/// The function that [`make_interruptible`] creates; its upvalues are the native function, the check of its arguments, the finder
/// of the function that works in steps, and that function's path.
unsafe extern "C-unwind" fn call_interruptible(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the upvalues are those that `make_interruptible` stored, which nobody else can reach; the native function finds
    // the frame as if it had been called itself, and none of those that are wrapped has upvalues. No Rust value waits to be
    // dropped.
    unsafe {
        poll_interrupt(state);
        let native = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(1));
        let is_expensive = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(2));
        if !transmute::<*mut c_void, IsExpensive>(is_expensive)(&Arguments(state)) {
            return transmute::<*mut c_void, ffi::lua_CFunction>(native)(state);
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(3));
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(4));
        ffi::lua_call(state, 1, 1);
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}

/// `a < b` as sorting compares, with a call of the interrupt each time.
pub(super) fn less(lua: &Lua) -> mlua::Result<Function> {
    unsafe extern "C-unwind" fn less(state: *mut ffi::lua_State) -> c_int {
        // SAFETY: called by the running state; no Rust value waits to be dropped when comparing raises an error.
        unsafe {
            poll_interrupt(state);
            ffi::lua_settop(state, 2);
            let is_less = ffi::lua_lessthan(state, 1, 2);
            ffi::lua_pushboolean(state, is_less);
        }
        1
    }
    // SAFETY: a function that takes any arguments.
    unsafe { lua.create_c_function(less) }
}

/// The arguments of a call. Positions count from one.
pub(super) struct Arguments(*mut ffi::lua_State);

/// The kind of an element of a table, as far as sorting depends on it.
pub(super) enum Element {
    Number,
    Text(usize),
    Other,
}

// SAFETY of all below: the state is running the function whose arguments are read, and has space for a few more values; a
// position beyond the arguments has no value. Nothing here calls the script or raises an error.
impl Arguments {
    pub(super) fn count(&self) -> usize {
        // SAFETY: as stated above.
        usize::try_from(unsafe { ffi::lua_gettop(self.0) }).unwrap_or(0)
    }

    /// The length of a text in bytes; a number counts as text.
    pub(super) fn text_length(&self, position: c_int) -> Option<usize> {
        match self.kind(position) {
            // SAFETY: as stated above.
            ffi::LUA_TSTRING => Some(unsafe { ffi::lua_objlen(self.0, position) }),
            ffi::LUA_TNUMBER => Some(32),
            _ => None,
        }
    }

    /// The length of a table.
    pub(super) fn table_length(&self, position: c_int) -> Option<usize> {
        self.length(position, ffi::LUA_TTABLE)
    }

    /// The length of a buffer in bytes.
    pub(super) fn buffer_length(&self, position: c_int) -> Option<usize> {
        self.length(position, ffi::LUA_TBUFFER)
    }

    /// A number, or a text that converts to one.
    pub(super) fn number(&self, position: c_int) -> Option<f64> {
        let mut is_number = 0;
        // SAFETY: as stated above.
        let number = unsafe { ffi::lua_tonumberx(self.0, position, &raw mut is_number) };
        (is_number != 0).then_some(number)
    }

    /// The bytes of a text; empty for any other value.
    pub(super) fn text_bytes(&self, position: c_int) -> &[u8] {
        if self.kind(position) != ffi::LUA_TSTRING {
            return &[];
        }
        let mut length = 0;
        // SAFETY: as stated above; it is a text, and stays where it is as long as it is an argument.
        unsafe {
            let start = ffi::lua_tolstring(self.0, position, &raw mut length);
            std::slice::from_raw_parts(start.cast(), length)
        }
    }

    /// Whether the value may have a metamethod for comparing.
    pub(super) fn may_have_metamethods(&self, position: c_int) -> bool {
        matches!(self.kind(position), ffi::LUA_TTABLE | ffi::LUA_TUSERDATA)
    }

    pub(super) fn is_absent(&self, position: c_int) -> bool {
        matches!(self.kind(position), ffi::LUA_TNONE | ffi::LUA_TNIL)
    }

    /// Whether it is a native function, so that calling it does not call the interrupt.
    pub(super) fn is_native(&self, position: c_int) -> bool {
        // SAFETY: as stated above.
        unsafe { ffi::lua_iscfunction(self.0, position) != 0 }
    }

    /// Whether it is a table that cannot be changed.
    pub(super) fn is_frozen(&self, position: c_int) -> bool {
        // SAFETY: as stated above, and it is a table.
        self.kind(position) == ffi::LUA_TTABLE && unsafe { ffi::lua_getreadonly(self.0, position) != 0 }
    }

    /// The element at an index of the table at a position.
    pub(super) fn element(&self, table: c_int, index: usize) -> Element {
        // SAFETY: as stated above, and the caller knows that it is a table; the value is taken off again.
        unsafe {
            let kind = ffi::lua_rawgeti_(self.0, table, c_int::try_from(index).unwrap_or(c_int::MAX));
            let element = match kind {
                ffi::LUA_TNUMBER => Element::Number,
                ffi::LUA_TSTRING => Element::Text(ffi::lua_objlen(self.0, -1)),
                _ => Element::Other,
            };
            ffi::lua_settop(self.0, -2);
            element
        }
    }

    /// The heap size of the state in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        // SAFETY: as stated above; it is asked how much there is, and collects nothing.
        usize::try_from(unsafe { ffi::lua_gc(self.0, ffi::LUA_GCCOUNT, 0) }).unwrap_or(0) << 10
    }

    fn length(&self, position: c_int, kind: c_int) -> Option<usize> {
        // SAFETY: as stated above, and it has a length.
        (self.kind(position) == kind).then(|| unsafe { ffi::lua_objlen(self.0, position) })
    }

    fn kind(&self, position: c_int) -> c_int {
        // SAFETY: as stated above.
        unsafe { ffi::lua_type(self.0, position) }
    }
}
