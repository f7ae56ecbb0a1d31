"""`pilotlight lab cache`: real runs beside programs that answer, and beside ones that lie, end or hang. What is measured is not looked at."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, PYTHON, ROOT, TestCase, descendants, setUpModule
from schemas import mismatches

__all__ = ["setUpModule"]

SCHEMA = json.loads((ROOT / "docs" / "lab" / "report.schema.json").read_text())
RUN_LIMIT = 240
# The places of gateways are taken by programs of ours, which read where to listen and whom to ask from what the lab tells them.
FAKE = '''\
#!{python}
"""Answers as its configuration says, but {kind}."""
import os, re, signal, socketserver, sys, threading, urllib.request
from http.server import BaseHTTPRequestHandler

KIND = {kind!r}
if sys.argv[1] in ("-v", "-V"):
    print("a test, version 0.0")
    sys.exit(0)
files = [word for word in sys.argv if word.endswith(".conf")]
text = " ".join(sys.argv) + open(files[-1]).read()
host, port = re.search(r"(?:bind|listen|-a) (\\S+):(\\d+)", text).groups()
origin = re.search(r"(?:server origin |proxy_pass http://)([\\d.:]+)", text)
origin = origin.group(1) if origin else ":".join(re.search(r'host = "(.*?)"; .port = "(.*?)"', text).groups())
stored, answered = {{}}, 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global answered
        answered += 1
        if self.path not in stored or KIND == "stores nothing":
            stored[self.path] = urllib.request.urlopen("http://" + origin + self.path).read()
        body = stored[self.path]
        if KIND == "lies":
            body = body[::-1]
        if KIND == "lies later" and answered > 40:
            body = body[:-1]
        if KIND == "ends" and answered > 40:
            print("the last words", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if KIND == "hangs" and answered > 1:
            os.kill(os.getpid(), signal.SIGSTOP)
            threading.Event().wait()  # the signal may come a moment later, and to another thread
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 1024


if KIND == "does not start":
    sys.exit("the port is not to its liking")
Server((host, int(port)), Handler).serve_forever()
'''
PROGRAMS = {"nginx": "nginx", "varnish": "varnishd", "haproxy": "haproxy"}
NO_CACHE = "#!/bin/sh\n[ $1 != version ] || echo a test, version 0.0\n"


class Cache(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-lab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)  # Apache, started by root, becomes another user
        (self.folder / "bin").mkdir()
        (self.folder / "tmp").mkdir()

    def environment(self):
        return {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(self.folder / "tmp")}

    def run_lab(self, *arguments, code=0):
        command = [str(BINARY), "lab", "cache", "--out", str(self.folder / "out"), "--quick", "--noisy-anyway", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT, env=self.environment(), cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.folder / "tmp"), [])
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertEqual(list(mismatches(report, SCHEMA)), [])
        [results] = report["experiments"]
        return {group["id"]: group for group in results["groups"]}, results

    def program(self, name, text):
        file = self.folder / "bin" / name
        file.write_text(text)
        file.chmod(0o755)

    def cached(self, code, **kinds):
        """The variants of the group, with these gateways in the places of those that they are called after."""
        for name, kind in kinds.items():
            self.program(PROGRAMS[name], FAKE.format(python=PYTHON, kind=kind))
        groups, results = self.run_lab("--groups", "cached", "--rounds", "2", "--secs", "0.3", code=code)
        return {variant["id"]: variant for variant in groups["cached"]["variants"]}, groups["cached"]["comparisons"], results

    def failures(self, **kinds):
        """Why the lab says that these have failed; everybody else has not."""
        variants, comparisons, _ = self.cached(1, **kinds)
        failed = {name: variant["failed"] for name, variant in variants.items() if variant["failed"]}
        self.assertEqual(set(failed), set(kinds), failed)
        self.assertEqual(len(variants["pilotlight"]["rounds"]), 2)
        for name in kinds:
            self.assertEqual((variants[name]["rounds"], variants[name]["requests"]), ([], 0), "it counts")
            [comparison] = [asked for asked in comparisons if asked["other"] == name]
            self.assertEqual((comparison["value"], comparison["verdict"]), (None, "not-comparable"))
        return failed

    def test_who_plays_by_the_rules_is_measured(self):
        self.program("caddy", NO_CACHE)
        variants, _, results = self.cached(0, haproxy="as it should")
        haproxy = variants["haproxy"]
        self.assertEqual(haproxy["software"][0]["version"], "a test, version 0.0")
        self.assertIn("nbthread 1 (one core)", haproxy["software"][0]["settings"])
        self.assertEqual(len(haproxy["rounds"]), 2)
        self.assertGreater(haproxy["requests"], 0)
        self.assertEqual({"gateway", "load"}, set(haproxy["cpu_us"]))
        [missing] = [skipped for skipped in results["skipped"] if skipped["what"].startswith("Caddy")]
        self.assertIn("no module that stores answers", missing["why"])
        self.assertIn("cache-handler", missing["install"])

    def test_other_answers_and_answers_that_were_not_stored(self):
        failed = self.failures(nginx="lies", varnish="lies later", haproxy="stores nothing")
        self.assertIn("another body", failed["nginx"])
        self.assertIn("answer", failed["varnish"])
        self.assertIn("the origin was asked", failed["haproxy"])

    def test_an_end_silence_and_no_start(self):
        failed = self.failures(nginx="ends", varnish="hangs", haproxy="does not start")
        self.assertIn("the last words", failed["nginx"])
        self.assertIn("no answer in time", failed["varnish"])
        self.assertIn("ended (exit code 1)", failed["haproxy"])
        self.assertIn("the port is not to its liking", failed["haproxy"])

    def test_passing_on_over_http_and_the_pipe(self):
        groups, _ = self.run_lab("--groups", "proxy", "--rounds", "2", "--secs", "0.3")
        variants = {variant["id"]: variant for variant in groups["proxy"]["variants"]}
        for name, parts in [("pilotlight", {"gateway", "service", "load"}), ("pilotlight-pipe", {"gateway", "service", "load"}),
                            ("floor", {"service", "load"})]:
            self.assertEqual(set(variants[name]["cpu_us"]), parts, name)
            self.assertEqual(len(variants[name]["rounds"]), 2, name)

    def test_cold_starts_with_their_phases(self):
        groups, results = self.run_lab("--groups", "cold-python", "--rounds", "2")
        variants = {variant["id"]: variant for variant in groups["cold-python"]["variants"]}
        self.assertLessEqual({"pilotlight", "pilotlight-pipe", "bare-http", "bare-pipe", "socket-activation"}, set(variants))
        phases = [phase["name"] for phase in variants["pilotlight-pipe"]["phases"]]
        self.assertIn("spawn", phases)
        self.assertNotIn("total", phases)
        questions = {(asked["one"], asked["other"]): asked for asked in groups["cold-python"]["comparisons"]}
        self.assertTrue(questions["pilotlight-pipe", "bare-pipe"]["difference"])
        skipped = {skipped["what"]: skipped["install"] for skipped in results["skipped"]}
        for peer, name in [("uwsgi", "uWSGI"), ("mod-fcgid", "Apache mod_fcgid")]:
            self.assertNotIn(peer, variants)
            self.assertTrue(any(name in what for what in skipped), skipped)

    def test_nothing_stays_behind(self):
        self.run_lab("--groups", "cold-python", "--rounds", "1")
        self.assertEqual(descendants(os.getpid()), {})


if __name__ == "__main__":
    unittest.main()
