//! Stops a running script from another thread, at no cost to those that are never stopped.
//!
//! Luau asks its interrupt, if there is one, at every loop, call and step of a pattern, and its header allows setting that
//! one callback from any thread. mlua's own is always there and makes a tight loop 1.8 times slower; this one is stored
//! when the run must stop, and not before, or from the start where a run counts its operations.
//!
//! Luau's own functions ask nothing while they work in C. [`supervised`] puts one before each of them that asks first, and hands
//! what is much work to a function that can be stopped.
//!
//! A room for unsafe code: the state's interrupt is reached through a pointer, and a function of Luau's is called as what it is.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem::transmute;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, Lua, ffi};

/// The interrupt of one state. The state must outlive every [`Running`] of it.
pub(super) struct Interrupt(Arc<InterruptCell>);

struct InterruptCell {
    /// The state's callback, an optional function pointer: null when there is none.
    callback: NonNull<AtomicPtr<()>>,
    /// Whether a script runs, so that the state is alive and the callback may be set.
    is_running: Mutex<bool>,
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
        Ok(Self(Arc::new(InterruptCell { callback, is_running: Mutex::new(false) })))
    }

    /// From here until the guard is dropped, a [`stopper`](Self::stopper) stops the script, and so does one more than so many
    /// operations, where they are counted. The script runs on this thread.
    pub(super) fn enable(&self, operations: Option<u64>) -> InterruptGuard<'_> {
        *self.0.lock() = true;
        let before = OPERATIONS.replace(operations.map(OperationCounter::new));
        if operations.is_some() {
            self.0.set_callback(count_operation as *mut ());
        }
        InterruptGuard { cell: &self.0, outer_operations: before, on_this_thread: PhantomData }
    }

    /// Stops the script that runs when it is called, from whichever thread; without one it does nothing.
    pub(super) fn stopper(&self) -> impl FnOnce() + Send + 'static {
        let target = self.0.clone();
        move || {
            let is_running = target.lock();
            if *is_running {
                target.set_callback(stop as *mut ());
            }
        }
    }
}

/// A script is running; dropped, the state's interrupt is as it was.
pub(super) struct InterruptGuard<'a> {
    cell: &'a InterruptCell,
    /// The count of a run further out on this thread.
    outer_operations: Option<OperationCounter>,
    on_this_thread: PhantomData<*const ()>,
}

impl InterruptGuard<'_> {
    /// Whether the script was stopped because it executed more operations than it may.
    pub(super) fn is_exhausted(&self) -> bool {
        // Asked while it stands, since then the count on this thread is its own.
        debug_assert!(*self.cell.lock(), "the run is over");
        OPERATIONS.get().is_some_and(|operations| operations.is_exhausted)
    }
}

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        let mut is_running = self.cell.lock();
        *is_running = false;
        self.cell.set_callback(null_mut());
        OPERATIONS.set(self.outer_operations);
    }
}

/// What the run on this thread may still execute.
#[derive(Clone, Copy)]
struct OperationCounter {
    remaining: u64,
    is_exhausted: bool,
}

thread_local! {
    static OPERATIONS: Cell<Option<OperationCounter>> = const { Cell::new(None) };
}

impl OperationCounter {
    fn new(most: u64) -> Self {
        Self { remaining: most, is_exhausted: false }
    }

    /// Counts one and says whether it may be executed.
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

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises an error in the script. A script may catch it, and meets it again at its next step.
unsafe extern "C-unwind" fn stop(state: *mut ffi::lua_State, gc: c_int) {
    // The collector asks too, naming its phase, and must not be left by an error.
    if gc < 0 {
        // SAFETY: Luau calls with the running state, which keeps room for a few values above any frame; no Rust value
        // of this frame waits to be dropped when the error unwinds it.
        unsafe {
            ffi::lua_pushnil(state);
            ffi::lua_error(state);
        }
    }
}

/// Counts an operation, and stops the script when it was one too many.
unsafe extern "C-unwind" fn count_operation(state: *mut ffi::lua_State, gc: c_int) {
    if gc < 0 && !OperationCounter::spend() {
        // SAFETY: called as `stop` is.
        unsafe { stop(state, gc) }
    }
}

/// Asks the interrupt, if there is one.
///
/// # Safety
/// The state is alive and calls a function of ours, on this thread.
unsafe fn poll_interrupt(state: *mut ffi::lua_State) {
    // SAFETY: as `Interrupt::of` has it; what is stored there is null or an interrupt.
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

/// Whether a call with these arguments is too much work to be done without asking.
pub(super) type IsExpensive = fn(&Arguments) -> bool;

/// `native`, a function of Luau's own, so that it asks the interrupt first; called with what `weigh` finds to be much work,
/// `careful` does it instead. To scripts it is the same function: it has its name in errors, and they lead to the same line.
pub(super) fn make_interruptible(
    lua: &Lua,
    name: &CStr,
    native: &Function,
    weigh: IsExpensive,
    careful: &Function,
) -> mlua::Result<Function> {
    // SAFETY: the arguments are the only values on the stack, which has room for two more; the name is copied.
    unsafe {
        lua.exec_raw((native, careful), |state| {
            let Some(native) = ffi::lua_tocfunction(state, 1) else {
                // No function comes back, which is an error.
                return ffi::lua_settop(state, 0);
            };
            ffi::lua_pushlightuserdata(state, native as *mut c_void);
            ffi::lua_insert(state, 2);
            ffi::lua_pushlightuserdata(state, weigh as *mut c_void);
            ffi::lua_insert(state, 3);
            ffi::lua_pushcclosurek(state, call_interruptible, name.as_ptr(), 3, None);
            ffi::lua_replace(state, 1);
        })
    }
}

/// The function that [`supervised`] makes; it holds the native one, what weighs its arguments, and what is careful.
unsafe extern "C-unwind" fn call_interruptible(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the upvalues are what `supervised` stored, which nobody else can reach; the native function finds the frame as if
    // it had been called itself, and none of ours is one that has upvalues. No Rust value waits to be dropped.
    unsafe {
        poll_interrupt(state);
        let native = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(1));
        let weigh = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(2));
        if !transmute::<*mut c_void, IsExpensive>(weigh)(&Arguments(state)) {
            return transmute::<*mut c_void, ffi::lua_CFunction>(native)(state);
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(3));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}

/// `a < b` as sorting compares, asking the interrupt each time.
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

/// What a function was called with. Positions count from one.
pub(super) struct Arguments(*mut ffi::lua_State);

/// What a table holds at one position, as far as sorting cares.
pub(super) enum Element {
    Number,
    Text(usize),
    Other,
}

// SAFETY of all below: the state runs the function whose arguments are looked at, and keeps room for a few more values; a position
// beyond the arguments is one where there is nothing. Nothing here calls the script or raises an error.
impl Arguments {
    pub(super) fn count(&self) -> usize {
        // SAFETY: as said above.
        usize::try_from(unsafe { ffi::lua_gettop(self.0) }).unwrap_or(0)
    }

    /// Bytes of a text; a number stands for one.
    pub(super) fn text_length(&self, position: c_int) -> Option<usize> {
        match self.kind(position) {
            // SAFETY: as said above.
            ffi::LUA_TSTRING => Some(unsafe { ffi::lua_objlen(self.0, position) }),
            ffi::LUA_TNUMBER => Some(32),
            _ => None,
        }
    }

    /// The length of a table.
    pub(super) fn table_length(&self, position: c_int) -> Option<usize> {
        self.length(position, ffi::LUA_TTABLE)
    }

    /// Bytes of a buffer.
    pub(super) fn buffer_length(&self, position: c_int) -> Option<usize> {
        self.length(position, ffi::LUA_TBUFFER)
    }

    /// A number, or a text that stands for one.
    pub(super) fn number(&self, position: c_int) -> Option<f64> {
        let mut is_number = 0;
        // SAFETY: as said above.
        let number = unsafe { ffi::lua_tonumberx(self.0, position, &raw mut is_number) };
        (is_number != 0).then_some(number)
    }

    /// The bytes of a text; none of anything else.
    pub(super) fn text_bytes(&self, position: c_int) -> &[u8] {
        if self.kind(position) != ffi::LUA_TSTRING {
            return &[];
        }
        let mut length = 0;
        // SAFETY: as said above; it is a text, and stays where it is as long as it is an argument.
        unsafe {
            let start = ffi::lua_tolstring(self.0, position, &raw mut length);
            std::slice::from_raw_parts(start.cast(), length)
        }
    }

    /// Whether it is a value that may have a function of its own to be compared by.
    pub(super) fn may_have_metamethods(&self, position: c_int) -> bool {
        matches!(self.kind(position), ffi::LUA_TTABLE | ffi::LUA_TUSERDATA)
    }

    pub(super) fn is_absent(&self, position: c_int) -> bool {
        matches!(self.kind(position), ffi::LUA_TNONE | ffi::LUA_TNIL)
    }

    /// Whether it is a function that is not the script's own, so that calling it asks nothing.
    pub(super) fn is_native(&self, position: c_int) -> bool {
        // SAFETY: as said above.
        unsafe { ffi::lua_iscfunction(self.0, position) != 0 }
    }

    /// Whether it is a table that cannot be changed.
    pub(super) fn is_frozen(&self, position: c_int) -> bool {
        // SAFETY: as said above, and it is a table.
        self.kind(position) == ffi::LUA_TTABLE && unsafe { ffi::lua_getreadonly(self.0, position) != 0 }
    }

    /// What the table at a position holds at an index.
    pub(super) fn element(&self, table: c_int, index: usize) -> Element {
        // SAFETY: as said above, and the caller knows that it is a table; the value is taken off again.
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

    /// Bytes that the state holds.
    pub(super) fn heap_bytes(&self) -> usize {
        // SAFETY: as said above; it is asked how much there is, and collects nothing.
        usize::try_from(unsafe { ffi::lua_gc(self.0, ffi::LUA_GCCOUNT, 0) }).unwrap_or(0) << 10
    }

    fn length(&self, position: c_int, kind: c_int) -> Option<usize> {
        // SAFETY: as said above, and it has a length.
        (self.kind(position) == kind).then(|| unsafe { ffi::lua_objlen(self.0, position) })
    }

    fn kind(&self, position: c_int) -> c_int {
        // SAFETY: as said above.
        unsafe { ffi::lua_type(self.0, position) }
    }
}
