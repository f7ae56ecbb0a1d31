"""The zygote of a service: a process that has imported what the service's `preload` names, and forks its instances.

The gateway starts it: `python -m pilotlight.zygote MODULE … -- WHAT THE SERVICE'S COMMAND SAYS AFTER ITS INTERPRETER`. Its standard
input is a socket to the gateway: frames of `length u32` (native order) and JSON, descriptors beside them.

    gateway                     zygote                    blank
       │                          ├──────fork, fork────────▶│   made ahead, so that no request waits for a fork
       │◀── Ready ────────────────┤                         │
       ├─── Fork + output pipes ─▶├─── the same ───────────▶│   becomes the instance, runs the service's program
       │◀── Forked, its pid ──────┤

While a blank waits, it touches the memory that instances before it have touched at their start (`Pages`): a page fault
is then no part of a request.

A blank is the grandchild of its zygote: its parent ends at once, so the gateway's guardian, the subreaper, becomes its parent and
sees its end like that of any other process that it started. It leads a process group of its own.

Invariant: nothing is forked while there is a thread besides the main one or a descriptor that two processes must not share.
"""

import array
import gc
import importlib
import importlib.util
import itertools
import json
import os
import posix
import select
import signal
import socket
import struct
import sys
import types

MAX_MESSAGE = 1 << 20  # bytes of a frame, as in the gateway
MAX_FDS = 16  # beside one read; two belong to each Fork
REFILL_SECONDS = 0.1  # the next blank is made when the instance before it had this long to start
LESSONS = 3  # instances whose pages are looked at
MAX_TOUCHED, MAX_LOOKED_AT = 4_096, 65_536  # pages: of a blank, and of a zygote
POPULATE_READ, POPULATE_WRITE = 22, 23  # of madvise(2), Linux 5.14
PRESENT, IN_FILE, EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56  # of /proc/PID/pagemap
LENGTH = struct.Struct("=I")
MARK = "PILOTLIGHT_RUN"  # says to which instance a process belongs
HARMLESS = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
WITH_VALUE, WITHOUT_VALUE = "cmWX", "bBdEiIOPqRsSuv"  # options of the interpreter
# What the servers of the SDK import when they serve, and Python when a first host is encoded (Werkzeug: 4 ms).
SERVERS = {
    "pilotlight.asgi": ("pilotlight.asgi", "pilotlight._fast_asgi", "uvloop", "encodings.idna"),
    "pilotlight.wsgi": ("pilotlight.wsgi", "encodings.idna"),
}
HELP = "open it in what the service calls, not while it is imported, or take the module out of `preload`"
USAGE = "pilotlight.zygote: it is started by the gateway for a service with `preload`, not by hand\n"


class Refused(Exception):
    """Why there can be no zygote, or no fork of it."""


class Channel:
    """Frames and descriptors over a Unix socket."""

    def __init__(self, sock):
        self.sock, self.bytes, self.fds = sock, b"", []

    def send(self, message, fds=()):
        data = json.dumps(message).encode()
        data = LENGTH.pack(len(data)) + data
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.sock.sendmsg([data], rights)
        if sent < len(data):  # who has read it all may have closed by now
            self.sock.sendall(data[sent:])

    def receive(self):
        """The next message; None at the end of the stream."""
        while True:
            if len(self.bytes) >= LENGTH.size:
                end = LENGTH.size + LENGTH.unpack_from(self.bytes)[0]
                if end > MAX_MESSAGE:
                    raise ValueError(f"a message of {end} bytes")
                if len(self.bytes) >= end:
                    message, self.bytes = self.bytes[LENGTH.size : end], self.bytes[end:]
                    return json.loads(message)
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            try:
                data, rights, *_ = self.sock.recvmsg(65536, socket.CMSG_SPACE(MAX_FDS * 4), flags)
            except ConnectionError:
                return None
            for level, kind, payload in rights:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    received = array.array("i")
                    received.frombytes(payload[: len(payload) // 4 * 4])
                    self.fds += received
            if not data:
                return None
            self.bytes += data

    def is_waiting(self, seconds):
        """Whether there is something to receive within this time; None: for ever."""
        if len(self.bytes) >= LENGTH.size:
            return True
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(None if seconds is None else int(seconds * 1000)))

    def take(self, count):
        fds, self.fds = self.fds[:count], self.fds[count:]
        return fds


class Program:
    """What the service's command runs, taken apart as the interpreter does it."""

    def __init__(self, words):
        self.options, self.kind, self.target, self.arguments = [], None, None, []
        words = list(words)
        while words and self.kind is None:
            word = words.pop(0)
            if word == "--check-hash-based-pycs" and words:
                self.options += [word, words.pop(0)]
            elif word == "-" or word.startswith("--") and word != "--":
                raise Refused(f"`preload` cannot run a program that is started with `{word}`")
            elif word == "--" or not word.startswith("-"):
                self.kind, self.target = "script", words.pop(0) if word == "--" and words else word
            else:
                self._flags(word[1:], words)
        if self.kind is None or self.target == "--":
            raise Refused("the service's command names no program for its interpreter")
        self.arguments = words

    def _flags(self, letters, words):
        for place, letter in enumerate(letters):
            if letter in WITHOUT_VALUE:
                self.options.append("-" + letter)
                continue
            if letter not in WITH_VALUE:
                raise Refused(f"`preload` cannot run a program that is started with `-{letter}`")
            value = letters[place + 1 :] or (words.pop(0) if words else None)
            if value is None:
                raise Refused(f"the option -{letter} of the service's command has no value")
            if letter in "cm":
                self.kind, self.target = {"c": "code", "m": "module"}[letter], value
            else:
                self.options += ["-" + letter, value]
            return

    def prepare(self):
        """Finds modules where the program will, and compiles it."""
        if self.kind == "script" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
            sys.path[0] = os.path.dirname(os.path.realpath(self.target))
        elif self.kind == "code" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
            sys.path[0] = ""
        sys.argv = [{"script": self.target, "module": "-m", "code": "-c"}[self.kind], *self.arguments]

    def compile(self):
        """The program as a module `__main__` and its code. What it says itself is run by each instance."""
        main = types.ModuleType("__main__")
        main.__builtins__ = sys.modules["builtins"]
        if self.kind == "code":
            return main, compile(self.target, "<string>", "exec")
        if self.kind == "module":
            spec = importlib.util.find_spec(self.target)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(self.target + ".__main__")
            code = spec and spec.loader and spec.loader.get_code(spec.name)
            if not code:
                raise ImportError(f"there is no module {self.target!r} that could be run")
            main.__spec__, main.__loader__, main.__package__ = spec, spec.loader, spec.parent
            main.__file__ = sys.argv[0] = spec.origin
            main.__cached__ = spec.cached
            return main, code
        with open(self.target, "rb") as file:
            code = compile(file.read(), self.target, "exec")
        main.__file__, main.__cached__ = self.target, None
        return main, code


class Signals:
    """Dispositions and mask as they were before anything was imported."""

    def __init__(self):
        self.handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def restore(self):
        for number, handler in self.handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


class Blank:
    """A fork that waits for its orders."""

    def __init__(self, pid, channel):
        self.pid, self.channel = pid, channel

    def close(self):
        self.channel.sock.close()


class Pages:
    """The pages of the zygote's memory that an instance has used until REFILL_SECONDS after its start: it has copies of
    those that it wrote to, as Python does to whatever it looks at. A blank touches them before there is a request; the
    kernel's faults are half of the processor time of a first answer. No code of the service runs for it."""

    def __init__(self):
        self.ranges, self.lessons, self.advise = [], LESSONS, None
        try:
            import ctypes

            self.advise = ctypes.CDLL(None).madvise
            self.advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        except (ImportError, OSError, AttributeError, MemoryError):
            self.lessons = 0  # the first request touches them

    def learn(self, pid):
        """Looks at an instance; one that has ended teaches nothing."""
        if not self.lessons or not pid:
            return
        try:
            self.ranges = list(used_ranges(pid)) or self.ranges
            self.lessons -= 1
        except (OSError, ValueError):
            pass  # it has ended, or is somebody else's; or a name of a file is no text

    def touch(self):
        for start, size, how in self.ranges:
            self.advise(start, size, how)


def used_ranges(pid):
    """What of this process's private memory the other one, its fork, uses by itself: (start, size, advice)."""
    page, looked_at, touched = os.sysconf("SC_PAGE_SIZE"), 0, 0
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in read("/proc/self/maps").splitlines():
            span, mode, *_ = line.split(None, 2)
            start, end = (int(number, 16) // page for number in span.split("-"))
            looked_at += end - start
            if mode[0] != "r" or mode[3] != "p" or looked_at > MAX_LOOKED_AT:
                continue
            entries = array.array("Q")
            entries.frombytes(os.pread(pagemap.fileno(), (end - start) * 8, start * 8))
            mask, wanted, how = PRESENT, PRESENT, POPULATE_READ
            if mode[1] == "w":
                mask, wanted, how = PRESENT | IN_FILE | EXCLUSIVE, PRESENT | EXCLUSIVE, POPULATE_WRITE
            for is_used, group in itertools.groupby(enumerate(entries, start), lambda one: one[1] & mask == wanted):
                pages = [number for number, _ in group] if is_used else ()
                touched += len(pages) if how == POPULATE_WRITE else 0
                if pages and touched <= MAX_TOUCHED:
                    yield pages[0] * page, len(pages) * page, how


class Zygote:
    def __init__(self, control, signals):
        self.control, self.signals, self.blank, self.given = control, signals, None, []
        self.pages, self.last = Pages(), None
        self.known = set(open_descriptors())

    def check(self, after=""):
        found = threads() + descriptors(self.known.union(self.given, self.control.fds))
        if found:
            raise Refused(f"{after}{', '.join(found)}: a fork cannot have it; {HELP}")

    def preload(self, modules):
        self.check()
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as error:
                sys.excepthook(type(error), error, error.__traceback__)
                raise Refused(f"cannot import `{name}`: {type(error).__name__}: {error}") from None
            self.check(f"`{name}` has left ")

    def serve(self):
        """Forks whenever the gateway asks; returns in each instance, with its environment and output in place."""
        if self.refill():
            return
        self.control.send("Ready")
        while True:
            while not self.control.is_waiting(None if self.blank else REFILL_SECONDS):
                try:
                    self.pages.learn(self.last)
                    if self.refill():
                        return
                except (OSError, Refused):
                    break  # the next one that asks is told
            message = self.control.receive()
            if message is None:
                raise SystemExit(0)  # the service is stopped, or the gateway gone
            order, self.given = message["Fork"], self.control.take(2)
            try:
                if self.hand_over(order):
                    return
            except (OSError, Refused) as error:
                self.control.send({"NotForked": {"run": order["run"], "reason": str(error)}})
            self.given = close(self.given)

    def hand_over(self, order):
        """Gives the orders to a blank, to a fresh one if the one that waited has died; true in the instance."""
        for fresh in (False, True):
            if fresh and self.blank:
                self.blank.close()
                self.blank = None
            if not self.blank and self.refill():
                return True
            try:
                self.blank.channel.send(order, self.given)
                break
            except OSError:
                if fresh:
                    raise
        self.control.send({"Forked": {"run": order["run"], "pid": self.blank.pid}})
        self.last = self.blank.pid
        self.blank.close()
        self.blank = None

    def refill(self):
        """Makes a blank; true in it, when it has become an instance."""
        self.check()
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        middle = os.fork()
        if not middle:
            try:
                if os.fork():
                    os._exit(0)
            except OSError as error:
                theirs.send(str(error).encode())
                os._exit(1)
            ours.close()
            self.control.sock.close()
            self.given, self.control.fds = close(self.given), close(self.control.fds)  # of others
            self.become(Channel(theirs))
            return True
        theirs.close()
        os.waitpid(middle, 0)
        said = ours.recv(4096)
        if not said.isdigit():
            ours.close()
            raise OSError(f"cannot fork: {said.decode() or 'the new process ended at once'}")
        self.blank = Blank(int(said), Channel(ours))

    def become(self, channel):
        """The blank's part: waits, then is the instance."""
        os.setpgid(0, 0)
        self.signals.restore()
        channel.sock.send(str(os.getpid()).encode())
        if not channel.is_waiting(0):
            self.pages.touch()
        order = channel.receive()
        if order is None:
            os._exit(0)  # its zygote has ended
        for number, fd in zip((1, 2), channel.take(2)):
            os.dup2(fd, number)
            os.close(fd)
        channel.sock.close()
        for name, value in order["env"]:
            os.environ[name] = value
            posix.environ[os.fsencode(name)] = os.fsencode(value)  # what `os.environ` was made of
            if name == MARK:
                show(os.fsencode(name), os.fsencode(value))


def show(name, value):
    """Sets a variable, to a value of the same length, in what /proc/PID/environ shows: where this process was executed. The guardian knows
    by it whose a process is that was forked and has executed nothing since. Without it, such a process ends with the zygote."""
    try:
        with open("/proc/self/environ", "rb") as file:
            before = file.read()
        at = before.find(b"\0" + name + b"=") + len(name) + 2
        if before[at : at + len(value) + 1].find(b"\0") != len(value):
            return
        with open("/proc/self/stat", "rb") as file:
            start = int(file.read().rpartition(b")")[2].split()[47])  # env_start, field 50
        with open("/proc/self/mem", "r+b", buffering=0) as file:
            file.seek(start + at)
            file.write(value)
    except (OSError, ValueError, IndexError):
        pass


def close(fds):
    """Closes them; what is left: none."""
    for fd in fds:
        os.close(fd)
    return []


def threads():
    """Threads besides this one, by name."""
    own, found = str(os.getpid()), []
    tasks = [task for task in os.listdir("/proc/self/task") if task != own]
    if tasks:
        threading = sys.modules.get("threading")
        known = {str(one.native_id): one.name for one in threading.enumerate()} if threading else {}
        for task in tasks:
            found.append(f"the thread {known.get(task) or read(f'/proc/self/task/{task}/comm').strip() or task}")
    return found


def descriptors(known):
    """Descriptors that two processes must not share. Files that are only read, and logs that are appended to, they may."""
    found = []
    for number, target in open_descriptors().items():
        if number < 3 or number in known or target in HARMLESS:
            continue
        if target.startswith("socket:"):
            found.append(f"a socket{peer(number)} (descriptor {number})")
        elif target.startswith("pipe:"):
            found.append(f"a pipe (descriptor {number})")
        elif target.startswith("anon_inode:"):
            what = "an event loop" if "eventpoll" in target else f"{target[11:]}"
            found.append(f"{what} (descriptor {number})")
        else:
            flags = [line.split()[1] for line in read(f"/proc/self/fdinfo/{number}").splitlines() if line.startswith("flags:")]
            mode = int(flags[0], 8) if flags else os.O_RDWR
            if mode & os.O_ACCMODE != os.O_RDONLY and not mode & os.O_APPEND:
                found.append(f"the file {target}, open for writing (descriptor {number})")
    return found


def open_descriptors():
    """Every open descriptor, and what it is."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[int(number)] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass  # the listing's own
    return found


def peer(number):
    """Whom a socket is connected to, or where it listens, for the message."""
    try:
        with socket.socket(fileno=os.dup(number)) as sock:
            try:
                name, text = sock.getpeername(), " to"
            except OSError:
                name, text = sock.getsockname(), " at"
            if isinstance(name, tuple):
                return f"{text} {name[0]}:{name[1]}"
            return f"{text} {os.fsdecode(name)}" if name else ""
    except OSError:
        return ""


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def take_input():
    """The socket on standard input, which becomes /dev/null for whoever is forked."""
    try:
        sock = socket.socket(fileno=os.dup(0))
        if sock.family != socket.AF_UNIX:
            raise OSError
    except OSError:
        sys.stderr.write(USAGE)
        raise SystemExit(2) from None
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return sock


def preload_sdk(program):
    """Imports what every instance needs, and what its server does, so that none of it is left for after the fork."""
    importlib.import_module("pilotlight")
    if importlib.import_module("pilotlight._core").native:
        importlib.import_module("pilotlight._fast")
    for name in SERVERS.get(program.target, ()) if program.kind == "module" else ():
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # the instance does without it, or says why it cannot


def prepare(zygote, modules, program):
    program.prepare()
    preload_sdk(program)
    zygote.preload(modules)
    try:
        return program.compile()
    except (OSError, ImportError, SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error, error.__traceback__)
        raise Refused(f"cannot load `{program.target}`: {type(error).__name__}: {error}") from None


def main(words=None):
    """The command line. Returns with the end of an instance's program."""
    words = list(sys.argv[1:] if words is None else words)
    if "--" not in words:
        sys.stderr.write(USAGE)
        raise SystemExit(2)
    end = words.index("--")
    modules, command = words[:end], words[end + 1 :]
    try:
        program, refused = Program(command), None
    except Refused as error:
        program, refused = None, error
    if program and program.options:
        place = len(command) - len(program.arguments)
        rest = {"script": [program.target], "module": ["-m", program.target], "code": ["-c", program.target]}[program.kind]
        again = [*modules, "--", *rest, *command[place:]]
        os.execv(sys.executable, [sys.executable, *program.options, "-m", "pilotlight.zygote", *again])
    control = Channel(take_input())
    try:
        if refused:
            raise refused
        zygote = Zygote(control, Signals())
        module, code = prepare(zygote, modules, program)
        gc.collect()
        gc.freeze()  # what is there now is not looked at again, so its pages stay shared
        zygote.serve()
    except Refused as error:
        control.send({"Refused": {"reason": str(error)}})
        raise SystemExit(1) from None
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


if __name__ == "__main__":
    from pilotlight import zygote  # not as `__main__`, which the service's program will be

    zygote.main()
