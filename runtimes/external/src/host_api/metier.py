"""The host API of metier for scripts in Python 3.8 and later.

    from metier import ctx, input

    text = ctx.read_file("README.md")

Every function of `metier api` is a method of `ctx`, under each of its names; what it refuses raises MetierError. `input` is
the input of the run.

A script whose skill says `worker: json-lines` answers run after run:

    from metier import serve

    serve(lambda input: len(input["text"]))
"""

import array
import json
import os
import socket
import sys
import threading
import traceback

__all__ = ["ctx", "input", "serve", "MetierError"]

_FUNCTIONS = json.loads({{functions}})


class MetierError(Exception):
    """What the host refused: kind, as in "denied", message, and help or None; output is what the process of a skill wrote."""

    def __init__(self, kind, message, help=None, output=None):
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.help = help
        self.output = output
        self._id = None


class _Line:
    """A line to the host of this process's own. Processes that split off make another, threads take turns."""

    def __init__(self):
        self._lock = threading.Lock()
        self._socket = None
        self._id = 0

    def ask(self, call, args):
        with self._lock:
            if self._socket is None:
                self._connect()
            self._id += 1
            request = _text({"id": self._id, "call": call, "args": args})
            try:
                self._socket.sendall(request)
                answer = self._answers.readline()
            except BaseException as error:
                # Whatever comes now belongs to a call that nobody waits for.
                self._socket = None
                if isinstance(error, OSError):
                    raise MetierError("unavailable", f"the host does not answer: {error}") from None
                raise
        if not answer.endswith(b"\n"):
            self._socket = None
            raise MetierError("unavailable", "the host has hung up")
        answer = json.loads(answer)
        if "error" in answer:
            error = MetierError(**answer["error"])
            error._id = answer["id"]
            raise error
        return answer["ok"]

    def _connect(self):
        number = os.environ.get("METIER_API_FD")
        if number is None:
            raise MetierError("unavailable", "the host API is there for scripts that metier runs in a sandbox")
        try:
            connection = socket.socket(fileno=os.dup(int(number)))
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            rights = array.array("i", [theirs.fileno()])
            with connection, theirs:
                connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except (OSError, ValueError) as error:
            sentence = f"descriptor {number} does not lead to the host: {error}"
            raise MetierError("unavailable", sentence) from None
        self._socket, self._answers = ours, ours.makefile("rb")


def _text(request):
    try:
        return _json(request)
    except (TypeError, ValueError, RecursionError) as error:
        raise MetierError("invalid-argument", f"ctx.{request['call']}: {error}") from None


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"


class _Context:
    """What the run reaches. `help(ctx)` lists the functions."""


def _method(function):
    names = [param["name"] for param in function["params"]]

    def method(self, *args, **named):
        args = list(args)
        for name in names[len(args):]:
            args.append(named.pop(name, None))
        if named:
            sentence = f"{function['signature']}: there is no parameter {', '.join(named)} left to give"
            raise MetierError("invalid-argument", sentence)
        return _line.ask(function["name"], args)

    params = "".join(f"\n\n{param['name']}: {param['doc']}" for param in function["params"])
    method.__name__, method.__doc__ = function["name"], function["doc"] + params
    return method


for _function in _FUNCTIONS:
    for _name in [_function["name"], *_function["aliases"]]:
        setattr(_Context, _name, _method(_function))

_line = _Line()
os.register_at_fork(after_in_child=_line.__init__)
ctx = _Context()


def __getattr__(name):
    if name == "input":
        globals()["input"] = value = _line.ask("input", [])
        return value
    raise AttributeError(f"module 'metier' has no attribute {name!r}")


def serve(handler):
    """Answers each run with `handler(input)`, until there are no more. What it raises fails the run and not the next ones.

    `sys.argv` has the arguments of the run. What is printed goes to standard error, since answers go to standard output.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    for line in requests:
        request = json.loads(line)
        sys.argv[1:] = request["args"]
        globals()["input"] = request["input"]
        answer = _answered(handler, request)
        sys.stdout.flush()
        answers.write(answer)
        answers.flush()


def _answered(handler, request):
    try:
        return _json({"id": request["id"], "ok": handler(request["input"])})
    except Exception as error:
        traceback.print_exc()
        if isinstance(error, MetierError):
            _fail(error, error.__traceback__)
        return _json({"id": request["id"], "error": {"message": f"{type(error).__name__}: {error}"}})


_hook = sys.excepthook


def _uncaught(kind, error, trace):
    """Tells the host which of its errors the script ends for, after Python has said so."""
    _hook(kind, error, trace)
    if isinstance(error, MetierError):
        _fail(error, trace)


def _fail(error, trace):
    if error._id is None:
        return
    line = None
    while trace:
        if trace.tb_frame.f_globals.get("__name__") == "__main__":
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        _line.ask("fail", [error._id, 1, line])
    except MetierError:
        pass


sys.excepthook = _uncaught
