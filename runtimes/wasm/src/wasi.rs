//! WASI for plug-ins: clocks and random numbers, no files, no arguments, no environment, and streams that lead nowhere.
//!
//! Every function of `wasi_snapshot_preview1` exists with its type, since tool chains import what they might need. A number
//! that WASI does not define and an address outside of the plug-in's memory trap, as WASI requires; an operation that an open
//! descriptor does not support returns an error number. No function waits, and long operations on memory check the token
//! regularly.

use std::fmt;
use std::time::{Instant, SystemTime};

use wasmtime::{Error, Extern, FuncType, Linker, Result, Val, ValType};

use super::budget::BYTES_PER_CHECK;
use super::imports::WASI_NAMESPACE;
use metier_core::policy::CancelToken;

/// The WASI state of one run.
pub(super) struct Wasi {
    /// The start of the monotonic clock.
    started: Instant,
    /// The streams of the descriptors 0, 1 and 2, until they are closed; there are no other descriptors.
    streams: [Option<Stream>; 3],
    cancel: CancelToken,
}

#[derive(Clone, Copy)]
enum Stream {
    Input,
    Output,
}

impl Wasi {
    pub(super) fn new(cancel: &CancelToken) -> Self {
        let streams = [Stream::Input, Stream::Output, Stream::Output].map(Some);
        Self { started: Instant::now(), streams, cancel: cancel.clone() }
    }

    fn stream(&self, descriptor: u64) -> Option<Stream> {
        *self.streams.get(usize::try_from(descriptor).ok()?)?
    }

    /// This error number for an open descriptor; `BADF` for any other.
    fn if_open(&self, descriptor: u64, errno: Errno) -> Errno {
        if self.stream(descriptor).is_some() { errno } else { BADF }
    }

    fn close(&mut self, descriptor: u64) -> Errno {
        let errno = self.if_open(descriptor, SUCCESS);
        self.set_stream(descriptor, None);
        errno
    }

    /// Moves a stream to another descriptor and replaces its stream; both must be open.
    fn renumber(&mut self, from: u64, to: u64) -> Errno {
        let Some(stream) = self.stream(from).filter(|_| self.stream(to).is_some()) else { return BADF };
        self.set_stream(from, None);
        self.set_stream(to, Some(stream));
        SUCCESS
    }

    fn set_stream(&mut self, descriptor: u64, stream: Option<Stream>) {
        let slot = usize::try_from(descriptor).ok().and_then(|index| self.streams.get_mut(index));
        if let Some(slot) = slot {
            *slot = stream;
        }
    }
}

/// The error that unwinds a plug-in which called `proc_exit`.
#[derive(Debug)]
pub(super) struct I32Exit(pub(super) i32);

impl fmt::Display for I32Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plug-in exited with code {}", self.0)
    }
}

impl std::error::Error for I32Exit {}

/// Error numbers of WASI.
type Errno = u16;
const SUCCESS: Errno = 0;
const BADF: Errno = 8;
const INVAL: Errno = 28;
const NOTDIR: Errno = 54;
const NOTSUP: Errno = 58;
const OVERFLOW: Errno = 61;

/// One function: its parameters and its implementation. An error ends the run.
struct Function {
    name: &'static str,
    params: &'static [Param],
    returns: bool,
    body: fn(&mut Call<'_>, &[u64]) -> Result<Errno>,
}

/// A parameter: its width, and the largest number that WASI defines for it.
#[derive(Clone, Copy)]
struct Param {
    is_wide: bool,
    max: u64,
}

const fn narrow(max: u64) -> Param {
    Param { is_wide: false, max }
}

const FD: Param = narrow((1 << 32) - 1);
const ADDRESS: Param = FD;
const LENGTH: Param = FD;
const CODE: Param = FD;
const WIDE: Param = Param { is_wide: true, max: u64::MAX };
const RIGHTS: Param = Param { is_wide: true, max: (1 << 30) - 1 };
const CLOCK: Param = narrow(3);
const ADVICE: Param = narrow(5);
const WHENCE: Param = narrow(2);
const SIGNAL: Param = narrow(30);
const LOOKUP_FLAGS: Param = narrow((1 << 1) - 1);
const OPEN_FLAGS: Param = narrow((1 << 4) - 1);
const FD_FLAGS: Param = narrow((1 << 5) - 1);
const TIME_FLAGS: Param = narrow((1 << 4) - 1);
const RECEIVE_FLAGS: Param = narrow((1 << 2) - 1);
const SEND_FLAGS: Param = narrow((1 << 16) - 1);
const SHUTDOWN_FLAGS: Param = narrow((1 << 2) - 1);

const fn row(
    name: &'static str,
    params: &'static [Param],
    body: fn(&mut Call<'_>, &[u64]) -> Result<Errno>,
) -> Function {
    Function { name, params, returns: true, body }
}

const FUNCTIONS: &[Function] = &[
    // There are none, so nothing is written.
    row("args_get", &[ADDRESS, ADDRESS], |_, _| Ok(SUCCESS)),
    row("args_sizes_get", &[ADDRESS, ADDRESS], no_strings),
    row("environ_get", &[ADDRESS, ADDRESS], |_, _| Ok(SUCCESS)),
    row("environ_sizes_get", &[ADDRESS, ADDRESS], no_strings),
    row("clock_res_get", &[CLOCK, ADDRESS], clock_resolution),
    row("clock_time_get", &[CLOCK, WIDE, ADDRESS], clock_time),
    row("fd_advise", &[FD, WIDE, WIDE, ADVICE], |_, _| Ok(BADF)),
    row("fd_allocate", &[FD, WIDE, WIDE], |call, args| Ok(call.wasi.if_open(args[0], NOTSUP))),
    row("fd_close", &[FD], |call, args| Ok(call.wasi.close(args[0]))),
    row("fd_datasync", &[FD], |call, args| Ok(call.wasi.if_open(args[0], SUCCESS))),
    row("fd_fdstat_get", &[FD, ADDRESS], descriptor_status),
    row("fd_fdstat_set_flags", &[FD, FD_FLAGS], |_, _| Ok(BADF)),
    row("fd_fdstat_set_rights", &[FD, RIGHTS, RIGHTS], |call, args| Ok(call.wasi.if_open(args[0], NOTSUP))),
    row("fd_filestat_get", &[FD, ADDRESS], file_status),
    row("fd_filestat_set_size", &[FD, WIDE], |_, _| Ok(BADF)),
    row("fd_filestat_set_times", &[FD, WIDE, WIDE, TIME_FLAGS], |_, args| Ok(set_times(args[3]))),
    // Standard input is at its end, and what is written to the other streams goes nowhere.
    row("fd_pread", &[FD, ADDRESS, LENGTH, WIDE, ADDRESS], |_, _| Ok(BADF)),
    row("fd_prestat_get", &[FD, ADDRESS], |_, _| Ok(BADF)),
    row("fd_prestat_dir_name", &[FD, ADDRESS, LENGTH], |_, _| Ok(NOTDIR)),
    row("fd_pwrite", &[FD, ADDRESS, LENGTH, WIDE, ADDRESS], |_, _| Ok(BADF)),
    row("fd_read", &[FD, ADDRESS, LENGTH, ADDRESS], read),
    row("fd_readdir", &[FD, ADDRESS, LENGTH, WIDE, ADDRESS], |_, _| Ok(BADF)),
    row("fd_renumber", &[FD, FD], |call, args| Ok(call.wasi.renumber(args[0], args[1]))),
    row("fd_seek", &[FD, WIDE, WHENCE, ADDRESS], |_, args| Ok(seek(args[1].cast_signed(), args[2]))),
    row("fd_sync", &[FD], |call, args| Ok(call.wasi.if_open(args[0], SUCCESS))),
    row("fd_tell", &[FD, ADDRESS], |_, _| Ok(BADF)),
    row("fd_write", &[FD, ADDRESS, LENGTH, ADDRESS], write),
    // No descriptor is a directory.
    row("path_create_directory", &[FD, ADDRESS, LENGTH], |_, _| Ok(BADF)),
    row("path_filestat_get", &[FD, LOOKUP_FLAGS, ADDRESS, LENGTH, ADDRESS], |_, _| Ok(BADF)),
    row(
        "path_filestat_set_times",
        &[FD, LOOKUP_FLAGS, ADDRESS, LENGTH, WIDE, WIDE, TIME_FLAGS],
        |_, args| Ok(set_times(args[6])),
    ),
    row("path_link", &[FD, LOOKUP_FLAGS, ADDRESS, LENGTH, FD, ADDRESS, LENGTH], |_, _| Ok(BADF)),
    row(
        "path_open",
        &[FD, LOOKUP_FLAGS, ADDRESS, LENGTH, OPEN_FLAGS, RIGHTS, RIGHTS, FD_FLAGS, ADDRESS],
        |call, args| Ok(call.wasi.if_open(args[0], NOTDIR)),
    ),
    row("path_readlink", &[FD, ADDRESS, LENGTH, ADDRESS, LENGTH, ADDRESS], |_, _| Ok(BADF)),
    row("path_remove_directory", &[FD, ADDRESS, LENGTH], |_, _| Ok(BADF)),
    row("path_rename", &[FD, ADDRESS, LENGTH, FD, ADDRESS, LENGTH], |_, _| Ok(BADF)),
    row("path_symlink", &[ADDRESS, LENGTH, FD, ADDRESS, LENGTH], |_, _| Ok(BADF)),
    row("path_unlink_file", &[FD, ADDRESS, LENGTH], |_, _| Ok(BADF)),
    // No call may wait past a deadline, so none waits.
    row("poll_oneoff", &[ADDRESS, ADDRESS, LENGTH, ADDRESS], |_, args| {
        Ok(if args[2] == 0 { INVAL } else { NOTSUP })
    }),
    Function { returns: false, ..row("proc_exit", &[CODE], |_, args| Err(exit(args[0]))) },
    row("proc_raise", &[SIGNAL], |_, _| Err(Error::msg("proc_raise of WASI is not offered here"))),
    row("sched_yield", &[], |_, _| {
        std::thread::yield_now();
        Ok(SUCCESS)
    }),
    row("random_get", &[ADDRESS, LENGTH], random),
    row("sock_accept", &[FD, FD_FLAGS, ADDRESS], |_, _| Ok(BADF)),
    row("sock_recv", &[FD, ADDRESS, LENGTH, RECEIVE_FLAGS, ADDRESS, ADDRESS], receive),
    row("sock_send", &[FD, ADDRESS, LENGTH, SEND_FLAGS, ADDRESS], send),
    row("sock_shutdown", &[FD, SHUTDOWN_FLAGS], |_, _| Ok(BADF)),
];

/// Links all functions, for instances whose data contains the WASI state.
pub(super) fn link<T: 'static>(
    linker: &mut Linker<T>,
    wasi: impl Fn(&mut T) -> &mut Wasi + Copy + Send + Sync + 'static,
) -> Result<()> {
    FUNCTIONS.iter().try_for_each(|function| {
        let params = function.params.iter().map(|param| param.ty());
        let ty = FuncType::new(linker.engine(), params, function.returns.then_some(ValType::I32));
        linker.func_new(WASI_NAMESPACE, function.name, ty, move |mut caller, values, results| {
            let memory = caller.get_export("memory").and_then(Extern::into_memory);
            let (memory, data) = match &memory {
                Some(memory) => memory.data_and_store_mut(&mut caller),
                None => (&mut [][..], caller.data_mut()),
            };
            let errno = function.call(memory, wasi(data), values)?;
            if let Some(result) = results.first_mut() {
                *result = Val::I32(errno.into());
            }
            Ok(())
        })?;
        Ok(())
    })
}

impl Param {
    fn ty(self) -> ValType {
        if self.is_wide { ValType::I64 } else { ValType::I32 }
    }
}

impl Function {
    fn call(&self, memory: &mut [u8], wasi: &mut Wasi, values: &[Val]) -> Result<Errno> {
        let mut args = [0; 9];
        for ((arg, param), value) in args.iter_mut().zip(self.params).zip(values) {
            *arg = match value {
                Val::I32(number) => number.cast_unsigned().into(),
                Val::I64(number) => number.cast_unsigned(),
                _ => 0,
            };
            if *arg > param.max {
                let sentence = format!("{} was called with a number that WASI does not define", self.name);
                return Err(Error::msg(sentence));
            }
        }
        let mut call = Call { name: self.name, memory, wasi };
        (self.body)(&mut call, &args[..self.params.len()])
    }
}

/// A running call.
struct Call<'a> {
    name: &'static str,
    /// The plug-in's memory; empty if it exports none.
    memory: &'a mut [u8],
    wasi: &'a mut Wasi,
}

impl Call<'_> {
    /// Writes a number to memory, at an address that must be a multiple of its size.
    fn store<const SIZE: usize>(&mut self, address: u64, number: [u8; SIZE]) -> Result<()> {
        self.aligned(address, SIZE)?;
        let range = range(address, SIZE as u64).and_then(|range| self.memory.get_mut(range));
        range.map(|bytes| bytes.copy_from_slice(&number)).ok_or_else(|| outside(self.name))
    }

    fn load<const SIZE: usize>(&self, address: u64) -> Result<[u8; SIZE]> {
        self.aligned(address, SIZE)?;
        let bytes = self.slice(address, SIZE as u64)?;
        bytes.try_into().map_err(|_| outside(self.name))
    }

    fn slice(&self, address: u64, length: u64) -> Result<&[u8]> {
        range(address, length).and_then(|range| self.memory.get(range)).ok_or_else(|| outside(self.name))
    }

    fn aligned(&self, address: u64, size: usize) -> Result<()> {
        if address.is_multiple_of(size as u64) {
            return Ok(());
        }
        Err(Error::msg(format!("{} was called with an address that is not a multiple of {size}", self.name)))
    }

    /// Iterates over an array of buffers, each an address and a length.
    fn buffers(
        &self,
        array: u64,
        count: u64,
        mut each: impl FnMut(&Self, (u64, u64)) -> Result<()>,
    ) -> Result<()> {
        const SIZE: u64 = 8;
        for index in 0..count {
            if index.is_multiple_of(BYTES_PER_CHECK as u64 / SIZE) {
                self.goes_on()?;
            }
            let at = array + index * SIZE;
            let [address, length] = [self.load(at)?, self.load(at + 4)?].map(u32::from_le_bytes);
            each(self, (address.into(), length.into()))?;
        }
        Ok(())
    }

    fn goes_on(&self) -> Result<()> {
        self.wasi.cancel.check().map_err(|error| Error::msg(error.to_string()))
    }
}

fn range(address: u64, length: u64) -> Option<std::ops::Range<usize>> {
    let end = address.checked_add(length)?;
    Some(usize::try_from(address).ok()?..usize::try_from(end).ok()?)
}

fn outside(name: &str) -> Error {
    Error::msg(format!("{name} was called with an address outside of the plug-in's memory"))
}

/// The number of strings and their total size: both are zero.
fn no_strings(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    call.store(args[0], 0_u32.to_le_bytes())?;
    call.store(args[1], 0_u32.to_le_bytes())?;
    Ok(SUCCESS)
}

const REALTIME: u64 = 0;
const MONOTONIC: u64 = 1;

fn clock_resolution(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    const NANOSECOND: u64 = 1;
    if !matches!(args[0], REALTIME | MONOTONIC) {
        return Ok(BADF);
    }
    call.store(args[1], NANOSECOND.to_le_bytes())?;
    Ok(SUCCESS)
}

fn clock_time(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    let time = match args[0] {
        REALTIME => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?,
        MONOTONIC => call.wasi.started.elapsed(),
        // The processor times of the process and its threads are those of the host, not of the plug-in.
        _ => return Ok(BADF),
    };
    call.store(args[2], u64::try_from(time.as_nanos())?.to_le_bytes())?;
    Ok(SUCCESS)
}

/// `fdstat`: a stream of unknown type, which can be read or appended to.
fn descriptor_status(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    const APPEND: u16 = 1;
    const READ: u64 = 1 << 1;
    const WRITE: u64 = 1 << 6;
    let Some(stream) = call.wasi.stream(args[0]) else { return Ok(BADF) };
    let (flags, rights) = match stream {
        Stream::Input => (0, READ),
        Stream::Output => (APPEND, WRITE),
    };
    let at = args[1];
    call.store(at, [0_u8])?;
    call.store(at + 2, flags.to_le_bytes())?;
    call.store(at + 8, rights.to_le_bytes())?;
    call.store(at + 16, 0_u64.to_le_bytes())?;
    Ok(SUCCESS)
}

/// `filestat`: no device, unknown type, no size and no time.
fn file_status(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    if call.wasi.stream(args[0]).is_none() {
        return Ok(BADF);
    }
    let at = args[1];
    call.store(at + 16, [0_u8])?;
    for field in [0, 8, 24, 32, 40, 48, 56] {
        call.store(at + field, 0_u64.to_le_bytes())?;
    }
    Ok(SUCCESS)
}

/// A time cannot be both a given one and now; besides that, there is no file to set it for.
fn set_times(flags: u64) -> Errno {
    const ACCESS: u64 = 0b0011;
    const MODIFICATION: u64 = 0b1100;
    if [ACCESS, MODIFICATION].iter().any(|both| flags & both == *both) { INVAL } else { BADF }
}

/// No descriptor can seek, and a negative position is invalid.
fn seek(offset: i64, whence: u64) -> Errno {
    const START: u64 = 0;
    if whence == START && offset < 0 { INVAL } else { BADF }
}

fn exit(code: u64) -> Error {
    match i32::try_from(code) {
        Ok(code @ 0..126) => I32Exit(code).into(),
        _ => Error::msg(format!("proc_exit was called with {code}; an exit code is at most 125")),
    }
}

fn random(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    let cancel = &call.wasi.cancel;
    let bytes = range(args[0], args[1]).and_then(|range| call.memory.get_mut(range));
    let bytes = bytes.ok_or_else(|| outside(call.name))?;
    for part in bytes.chunks_mut(BYTES_PER_CHECK) {
        cancel.check().map_err(|error| Error::msg(error.to_string()))?;
        getrandom::fill(part)?;
    }
    Ok(SUCCESS)
}

/// Standard input is at its end: nothing is read.
fn read(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    let Some(Stream::Input) = call.wasi.stream(args[0]) else { return Ok(BADF) };
    let mut first = None;
    call.buffers(args[1], args[2], |_, buffer| {
        first = first.or(Some(buffer).filter(|(_, length)| *length > 0));
        Ok(())
    })?;
    first.map_or(Ok(&[][..]), |(address, length)| call.slice(address, length))?;
    call.store(args[3], 0_u32.to_le_bytes())?;
    Ok(SUCCESS)
}

/// What is written goes nowhere, and all of it is taken.
fn write(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    let Some(Stream::Output) = call.wasi.stream(args[0]) else { return Ok(BADF) };
    let mut total = 0_u64;
    call.buffers(args[1], args[2], |call, (address, length)| {
        total += length;
        call.slice(address, length).map(drop)
    })?;
    let Ok(total) = u32::try_from(total) else { return Ok(OVERFLOW) };
    call.store(args[3], total.to_le_bytes())?;
    Ok(SUCCESS)
}

/// No stream is a socket. The destination is checked all the same: the first buffer that is not empty.
fn receive(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    let mut first = None;
    if call.wasi.stream(args[0]).is_some() {
        call.buffers(args[1], args[2], |_, buffer| {
            first = first.or(Some(buffer).filter(|(_, length)| *length > 0));
            Ok(())
        })?;
    }
    first.map_or(Ok(&[][..]), |(address, length)| call.slice(address, length))?;
    Ok(BADF)
}

fn send(call: &mut Call<'_>, args: &[u64]) -> Result<Errno> {
    if call.wasi.stream(args[0]).is_some() {
        call.buffers(args[1], args[2], |call, (address, length)| call.slice(address, length).map(drop))?;
    }
    Ok(BADF)
}
