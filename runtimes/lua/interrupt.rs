//! Stops a running script from another thread, at no cost to those that are never stopped.
//!
//! Luau asks its interrupt, if there is one, at every loop, call and step of a pattern, and its header allows setting that
//! one callback from any thread. mlua's own is always there and makes a tight loop 1.8 times slower; this one is stored
//! when the run must stop, and not before. A room for unsafe code: the state's interrupt is reached through a pointer.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Lua, ffi};

/// The interrupt of one state. The state must outlive every [`Running`] of it.
pub(super) struct Interrupt(Arc<Target>);

struct Target {
    /// The state's callback, an optional function pointer: null when there is none.
    callback: NonNull<AtomicPtr<()>>,
    /// Whether a script runs, so that the state is alive and the callback may be set.
    is_running: Mutex<bool>,
}

// SAFETY: the callback is followed only under the lock and only while a script runs, when the state is alive; it is
// accessed atomically, and Luau reads it as the plain pointer that it is.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Interrupt {
    /// The interrupt of this state.
    pub(super) fn of(lua: &Lua) -> mlua::Result<Self> {
        let callback = lua.exec_raw_lua(|raw| {
            // SAFETY: the state is alive, and its callbacks lie in memory that lives and stays as long as it does.
            unsafe { &raw mut (*ffi::lua_callbacks(raw.state())).interrupt }.cast::<AtomicPtr<()>>()
        });
        let callback =
            NonNull::new(callback).ok_or_else(|| mlua::Error::runtime("the state has no callbacks"))?;
        Ok(Self(Arc::new(Target { callback, is_running: Mutex::new(false) })))
    }

    /// From here until the guard is dropped, a [`stopper`](Self::stopper) stops the script.
    pub(super) fn running(&self) -> Running<'_> {
        *self.0.locked() = true;
        Running(&self.0)
    }

    /// Stops the script that runs when it is called, from whichever thread; without one it does nothing.
    pub(super) fn stopper(&self) -> impl FnOnce() + Send + 'static {
        let target = self.0.clone();
        move || {
            let is_running = target.locked();
            if *is_running {
                target.set(stop as *mut ());
            }
        }
    }
}

/// A script is running; dropped, the state's interrupt is as it was.
pub(super) struct Running<'a>(&'a Target);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut is_running = self.0.locked();
        *is_running = false;
        self.0.set(null_mut());
    }
}

impl Target {
    /// Called under the lock, while a script runs.
    fn set(&self, callback: *mut ()) {
        // SAFETY: the state is alive, and an optional function has the size, alignment and null of a pointer.
        unsafe { self.callback.as_ref() }.store(callback, Ordering::Release);
    }

    fn locked(&self) -> MutexGuard<'_, bool> {
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
