"""The demo of `make run` as a user tries it: what it prints, curl on every path, Ctrl-C, and nothing left running.

It runs scripts/demo.sh with pilotlight.toml as it is, but for the build profile (debug), the ports and the database's folder.
"""

import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from html import unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import alive, descendants, eventually  # noqa: E402

LIMIT = 30.0
LAST_LINE = "curl -i"  # the list of things to try ends the announcement
TRIES = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configuration(old_port, folder):
    """pilotlight.toml with its paths and ports replaced; each replacement has to be found."""
    text = (ROOT / "pilotlight.toml").read_text()
    changes = {
        '"127.0.0.1:8080"': '"127.0.0.1:0"',
        "127.0.0.1:9000": f"127.0.0.1:{old_port}",
        '"target/quick/': f'"{ROOT}/target/debug/',
        '"target/demo/': f'"{folder}/',
        'dir = "examples/': f'dir = "{ROOT}/examples/',
        'files = "examples/': f'files = "{ROOT}/examples/',
    }
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"pilotlight.toml has no {old}: bring scripts/test_demo.py into line with it")
        text = text.replace(old, new)
    return text


class Demo:
    """A running demo in a process group of its own, as a terminal would have it."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pilotlight-demo-"))
        old_port = free_port()
        config = self.folder / "pilotlight.toml"
        config.write_text(configuration(old_port, self.folder))
        environment = {"PILOTLIGHT": str(ROOT / "target/debug/pilotlight")} | os.environ | {"OLD_PORT": str(old_port)}
        self.errors = open(self.folder / "stderr", "w+b")
        command = [str(ROOT / "scripts/demo.sh"), str(config)]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True
        )
        self.announcement = self._read_announcement()
        self.base = self._base()

    def _read_announcement(self):
        """What it prints, up to the last of the curl lines."""
        text, limit = b"", time.monotonic() + LIMIT
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while text.count(LAST_LINE.encode()) < TRIES or not text.endswith(b"\n"):
                if not selector.select(max(0, limit - time.monotonic())):
                    raise TimeoutError(f"the demo printed only {text!r}; {self.log()}")
                piece = os.read(self.process.stdout.fileno(), 4096)
                if not piece:
                    raise EOFError(f"the demo ended after {text!r}; {self.log()}")
                text += piece
        return text.decode()

    def _base(self):
        prefix = "listening on http"
        lines = self.announcement.splitlines()
        return next("http" + line[len(prefix) :] for line in lines if line.startswith(prefix))

    def log(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def curl(self, path, *options):
        """What curl prints: head and body."""
        command = ["curl", "--silent", "--show-error", "--include", "--max-time", "30", *options, self.base + path]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT + 5)
        if done.returncode:
            raise AssertionError(f"curl {path} ended with {done.returncode}: {done.stderr.decode()} {self.log()}")
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        return head.decode("latin-1").lower(), body

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        shutil.rmtree(self.folder)


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.demo = Demo()
        self.addCleanup(self.demo.close)

    def check(self, path, wanted, *options, status=200):
        """The status and a part of the body; returns the head."""
        head, body = self.demo.curl(path, *options)
        self.assertTrue(head.startswith(f"http/1.1 {status}"), f"{path}: {head}\n{body!r}\n{self.demo.log()}")
        self.assertIn("cache-status: pilotlight", head)
        self.assertIn(wanted, body)
        return head

    def start_everything(self):
        for path in ("/users/1", "/hello/python", "/wsgi/", "/hello/node", "/hello/node-pipe", "/old/"):
            self.check(path, b"")

    def test_the_announcement(self):
        for path in ("/users", "/hello/python", "/wsgi", "/hello/node", "/hello/node-pipe", "/old"):
            self.assertIn(f"  {self.demo.base}{path} ", self.demo.announcement)
        self.assertEqual(self.demo.announcement.count("  curl -i http"), TRIES)

    def test_every_path_with_curl(self):
        self.check("/users/1", b"ada.allen.1@example.org")
        self.check("/users?page=2&limit=3", b'"id":4')
        user = json.dumps({"name": "New", "email": "new@example.org"})
        as_json = ("--header", "content-type: application/json")
        head = self.check("/users", b"new@example.org", "--data", user, *as_json, status=201)
        self.assertIn("location: /users/10001", head)
        self.check("/users/10001", b"Newer", "--request", "PUT", "--data", user.replace("New", "Newer"), *as_json)
        self.check("/users/10001", b"", "--request", "DELETE", status=204)
        self.check("/users/10001", b"", status=404)
        self.check("/hello/python", b"ython")
        self.check("/wsgi/", b"")
        self.check("/wsgi/hello/ada", b"ada")
        self.check("/hello/node", b'"hello":"node"')
        self.check("/hello/node/deep?q=1", b'"url":"/hello/node/deep?q=1"')
        self.check("/hello/node-pipe", b"over the pipe")
        self.check("/old/x?y", b'"url": "/x?y"')
        self.assertIn("; hit", self.check("/old/x?y", b'"url": "/x?y"'))
        self.assertEqual(self.demo.curl("/nothing")[0].split()[1], "404")

    def test_the_front_page_names_what_answers(self):
        head, page = self.demo.curl("/")
        self.assertTrue(head.startswith("http/1.1 200"), head)
        links = {unescape(link) for link in re.findall(r'href="(/[^"]*)"', page.decode())}
        self.assertEqual(len(links), 7, links)
        for link in links:
            self.check(link, b"")

    def test_ctrl_c_leaves_nothing(self):
        self.start_everything()
        started = descendants(self.demo.process.pid)
        self.assertGreaterEqual(len(started), 7, started)  # five services, the old server, the guardian
        os.killpg(self.demo.process.pid, signal.SIGINT)
        self.assertEqual(self.demo.process.wait(LIMIT), 0, self.demo.log())
        self.assertTrue(eventually(lambda: not alive(started), 5.0), f"still running: {alive(started)}")

    def test_kill_9_leaves_nothing(self):
        self.start_everything()
        started = descendants(self.demo.process.pid)
        self.demo.process.kill()
        self.demo.process.wait(LIMIT)
        self.assertTrue(eventually(lambda: not alive(started), 5.0), f"still running: {alive(started)}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
