"""`pilotlight doctor`: a project that is well, a taken port, a missing program, an open key, a stopped Redis, a gateway
that hangs; and that it changes nothing."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from certificates import Authority
from harness import BINARY, PYTHON, Gateway, TestCase, config, route, service, setUpModule
from ports import free_port
from redis_servers import Server

__all__ = ["setUpModule"]

LIMIT = 60


class Doctor(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-doctor-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, *blocks, **settings):
        file = self.folder / "pilotlight.toml"
        file.write_text(config(*blocks, **settings))
        return file

    def run_doctor(self, *arguments, code, cwd=None):
        command = [str(BINARY), "doctor", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT, cwd=cwd or self.folder)
        self.assertEqual(done.returncode, code, done.stdout.decode() + done.stderr.decode())
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def findings(self, *arguments, code, cwd=None):
        """(area, level, fact, remedy) of each finding; the counts agree with them."""
        document = json.loads(self.run_doctor("--json", *arguments, code=code, cwd=cwd))
        found = [(one["area"], one["level"], one["fact"], one["remedy"]) for one in document["findings"]]
        self.assertEqual(document["problems"], sum(level == "problem" for _, level, *_ in found))
        self.assertEqual(document["notes"], sum(level == "note" for _, level, *_ in found))
        for _, level, fact, remedy in found:
            self.assertTrue(fact)
            self.assertEqual(level == "ok", remedy is None, fact)
        return found

    def assert_found(self, found, area, level, part):
        self.assertTrue(any(one[:2] == (area, level) and part in one[2] for one in found), found)

    def problems(self, *arguments, code=1):
        return [one for one in self.findings(*arguments, code=code) if one[1] == "problem"]

    def only_problem(self, *arguments):
        problems = self.problems(*arguments)
        self.assertEqual(len(problems), 1, problems)
        return problems[0]

    def test_a_project_that_is_well_has_no_problem_and_stays_as_it_is(self):
        self.write(service(), route(), listen=f"127.0.0.1:{free_port()}")
        before = {path: path.stat().st_mtime_ns for path in [self.folder, *self.folder.rglob("*")]}
        found = self.findings(code=0)
        self.assertEqual({path: path.stat().st_mtime_ns for path in [self.folder, *self.folder.rglob("*")]}, before)
        facts = {area: [fact for one, level, fact, _ in found if one == area and level == "ok"] for area, *_ in found}
        self.assertIn("is valid: 1 service, 1 route", facts["configuration"][0])
        self.assertTrue(any("is free" in fact for fact in facts["listeners"]), facts)
        self.assertIn("demo: its interpreter finds the SDK", facts["services"])
        self.assert_found(found, "gateway", "note", "no gateway")

    def test_without_a_file_the_machine_is_looked_at(self):
        found = self.findings(code=0)
        self.assert_found(found, "configuration", "note", "only the machine")
        self.assert_found(found, "limits", "ok", "the clock")
        self.assertEqual(list(self.folder.iterdir()), [])
        problem = self.only_problem("--config", "gone.toml")
        self.assertIn("there is no such file", problem[2])

    def test_a_taken_port_names_who_has_it(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.write(service(), route(), listen=f"127.0.0.1:{port}")
            area, _, fact, remedy = self.only_problem()
            self.assertEqual(area, "listeners")
            self.assertIn(f"127.0.0.1:{port} is taken by ", fact)
            self.assertIn(f"(pid {os.getpid()})", fact)
            self.assertIn(f"kill {os.getpid()}", remedy)

    def test_a_program_and_a_script_that_are_missing(self):
        two = service("two", [PYTHON, "gone.py"]), route("/two", "two")
        self.write(service(argv=["./gone"]), route(), *two, listen=f"127.0.0.1:{free_port()}")
        facts = [fact for area, _, fact, _ in self.problems() if area == "configuration"]
        self.assertTrue(any("gone does not exist" in fact for fact in facts), facts)
        self.assertTrue(any("gone.py does not exist" in fact for fact in facts), facts)

    def test_an_sdk_that_is_not_found(self):
        (self.folder / "app.py").write_text("import pilotlight\n")
        alone = service(argv=[PYTHON, "app.py"], env={"PYTHONPATH": "/nowhere"})
        self.write(alone, route(), listen=f"127.0.0.1:{free_port()}")
        self.assert_found(self.findings(code=1), "services", "problem", "SDK")

    def test_a_key_that_others_may_read(self):
        certificate, key = Authority(self.folder).issue("a.example", days=3)
        tls = f'[tls]\ncertificates = {{ certificate = "{certificate}", key = "{key}" }}\n'
        self.write(tls, service(), route(), listen=f"https://127.0.0.1:{free_port()}")
        notes = [fact for area, level, fact, _ in self.findings(code=0) if (area, level) == ("certificates", "note")]
        self.assertRegex(" ".join(notes), "a.example ends in [23] days")
        key.chmod(0o644)
        problem = self.only_problem()
        self.assertIn(str(key), problem[2])

    def test_redis_that_answers_and_redis_that_does_not(self):
        server = Server()
        self.addCleanup(server.kill)
        redis = f'[cache.redis]\nurl = "{server.url}"\n'
        self.write(redis, service(), route(), listen=f"127.0.0.1:{free_port()}")
        self.assertIn(("redis", "ok"), [one[:2] for one in self.findings(code=0)])
        server.command("CONFIG", "SET", "maxmemory", "1")
        problem = self.only_problem()
        self.assertEqual(problem[0], "redis")
        self.assertIn("does not write", problem[2])
        self.assertIn("OOM", problem[2])
        server.command("CONFIG", "SET", "maxmemory", "0")
        server.process.send_signal(signal.SIGSTOP)  # it accepts, and answers nothing
        try:
            self.assertEqual(self.only_problem()[0], "redis")
        finally:
            server.process.send_signal(signal.SIGCONT)
        server.kill()
        self.assertEqual(self.only_problem()[0], "redis")

    def test_a_gateway_that_runs_has_its_ports_and_one_that_hangs_is_told_of(self):
        gateway = self.start(Gateway(BINARY, config(service(), route(), listen=f"127.0.0.1:{free_port()}")))
        file = gateway.folder / "pilotlight.toml"
        found = self.findings("--config", file, code=0)
        pid = gateway.process.pid
        self.assert_found(found, "gateway", "ok", f"pid {pid}")
        self.assert_found(found, "listeners", "ok", f"the gateway itself (pid {pid})")
        gateway.signal(signal.SIGSTOP)
        try:
            self.assertEqual(self.only_problem("--config", file)[0], "gateway")
        finally:
            gateway.signal(signal.SIGCONT)

    def test_text_fits_into_eighty_columns(self):
        self.write(service(argv=["./gone"]), route(), listen=f"127.0.0.1:{free_port()}")
        text = self.run_doctor(code=1)
        # What can be copied stays whole.
        long = [line for line in text.splitlines() if len(line) > 80 and "`" not in line and "/" not in line]
        self.assertEqual(long, [])
        self.assertIn("1 problem, ", text.splitlines()[-1])
        self.assertNotIn("\x1b", text)


if __name__ == "__main__":
    unittest.main()
