"""The zygote: what it forks, what it refuses, how it ends. The test is its gateway, and the subreaper of what it forks."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

from harness import LIMIT_SECONDS, SDK

sys.path.insert(0, SDK)
from pilotlight.zygote import Channel, Program, Refused  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
SAY = """\
    import json, os, random, signal, sys
    print(json.dumps(dict(
        pid=os.getpid(), group=os.getpgid(0), parent=os.getppid(), argv=sys.argv, name=__name__, file=globals().get("__file__"),
        token=os.environ.get("TOKEN"), random=random.random(), preloaded=sorted(sys.modules), path=sys.path[0],
        input=os.readlink("/proc/self/fd/0"), fds=sorted(os.listdir("/proc/self/fd"), key=int)[:-1],
        usr1=str(signal.getsignal(signal.SIGUSR1)), masked=bool(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        flags=[sys.flags.no_site, sys.flags.optimize, sys.flags.isolated])), flush=True)
"""


def children():
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


class Forker:
    """A zygote and the gateway's end of its socket."""

    def __init__(self, folder, modules, command, environment=()):
        ours, theirs = socket.socketpair()
        ours.settimeout(LIMIT_SECONDS)
        environment = {**os.environ, "PYTHONPATH": SDK, "PYTHONDONTWRITEBYTECODE": "1", **dict(environment)}
        words = [sys.executable, "-m", "pilotlight.zygote", *modules, "--", *command]
        self.process = subprocess.Popen(words, stdin=theirs, stderr=subprocess.PIPE, cwd=folder, env=environment)
        theirs.close()
        self.channel, self.runs = Channel(ours), 0

    def said(self):
        return self.channel.receive()

    def fork(self, environment=()):
        """Asks for an instance: its pid, and a file with its output."""
        message, output = self.ask(environment)
        assert message == {"Forked": {"run": self.runs, "pid": message.get("Forked", {}).get("pid")}}, message
        return message["Forked"]["pid"], output

    def ask(self, environment=()):
        self.runs += 1
        read, write = os.pipe()
        self.channel.send({"Fork": {"run": self.runs, "env": list(dict(environment).items())}}, [write, write])
        os.close(write)
        return self.said(), os.fdopen(read)

    def stop(self):
        self.channel.sock.close()
        code = self.process.wait(LIMIT_SECONDS)
        if not self.process.stderr.closed:
            self.text = self.process.stderr.read().decode()  # to its end: the blank has ended, too
            self.process.stderr.close()
        return code, self.text


class ZygoteCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not sys.platform.startswith("linux"):
            raise unittest.SkipTest("not here: zygotes need Linux: a subreaper, /proc")
        assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    @classmethod
    def tearDownClass(cls):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.zygotes = Path(os.path.realpath(folder.name)), []
        self.addCleanup(self.bury_all)

    def write(self, **files):
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(textwrap.dedent(text))

    def zygote(self, modules=(), command=("app.py",), **environment):
        zygote = Forker(self.folder, modules, command, environment)
        self.zygotes.append(zygote)
        return zygote

    def bury_all(self):
        for zygote in self.zygotes:
            zygote.stop()
        while children():
            os.waitpid(-1, 0)

    def ready(self, *args, **environment):
        zygote = self.zygote(*args, **environment)
        self.assertEqual(zygote.said(), "Ready")
        return zygote

    def instance(self, zygote, status=0, **environment):
        """What a whole instance says; its exit status is ours to collect."""
        pid, output = zygote.fork(environment)
        with output:
            said = json.loads(output.read() or "null")
        self.assertEqual(self.buried(pid), status)
        return said

    def buried(self, pid):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def refused(self, modules, *texts, **files):
        """The zygote gives up and says why."""
        self.write(app="print('never')", **files)
        zygote = self.zygote(modules)
        message = zygote.said()
        self.assertIn("Refused", message)
        for text in texts:
            self.assertIn(text, message["Refused"]["reason"])
        code, errors = zygote.stop()
        self.assertEqual(code, 1)
        return errors


class Forks(ZygoteCase):
    def test_an_instance_is_an_ordinary_process_of_the_guardian(self):
        self.write(app=SAY, heavy="")
        zygote = self.ready(["heavy"])
        first = self.instance(zygote, TOKEN="one")
        second = self.instance(zygote, TOKEN="two")
        for said, token in ((first, "one"), (second, "two")):
            self.assertEqual(said["token"], token)
            self.assertEqual(said["group"], said["pid"])
            self.assertEqual(said["parent"], os.getpid())
            self.assertEqual(said["fds"], ["0", "1", "2"])
            self.assertEqual(said["input"], "/dev/null")
            self.assertEqual((said["name"], said["file"], said["argv"]), ("__main__", "app.py", ["app.py"]))
            self.assertEqual(said["path"], str(self.folder))
            self.assertIn("heavy", said["preloaded"])
        self.assertNotEqual(first["random"], second["random"])

    def test_a_burst(self):
        self.write(app=SAY)
        zygote = self.ready()
        outputs = []
        for run in range(1, 9):  # all are on their way before the first is answered
            read, write = os.pipe()
            zygote.channel.send({"Fork": {"run": run, "env": [["TOKEN", str(run)]]}}, [write, write])
            os.close(write)
            outputs.append(os.fdopen(read))
        forked = [zygote.said()["Forked"] for _ in outputs]
        self.assertEqual([one["run"] for one in forked], list(range(1, 9)))
        for number, (one, output) in enumerate(zip(forked, outputs), 1):
            with output:
                said = json.loads(output.read())  # ends: nobody else holds the pipe
            self.assertEqual((said["token"], said["pid"], said["fds"]), (str(number), one["pid"], ["0", "1", "2"]))
            self.assertEqual(self.buried(one["pid"]), 0)

    def test_arguments_modules_code_and_options_of_the_interpreter(self):
        self.write(app=SAY)
        (self.folder / "package").mkdir()
        (self.folder / "package" / "__init__.py").write_text("")
        (self.folder / "package" / "__main__.py").write_text(textwrap.dedent(SAY))
        said = self.instance(self.ready(command=["-S", "-OO", "app.py", "-S", "--", "x"]))
        self.assertEqual((said["flags"], said["argv"]), ([1, 2, 0], ["app.py", "-S", "--", "x"]))
        for module, file in (("app", "app.py"), ("package", "package/__main__.py")):
            said = self.instance(self.ready(command=["-m", module, "--port", "1"]))
            self.assertEqual(said["argv"], [str(self.folder / file), "--port", "1"])
            self.assertEqual((said["name"], said["file"]), ("__main__", str(self.folder / file)))
        said = self.instance(self.ready(command=["-c", textwrap.dedent(SAY), "y"]))
        self.assertEqual((said["argv"], said["path"]), (["-c", "y"], ""))

    def test_exit_status_traceback_and_signals_of_an_instance(self):
        self.write(app="""\
            import os, signal, sys, time
            how = os.environ["HOW"]
            if how == "raise": raise ValueError("broken")
            if how == "exit": sys.exit(7)
            print("up", flush=True)
            time.sleep(60)
        """)
        zygote = self.ready()
        pid, output = zygote.fork({"HOW": "exit"})
        self.assertEqual((self.buried(pid), output.read()), (7, ""))
        output.close()
        pid, output = zygote.fork({"HOW": "raise"})
        self.assertEqual(self.buried(pid), 1)
        self.assertIn("ValueError: broken", output.read())
        output.close()
        pid, output = zygote.fork({"HOW": "sleep"})
        self.assertEqual(output.readline(), "up\n")
        os.killpg(pid, signal.SIGTERM)
        self.assertEqual(self.buried(pid), -signal.SIGTERM)
        output.close()

    def test_signals_are_as_before_the_imports_and_hooks_run(self):
        self.write(app=SAY.replace("preloaded=", "hooked=sys.modules['rude'].hooked, preloaded="), rude="""\
            import os, signal
            hooked = []
            os.register_at_fork(after_in_child=lambda: hooked.append(1))
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        """)
        said = self.instance(self.ready(["rude"]))
        self.assertEqual((said["usr1"], said["masked"]), (str(signal.SIG_DFL), False))
        self.assertTrue(said["hooked"])

    def test_files_that_are_read_or_appended_to_may_stay_open(self):
        self.write(app="print('{}')", logs="""\
            import random
            log, data, null = open("log", "a"), open(__file__), open("/dev/null", "w")
        """)
        self.assertEqual(self.instance(self.ready(["logs"])), {})


class Refuses(ZygoteCase):
    def test_a_thread(self):
        self.refused(["json", "busy"], "`busy` has left the thread poller", "`preload`", busy="""\
            import threading, time
            threading.Thread(target=time.sleep, args=(60,), daemon=True, name="poller").start()
        """)

    def test_a_socket(self):
        self.refused(["pool"], "a socket at 127.0.0.1:", pool="""\
            import socket
            listener = socket.create_server(("127.0.0.1", 0))
        """)

    def test_an_event_loop(self):
        self.refused(["loop"], "an event loop", loop="import asyncio\nloop = asyncio.new_event_loop()\n")

    def test_a_database(self):
        self.refused(["db"], "users.db, open for writing", db="""\
            import sqlite3
            db = sqlite3.connect("users.db")
            db.execute("create table t (x)")
        """)

    def test_a_module_that_cannot_be_imported(self):
        errors = self.refused(["wrong"], "cannot import `wrong`: ZeroDivisionError", wrong="1 / 0\n")
        self.assertIn("Traceback", errors)
        self.refused(["no.such"], "cannot import `no.such`: ModuleNotFoundError")

    def test_a_program_that_cannot_be_loaded(self):
        for command, text in ((["none.py"], "cannot load `none.py`"), (["-m", "none"], "cannot load `none`"), (["-"], "`-`"),
                              (["-S"], "names no program"), (["-Z", "app.py"], "`-Z`")):
            message = self.zygote(command=command).said()
            self.assertIn(text, message["Refused"]["reason"])

    def test_a_thread_that_came_later_is_found_at_the_next_fork(self):
        self.write(app="print('{}')", later="""\
            import threading, time, signal
            def start(*_):
                threading.Thread(target=time.sleep, args=(60,), daemon=True, name="late").start()
            signal.signal(signal.SIGUSR1, start)
        """)
        zygote = self.ready(["later"])
        zygote.process.send_signal(signal.SIGUSR1)
        tasks = f"/proc/{zygote.process.pid}/task"
        end = time.monotonic() + LIMIT_SECONDS
        while len(os.listdir(tasks)) == 1 and time.monotonic() < end:
            time.sleep(0.005)
        self.assertEqual(self.instance(zygote), {})  # the one that was made before
        message, output = zygote.ask()
        output.close()
        self.assertEqual(message["NotForked"]["run"], 2)
        self.assertIn("the thread late", message["NotForked"]["reason"])


class Ends(ZygoteCase):
    def blank(self, zygote):
        """The pid of the blank: our child besides the zygote."""
        found = [pid for pid in children() if pid != zygote.process.pid]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_the_blank_ends_with_its_zygote(self):
        self.write(app="")
        for kill in (False, True):
            zygote = self.ready()
            blank = self.blank(zygote)
            if kill:
                zygote.process.kill()
            code, _ = zygote.stop()
            self.assertEqual(code, -signal.SIGKILL if kill else 0)
            self.assertEqual(self.buried(blank), 0)

    def test_an_instance_outlives_its_zygote(self):
        self.write(app="import time; print('up', flush=True); time.sleep(60)")
        zygote = self.ready()
        pid, output = zygote.fork()
        self.assertEqual(output.readline(), "up\n")
        zygote.stop()
        os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.buried(pid), -signal.SIGKILL)
        output.close()

    def test_a_blank_that_was_killed_is_replaced(self):
        self.write(app=SAY)
        zygote = self.ready()
        blank = self.blank(zygote)
        os.kill(blank, signal.SIGKILL)
        self.assertEqual(self.buried(blank), -signal.SIGKILL)
        self.assertNotEqual(self.instance(zygote)["pid"], blank)

    def test_a_blank_touches_what_an_instance_has_touched(self):
        # Pages of 4 KiB or larger: at most PAGES faults for the whole text.
        pages = 2_000
        self.write(
            big=f"TEXT = bytearray(b'x' * ({pages} * 4096))",
            app="""\
                import resource, sys, big
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                for place in range(0, len(big.TEXT), 4096):
                    big.TEXT[place] += 1
                faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
                print(faults, bytes(big.TEXT[::4096]).strip(b"y"), flush=True)
                open(sys.argv[1]).read()  # until the test has a pipe's end to close
            """,
        )
        os.mkfifo(self.folder / "end")
        zygote, faults = self.ready(["big"], ["app.py", "end"]), []
        for _ in range(2):
            pid, output = zygote.fork()
            with output, open(self.folder / "end", "w"):
                count, rest = output.readline().split()
                faults.append(int(count))
                end = time.monotonic() + LIMIT_SECONDS
                while not self.has_touched(zygote, pid, faults[0]) and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertTrue(self.has_touched(zygote, pid, faults[0]), "no blank has touched the text")
            self.assertEqual((rest, self.buried(pid)), ("b''", 0))
        self.assertLess(faults[1], faults[0] / 10, faults)

    def has_touched(self, zygote, instance, pages):
        """Whether the next blank has had so many faults."""
        blanks = set(children()) - {zygote.process.pid, instance}
        return any(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7]) >= pages for pid in blanks)

    def test_by_hand_it_says_what_it_is(self):
        for words in ([], ["x"], ["--", "app.py"]):
            command = [sys.executable, "-m", "pilotlight.zygote", *words]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={"PYTHONPATH": SDK})
            self.assertEqual((done.returncode, "not by hand" in done.stderr), (2, True), done)


class Commands(unittest.TestCase):
    def test_as_the_interpreter_reads_them(self):
        for command, options, kind, target, rest in (
            ("app.py", [], "script", "app.py", []),
            ("-S app.py -m x", ["-S"], "script", "app.py", ["-m", "x"]),
            ("-SI -m a.b -S", ["-S", "-I"], "module", "a.b", ["-S"]),
            ("-Sma.b c", ["-S"], "module", "a.b", ["c"]),
            ("-W error -Xdev -c code x", ["-W", "error", "-X", "dev"], "code", "code", ["x"]),
            ("--check-hash-based-pycs never -- app.py", ["--check-hash-based-pycs", "never"], "script", "app.py", []),
        ):
            program = Program(command.split())
            self.assertEqual((program.options, program.kind, program.target, program.arguments), (options, kind, target, rest))

    def test_what_has_no_program(self):
        for command in ("", "-S", "-m", "-W", "--version", "-", "--"):
            with self.assertRaises(Refused, msg=command):
                Program(command.split())


if __name__ == "__main__":
    unittest.main()
