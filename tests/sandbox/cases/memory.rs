//! Memory that no limit of a single process counts.

use std::time::Duration;

use metier::error::ErrorKind;
use metier::policy::SandboxLevel;

use super::{assert_stopped_for_memory, assert_stopped_or_full, case};
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::survivors;

pub const CASES: &[Case] = &[
    case("E11b", "memory of many processes, each of which has little", many),
    case("E11c", "memory that many processes share, which breaks no limit", shared),
    case("E11d", "memory that many processes shared while they end, over and over", shared_by_ending),
    case("E12b", "files in memory without a name, which there are none of", files),
    case("E12c", "such files, mapped and closed again", mapped),
    case("E12d", "memory that is shared by name", by_name),
    case("E12e", "to hide from whoever counts", hiding),
    case("E12f", "memory of a program that nobody may look into", unreadable),
    case("E12g", "memory that is shared by name, closed again, beside memory of its own", by_name_and_own),
];

const MAX_MEMORY: u64 = 256 << 20;

#[track_caller]
fn assert_stopped(fixture: &Fixture) -> CaseResult {
    assert_stopped_for_memory(fixture, MAX_MEMORY, 20)
}

fn python(text: &str) -> Fixture {
    Fixture::python(text).memory(MAX_MEMORY).deadline(30_000)
}

fn many() -> CaseResult {
    assert_stopped(&python(
        "import os, time
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        x = bytearray(os.urandom(1 << 16) * 960)
        time.sleep(100)
time.sleep(100)",
    ))
}

/// What was there before a fork is everybody's, and there once.
fn shared() -> CaseResult {
    let fixture = python(
        "import os, time
x = bytearray(os.urandom(1 << 16) * 1600)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        time.sleep(0.7)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print(len(x))",
    );
    fixture.run().assert_stdout("104857600\n");
    Ok(())
}

/// Who ends while it is counted takes its memory along, and its share is everybody else's: neither counts twice.
fn shared_by_ending() -> CaseResult {
    let fixture = python(
        "import os, select, time
x = bytearray(os.urandom(1 << 16) * 1600)
until = time.monotonic() + 6
while time.monotonic() < until:
    r, w = os.pipe()
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            os.close(w)
            os.read(r, 1)
            os._exit(0)
        children.append(child)
    time.sleep(0.02)
    os.close(r)
    os.close(w)
    for child in children:
        os.waitpid(child, 0)
print(len(x))",
    );
    fixture.run().assert_stdout("104857600\n");
    Ok(())
}

fn files() -> CaseResult {
    let fixture = python(
        "import os
try:
    os.memfd_create('x')
except OSError as error:
    print(error.strerror)",
    );
    fixture.run().assert_stdout("Function not implemented\n");
    Ok(())
}

fn mapped() -> CaseResult {
    assert_stopped(&python(
        "import mmap, os, time
block = os.urandom(1 << 20)
kept = []
for number in range(8):
    memory = mmap.mmap(-1, 100 << 20)
    for at in range(100):
        memory[at << 20:(at + 1) << 20] = block
    kept.append(memory)
time.sleep(100)",
    ))
}

/// In namespaces what is shared by name has a size of its own; elsewhere it is the machine's, and only what is open counts.
fn by_name() -> CaseResult {
    let fixture = python(
        "import os, time
block = os.urandom(1 << 20)
kept = []
try:
    for number in range(4):
        file = os.open(f'/dev/shm/metier-sandbox-{os.getpid()}-{number}', os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.unlink(f'/dev/shm/metier-sandbox-{os.getpid()}-{number}')
        kept.append(file)
        for _ in range(100):
            os.write(file, block)
    time.sleep(100)
except OSError as error:
    print(error.strerror)",
    )
    .grant("shm");
    assert_stopped_or_full(&fixture, "No space left on device\n")
}

fn hiding() -> CaseResult {
    let fixture = python(
        "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.prctl(4, 0, 0, 0, 0), ctypes.get_errno(), libc.prctl(4, 1, 0, 0, 0))",
    );
    fixture.run().assert_stdout("-1 1 0\n");
    Ok(())
}

/// A program that may be run and not read is not to be looked into, whatever it has open.
fn unreadable() -> CaseResult {
    let fixture = python(
        "import os, shutil, sys
program = os.path.join(os.environ['HOME'], 'program')
shutil.copy('/usr/bin/python3', program)
os.chmod(program, 0o111)
block = 'import mmap, os, time\\nkept = mmap.mmap(-1, 800 << 20)\\nfor _ in range(800): kept.write(os.urandom(1 << 20))\\ntime.sleep(100)'
os.environ['PYTHONHOME'] = '/usr'
os.execv(program, [program, '-S', '-c', block])",
    );
    let ran = fixture.run();
    assert_eq!(ran.error().kind(), ErrorKind::Memory, "{:?} {:?}", ran.0.result, ran.0.process);
    assert!(ran.0.duration < Duration::from_secs(20), "{:?}", ran.0.duration);
    survivors::assert_none(fixture.mark());
    Ok(())
}

/// Elsewhere than in namespaces it is the machine's, and nobody can tell whose.
fn by_name_and_own() -> CaseResult {
    let fixture = python(
        "import os, time
block = os.urandom(1 << 20)
with open(f'/dev/shm/metier-sandbox-{os.getpid()}', 'wb') as file:
    for _ in range(180):
        file.write(block)
try:
    own = bytearray()
    for _ in range(180):
        own += block
    time.sleep(3)
finally:
    os.unlink(file.name)",
    )
    .grant("shm");
    if fixture::level() != SandboxLevel::Namespaces {
        return Ok(());
    }
    assert_stopped(&fixture)
}
