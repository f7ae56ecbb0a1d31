"""`pilotlight dev`: projects of every kind, saves that are seen, mistakes that are shown."""

import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from harness import BINARY, PYTHON, ROOT, eventually, setUpModule
from ports import free_port

__all__ = ["setUpModule"]

SDK = ROOT / "sdk" / "python"
LIMIT = 30.0
CLIENTS = 4
WSGI = """
def app(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain"), ("cache-control", "max-age=60")])
    return [b"%s"]
"""
FLASK = """
from flask import Flask
app = Flask(__name__)
@app.get("/")
def index():
    return "%s"
"""
NODE = """
require('http').createServer((req, res) => res.end('%s')).listen(process.env.PORT, '127.0.0.1');
"""
FETCH = "export default { fetch: () => new Response('%s') };\n"


class Dev:
    """`pilotlight dev` in a folder with these files."""

    def __init__(self, files, arguments=(), command=(), name="shop"):
        self._parent = tempfile.TemporaryDirectory(prefix="pilotlight-dev-")
        self.folder = Path(self._parent.name) / name
        self.folder.mkdir()
        for file, text in files.items():
            self.write(file, text)
        self.https, self.http = free_port(), free_port()
        self.data = Path(self._parent.name) / "data"
        env = os.environ | {"XDG_DATA_HOME": str(self.data), "PYTHONPATH": str(SDK)}
        bin_dir = Path(PYTHON).parent
        env |= {"PATH": f"{bin_dir}:{os.environ['PATH']}", "VIRTUAL_ENV": str(bin_dir.parent)}
        ports = ["--port", str(self.https), "--http-port", str(self.http)]
        words = [str(BINARY), "dev", *ports, *arguments, *(["--", *command] if command else [])]
        self._lines, self._ended, self._more = [], False, threading.Condition()
        self.process = subprocess.Popen(
            words,
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.said("keys: ")
        except AssertionError:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._parent.cleanup()

    def _read(self):
        for line in self.process.stdout:
            with self._more:
                self._lines.append(line)
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    def write(self, file, text):
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(text) if isinstance(text, Path) else path.write_text(text)

    def output(self):
        with self._more:
            return "".join(self._lines)

    def said(self, pattern):
        """Waits for a line."""
        with self._more:
            found = self._more.wait_for(lambda: re.search(pattern, "".join(self._lines)) or self._ended, LIMIT)
        assert found and found is not True, f"{pattern} in:\n{self.output()}"
        return found

    def get(self, target="/", accept="*/*", host=None):
        """Status, fields and body of one request by HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=LIMIT)
        try:
            connection.request("GET", target, headers={"accept": accept, "host": host or f"shop.localhost:{self.http}"})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def until(self, text):
        """Waits for an answer."""
        assert eventually(lambda: self.text() == text, LIMIT), f"{text!r}, not {self.get()}; output:\n{self.output()}"

    def text(self, target="/"):
        return self.get(target)[2]

    def ready(self):
        self.said(r"is ready after")
        return self


def saves_under_load(dev, count, pause):
    """Saves while clients ask: bodies of good answers, and what was none."""
    stop, answers, wrong = threading.Event(), [], []

    def load():
        connection = http.client.HTTPConnection("127.0.0.1", dev.http, timeout=LIMIT)
        while not stop.is_set():
            try:
                connection.request("GET", "/", headers={"host": "shop.localhost"})
                answer = connection.getresponse()
                body = answer.read().decode()
                (answers if answer.status == 200 else wrong).append(body)
            except (OSError, http.client.HTTPException) as error:
                wrong.append(repr(error))
                connection.close()
        connection.close()

    dev.ready()
    threads = [threading.Thread(target=load) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for save in range(1, count + 1):
        temporary = dev.folder / "service.py~"  # as editors do: whole, or not at all
        temporary.write_text(WSGI % str(save))
        temporary.rename(dev.folder / "service.py")
        time.sleep(pause)  # a load of saves, not a wait for something
    dev.until(str(count))
    stop.set()
    for thread in threads:
        thread.join()
    return answers, wrong


class Saves(unittest.TestCase):
    """A request that comes after a save is answered by what was saved."""

    def sees_saves(self, files, file, source, kind):
        with Dev({**files, file: source % "one"}) as dev:
            self.assertEqual(dev.text(), "one")
            dev.said(f"this is a .*{kind}")
            for number in range(5):
                dev.write(file, source % f"save {number}")
                dev.said(rf"{re.escape(Path(file).name)} · web is ready") if number == 0 else None
                dev.until(f"save {number}")

    def test_wsgi(self):
        self.sees_saves({}, "service.py", WSGI, "WSGI application, served by the SDK")

    def test_flask(self):
        if importlib.util.find_spec("flask") is None:
            self.skipTest("Flask is not installed")
        self.sees_saves({"requirements.txt": "flask\n"}, "app.py", FLASK, "Flask application, served by the SDK")

    def test_node(self):
        self.assertIsNotNone(shutil.which("node"))
        self.sees_saves({"package.json": '{"scripts": {"dev": "node server.js"}}'}, "server.js", NODE, "Node project")

    def test_a_program_with_a_port_of_its_own(self):
        """It does not look at PORT, as the first page of its framework has it."""
        port = free_port()
        source = f'require("http").createServer((_, answer) => answer.end("%s")).listen({port});\n'
        with Dev({"package.json": '{"scripts": {"start": "node server.js"}}', "server.js": source % "one"}) as dev:
            self.assertEqual(dev.text(), "one")
            dev.said(rf"is ready after .* ms, at .*:{port} and not at its \$PORT")
            for number in range(3):
                dev.write("server.js", source % f"save {number}")
                dev.until(f"save {number}")

    def test_a_module_that_exports_fetch(self):
        node = ROOT / "sdk" / "node"
        installed = {"node_modules/pilotlight": node, "node_modules/.bin/pilotlight-serve": node / "bin" / "serve.js"}
        files = {"package.json": '{"main": "index.mjs"}', **installed}
        self.sees_saves(files, "index.mjs", FETCH, "Node project")

    def test_procfile(self):
        source = "from wsgiref.simple_server import make_server\nimport os\n" + WSGI
        source += 'make_server("127.0.0.1", int(os.environ["PORT"]), app).serve_forever()\n'
        self.sees_saves({"Procfile": "web: python3 main.py\n"}, "main.py", source, "Procfile")

    def test_a_command(self):
        service = 'import pilotlight\npilotlight.serve(lambda request: (200, {}, "%s"))\n'
        with Dev({"x.py": service % "one"}, command=["python3", "x.py"]) as dev:
            self.assertEqual(dev.text(), "one")
            dev.write("x.py", service % "two")
            dev.until("two")

    def test_files(self):
        with Dev({"index.html": "<p>one"}) as dev:
            dev.said("folder of files")
            dev.until("<p>one")
            dev.write("index.html", "<p>two!")
            dev.until("<p>two!")

    def test_a_file_of_its_own(self):
        config = '[services.a]\ncommand = ["python3", "-m", "pilotlight.wsgi", "a:app"]\n'
        config += '[[routes]]\npath = "/"\nservice = "a"\ncache = "1h"\n'
        config = f'listen = "127.0.0.1:@PORT@"\n{config}'
        port = free_port()
        with Dev({"pilotlight.toml": config.replace("@PORT@", str(port)), "a.py": WSGI % "one"}) as dev:
            dev.said(r"using .*pilotlight.toml; the cache is off")
            dev.http = port
            self.assertEqual(dev.text(), "one")
            dev.write("a.py", WSGI % "two")
            dev.until("two")

    def test_saves_under_load_refuse_nobody(self):
        with Dev({"service.py": WSGI % "0"}) as dev:
            answers, wrong = saves_under_load(dev, 50, 0.02)
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(len(answers), CLIENTS)


class Mistakes(unittest.TestCase):
    def test_a_syntax_error_is_a_page_that_is_told_of_the_mend(self):
        with Dev({"service.py": WSGI % "one"}) as dev:
            self.assertEqual(dev.text(), "one")
            dev.write("service.py", "x = (\n" + WSGI % "two")
            self.assertTrue(eventually(lambda: dev.get()[0] == 503, LIMIT))
            dev.said("service.py · web: it exited with status 1")
            status, fields, page = dev.get(accept="text/html")
            self.assertEqual((status, fields["cache-control"]), (503, "no-store"))
            self.assertIn("script-src 'sha256-", fields["content-security-policy"])
            self.assertIn("SyntaxError", page)
            self.assertIn("service.py:1</code>", page)
            problem = json.loads(dev.get(accept="application/json")[2])
            self.assertTrue(problem["place"].endswith("service.py:1"), problem)
            since = re.search(r'data-since="(\d+)"', page)[1]
            told = []
            wait = threading.Thread(target=lambda: told.append(dev.get(f"/.well-known/pilotlight/dev?since={since}")))
            wait.start()
            dev.write("service.py", WSGI % "mended")
            wait.join(LIMIT)
            self.assertEqual((told[0][0], told[0][1]["content-type"]), (200, "text/event-stream"))
            self.assertTrue(told[0][2].endswith("data: changed\n\n"))
            self.assertEqual(dev.text(), "mended")

    def test_nothing_to_guess_from(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([BINARY, "dev"], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing in this folder says what to run", done.stderr)
        self.assertIn("pilotlight dev -- COMMAND", done.stderr)


class Served(unittest.TestCase):
    def test_https_by_the_local_authority(self):
        with Dev({"index.html": "hello"}, name="My Shop") as dev:
            dev.said(f"open https://my-shop.localhost:{dev.https}")
            root = dev.data / "pilotlight" / "authority" / "root.pem"
            self.assertTrue(eventually(root.exists, LIMIT))
            context = ssl.create_default_context(cafile=root)
            with socket.create_connection(("127.0.0.1", dev.https), LIMIT) as raw:
                with context.wrap_socket(raw, server_hostname="my-shop.localhost") as tls:
                    tls.sendall(b"GET / HTTP/1.1\r\nhost: my-shop.localhost\r\nconnection: close\r\n\r\n")
                    answer = b"".join(iter(lambda: tls.recv(4096), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)

    def test_no_other_host_is_answered(self):
        with Dev({"index.html": "hello"}) as dev:
            dev.until("hello")
            for host, status in [("localhost", 200), ("127.0.0.1", 200), ("evil.example", 404)]:
                self.assertEqual(dev.get(host=host)[0], status, host)

    def test_the_configuration_can_be_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "service.py").write_text(WSGI % "x")
            env = os.environ | {"PYTHONPATH": str(SDK)}
            caught = {"cwd": folder, "capture_output": True, "text": True, "timeout": LIMIT}
            printed = subprocess.run([BINARY, "dev", "--print-config"], env=env, **caught)
            Path(folder, "pilotlight.toml").write_text(printed.stdout)
            checked = subprocess.run([BINARY, "check"], **caught)
        self.assertEqual((printed.returncode, checked.returncode), (0, 0), printed.stderr + checked.stderr)
        self.assertNotIn("pilotlight/dev", printed.stdout)

    def test_lines_stand_in_columns_without_escapes(self):
        with Dev({"service.py": 'print("hello \\x1b[31m", flush=True)\n' + WSGI % "x"}) as dev:
            dev.said(r"(?m)^web +\| hello \\x1b\[31m$")
            dev.ready()
            self.assertNotIn("\x1b", dev.output())

    def test_commands_find_it(self):
        with Dev({"service.py": WSGI % "x"}) as dev:
            dev.ready()
            asked = [BINARY, "status", "--json"]
            status = subprocess.run(asked, cwd=dev.folder, capture_output=True, text=True, timeout=LIMIT)
            self.assertIn('"web"', status.stdout, status.stderr)


if __name__ == "__main__":
    unittest.main()
