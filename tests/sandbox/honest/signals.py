"""Signals that a script sends itself, its threads, its children and their groups."""
import ctypes
import os
import signal
import subprocess
import threading
import time

checks = 0


def check(holds):
    global checks
    assert holds
    checks += 1


def error(send, *arguments):
    try:
        send(*arguments)
    except OSError as error:
        return type(error)
    return None


got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
signal.siginterrupt(signal.SIGUSR1, False)
for _ in range(50):
    os.kill(os.getpid(), signal.SIGUSR1)
check(len(got) == 50)
signal.raise_signal(signal.SIGUSR1)
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
check(len(got) == 52)
os.kill(0, 0)
check(error(os.kill, os.getpid(), 0) is None)
check(error(os.kill, os.getpid(), 65) is OSError)
check(error(os.killpg, os.getpgrp(), 0) is None)

# Another thread, by the call that musl uses and by that of everybody else.
libc = ctypes.CDLL(None, use_errno=True)
is_over = threading.Event()
waiting = threading.Thread(target=is_over.wait)
waiting.start()
tkill = ctypes.c_long(200 if os.uname().machine == "x86_64" else 130)
for send in (
    lambda: libc.syscall(tkill, waiting.native_id, int(signal.SIGUSR1)),
    lambda: signal.pthread_kill(waiting.ident, signal.SIGUSR1),
):
    before = len(got)
    send()
    while len(got) == before:
        time.sleep(0.01)
    check(len(got) == before + 1)
is_over.set()
waiting.join()

child = subprocess.Popen(["sleep", "100"])
child.terminate()
check(child.wait() == -signal.SIGTERM)
check(error(os.kill, child.pid, 0) is ProcessLookupError)

# With a handler for the end of children, which begins a call anew.
ended = []
signal.signal(signal.SIGCHLD, lambda *_: ended.append(1))
signal.siginterrupt(signal.SIGCHLD, False)
for _ in range(20):
    child = subprocess.Popen(["sleep", "100"])
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
check(len(ended) > 0)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)

group = subprocess.Popen(["bash", "-c", "sleep 100 & sleep 100; true"], start_new_session=True)
time.sleep(0.3)
check(error(os.killpg, group.pid, 0) is None)
os.killpg(group.pid, signal.SIGKILL)
check(group.wait() == -signal.SIGKILL)

# A grandchild whose parent has ended.
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.write(write, str(os.getpid()).encode())
        time.sleep(100)
    os._exit(0)
os.wait()
orphan = int(os.read(read, 16))
time.sleep(0.2)
check(error(os.kill, orphan, 0) is None)
check(error(os.kill, orphan, signal.SIGTERM) is None)
for _ in range(500):
    if error(os.kill, orphan, 0) is ProcessLookupError:
        break
    time.sleep(0.01)
check(error(os.kill, orphan, 0) is ProcessLookupError)

stopped = subprocess.Popen(["sleep", "100"])
stopped.send_signal(signal.SIGSTOP)
_, status = os.waitpid(stopped.pid, os.WUNTRACED)
check(os.WIFSTOPPED(status))
stopped.send_signal(signal.SIGCONT)
stopped.kill()
check(stopped.wait() == -signal.SIGKILL)

# An id that nobody has.
check(error(os.kill, 4194303, 0) in (ProcessLookupError, PermissionError))
if os.fork() == 0:
    os.abort()
check(os.WTERMSIG(os.wait()[1]) == signal.SIGABRT)
print(checks, "checks")
