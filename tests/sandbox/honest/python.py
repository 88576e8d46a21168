"""What scripts in Python do all day. A line for each thing that does not work."""

import asyncio
import concurrent.futures
import csv
import ctypes
import errno
import fcntl
import getpass
import glob
import gzip
import hashlib
import io
import json
import locale
import logging
import mmap
import multiprocessing
import os
import pathlib
import platform
import pwd
import queue
import random
import secrets
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import uuid
import xml.etree.ElementTree
import zipfile

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
def processes():
    assert subprocess.run(["ls", "/usr"], capture_output=True, check=True).stdout
    assert subprocess.check_output("echo a | tr a b", shell=True) == b"b\n"
    assert subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout == "42\n"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        assert cat.communicate(b"x" * 100000)[0] == b"x" * 100000


@check
def temporary_files():
    with tempfile.NamedTemporaryFile("w+") as file, tempfile.TemporaryDirectory() as folder:
        file.write("x")
        assert file.name.startswith(os.environ["TMPDIR"]) and folder.startswith(os.environ["TMPDIR"])
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    with tempfile.SpooledTemporaryFile(1) as file:
        file.write(b"xx")


@check
def threads():
    results = queue.Queue()
    workers = [threading.Thread(target=results.put, args=(number,)) for number in range(16)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert sorted(results.get() for _ in workers) == list(range(16))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(str, range(4))) == ["0", "1", "2", "3"]


@check
def loops():
    async def work():
        await asyncio.sleep(0.01)
        child = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
        return (await child.communicate())[0]

    assert asyncio.run(work()) == b"x\n"


@check
def children():
    here, there = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=lambda: there.send("x"))
    child.start()
    assert here.recv() == "x"
    child.join()


@check
def databases():
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(os.path.join(folder, "x.db"))
        database.execute("pragma journal_mode = wal")
        database.execute("create table t (a)")
        database.executemany("insert into t values (?)", [(number,) for number in range(100)])
        database.commit()
        assert database.execute("select sum(a) from t").fetchone() == (4950,)
        database.close()


@check
def formats():
    assert json.loads(json.dumps({"a": [1, None, "ü"]})) == {"a": [1, None, "ü"]}
    assert list(csv.reader(io.StringIO("a,b\n1,2\n"))) == [["a", "b"], ["1", "2"]]
    assert xml.etree.ElementTree.fromstring("<a><b/></a>")[0].tag == "b"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a/b", "x")
        assert zipfile.ZipFile(path).read("a/b") == b"x"
        with gzip.open(path, "wb") as file:
            file.write(b"x")
        with tarfile.open(path, "w:gz") as file:
            file.add("/etc/passwd", "p")
        assert tarfile.open(path).getnames() == ["p"]


@check
def files():
    home = pathlib.Path.home()
    (home / "a" / "b").mkdir(parents=True)
    (home / "a" / "f").write_text("x")
    os.rename(home / "a" / "f", home / "a" / "b" / "f")
    os.link(home / "a" / "b" / "f", home / "hard")
    os.symlink("a/b/f", home / "soft")
    os.chmod(home / "hard", 0o600)
    os.utime(home / "hard")
    shutil.copytree(home / "a", home / "copy")
    shutil.move(home / "copy", home / "moved")
    assert (home / "soft").read_text() == "x" and glob.glob(str(home / "m*" / "**"), recursive=True)
    with open(home / "hard", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            assert error.errno == errno.ENOSYS  # at the level landlock
        assert mmap.mmap(file.fileno(), 0)[:] == b"x"
    shutil.rmtree(home / "a")


@check
def surroundings():
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        pass  # as in many containers, and there is no name outside either
    else:
        assert getpass.getuser()
    assert os.cpu_count() >= 1 and platform.platform() and locale.getlocale()
    assert len(hashlib.sha256(secrets.token_bytes(8) + uuid.uuid4().bytes).digest()) == 32
    assert ssl.create_default_context() and random.SystemRandom().random() < 1
    assert ctypes.CDLL(None).getpid() == os.getpid()
    assert time.localtime() and os.path.exists("/dev/null") and sys.stdin.read() == ""
    logging.getLogger().warning("to standard error")
    assert open(os.devnull, "w").write("x") == 1


@check
def signals():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    os.kill(os.getpid(), 0)
    os.nice(0)


@check
def tests():
    class Case(unittest.TestCase):
        def runTest(self):
            self.assertEqual(1, 1)

    assert unittest.TextTestRunner(stream=io.StringIO()).run(Case()).wasSuccessful()


for function in CHECKS:
    try:
        function()
    except Exception as error:
        print(function.__name__, repr(error))
print(len(CHECKS), "checks")
