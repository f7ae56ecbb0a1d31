"""Logs where operators want them: the journal, syslog, files, JSON; with servers that go away, and that do not read."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness import BINARY, PYTHON, Gateway, TestCase, _table, config, eventually, route, service
from harness import setUpModule  # noqa: F401
from log_servers import Datagrams, Journald, Rsyslog
from programs import program
from test_operate import ADMIN, Unix

__all__ = ["setUpModule"]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
# Says something on both outputs, then answers; what it is asked for may make it say more, or less.
SPEAKER = """
import os, sys, http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for " + self.path, flush=True)
        print("\\x1b[31mred\\x1b[0m", file=sys.stderr, flush=True)
        if self.path == "/long": print("y" * 6000, flush=True)
        if self.path == "/flood":
            for number in range(60_000): print("z" * 1000)
            sys.stdout.flush()
        if self.path == "/die":
            for number in range(25): print("w" * 8000)
            sys.stdout.flush(); os._exit(3)
        self.send_response(200); self.send_header("content-length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
server.socket = socket.socket(fileno=3); server.serve_forever()
"""
TRACES = '[traces]\nendpoint = "http://127.0.0.1:9/v1/traces"\nsample = 0\ntrust_parent = true\n'
FIELDS = ["method", "target", "status", "service", "user_agent", "trace_id"]
PARENT = [("traceparent", f"00-{TRACE}-00f067aa0ba902b7-00")]


class Logs(TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pilotlight-logs-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "speaker.py").write_text(SPEAKER)
        argv = [PYTHON, str(self.folder / "speaker.py")]
        self.speaker = service("shop", argv, transport="http", socket="tcp") + route(service="shop")

    def datagrams(self, is_journal, is_read=True):
        server = Datagrams(self.folder / "sock", is_journal, is_read)
        self.addCleanup(server.stop)
        return server

    def gateway(self, *blocks):
        return self.start(Gateway(BINARY, config(self.speaker, ADMIN, *blocks)))

    def status(self, gateway):
        connection = Unix(gateway.folder / "admin.sock")
        try:
            connection.request("GET", "/status")
            return json.loads(connection.getresponse().read())["gateway"]
        finally:
            connection.close()

    def found(self, server, **fields):
        self.assert_eventually(lambda: server.find(**fields), f"no entry with {fields}: {server.all[-5:]}")
        return server.find(**fields)[0]


class Journal(Logs):
    def journal(self):
        return self.datagrams(is_journal=True)

    def test_each_log_has_its_fields(self):
        journal = self.journal()
        to = {"path": f"journald:{journal.path}"}
        gateway = self.gateway(
            _table("[log]", to), _table("[access_log]", to | {"fields": FIELDS, "facility": "local3"}), TRACES
        )
        gateway.get("/a?a=1", PARENT + [("User-Agent", 'quote " ] \\ \xff')])
        ready = self.found(journal, PILOTLIGHT_SERVICE="shop", MESSAGE=self.message(journal, "ready service="))
        self.assertEqual((ready["PRIORITY"], ready["SYSLOG_IDENTIFIER"]), ("6", "pilotlight"))
        self.assertEqual(ready["PILOTLIGHT_INSTANCE"], "1")
        self.assertTrue(ready["PILOTLIGHT_TARGET"].startswith("pilotlight_supervisor"))
        printed = self.found(journal, SYSLOG_IDENTIFIER="shop", PILOTLIGHT_OUTPUT="stdout")
        self.assertEqual((printed["MESSAGE"], printed["PILOTLIGHT_INSTANCE"]), ("asked for /a?a=1", "1"))
        self.assertEqual(self.found(journal, PILOTLIGHT_OUTPUT="stderr")["MESSAGE"], "\x1b[31mred\x1b[0m")
        asked = self.found(journal, HTTP_METHOD="GET")
        self.assertEqual((asked["HTTP_TARGET"], asked["HTTP_STATUS"]), ("/a?a=1", "200"))
        self.assertEqual((asked["TRACE_ID"], asked["SYSLOG_FACILITY"]), (TRACE, "19"))
        self.assertEqual(asked["PILOTLIGHT_SERVICE"], "shop")
        self.assertTrue(asked["MESSAGE"].startswith('"GET" "/a?a=1" 200 shop "quote \\x22 ]'), asked)
        # The gateway's own line about that request names its trace as well.
        gateway.get("/die", PARENT)
        failed = self.found(journal, PRIORITY="4", TRACE_ID=TRACE)
        self.assertIn("502 Bad Gateway: service shop closed the connection", failed["MESSAGE"])
        gateway.signal(signal.SIGTERM)
        self.found(journal, MESSAGE="told to end (SIGTERM), stopping; once more stops at once")
        self.assertNotIn("stopping", gateway.output())

    def message(self, journal, word):
        said = lambda: [one["MESSAGE"] for one in list(journal.all) if word in one["MESSAGE"]]  # noqa: E731
        self.assert_eventually(said, f"nobody says {word}: {journal.all[-5:]}", 20)
        return said()[0]

    def test_a_large_entry_comes_in_a_sealed_file(self):
        journal = self.journal()
        gateway = self.gateway(_table("[log]", {"path": f"journald:{journal.path}"}))
        gateway.get("/before")
        self.message(journal, "ready service=")  # before that, its end is a failed start
        gateway.get("/die")
        whole = lambda: [one for one in list(journal.all) if one["MESSAGE"].startswith("ended by itself")]  # noqa: E731
        self.assert_eventually(whole, f"nobody says that it ended: {journal.all[-1:]}")
        # Both its text and its field have the last lines.
        self.assertGreater(len(whole()[0]["MESSAGE"]), 100_000)
        self.assertIn("w" * 8000, whole()[0]["PILOTLIGHT_OUTPUT"])
        self.assertEqual((whole()[0]["PRIORITY"], journal.sealed), ("4", 1))
        gateway.get("/after")
        self.found(journal, MESSAGE="asked for /after")

    def test_a_missing_journal_is_an_error_of_check_and_of_the_start(self):
        file = self.folder / "pilotlight.toml"
        for text, said in (
            ('[log]\npath = "journald:none"\n', "the journal at .*/none cannot be reached: No such file"),
            ('[service_log]\npath = "syslog:none"\n', "syslog at .*/none cannot be reached: No such file"),
            ('[access_log]\npath = "syslog:pilotlight.toml"\n', "syslog at .*.toml cannot be reached: Connection"),
        ):
            file.write_text(config(self.speaker, text))
            for argv in (["check"], []):
                ran = subprocess.run([BINARY, *argv, "--config", file], capture_output=True, text=True, timeout=30)
                self.assertEqual(ran.returncode, 2, ran)
                self.assertRegex(ran.stdout + ran.stderr, said)
                self.assertRegex(ran.stdout + ran.stderr, "is systemd-journald running|is a syslog server running")

    def test_a_journal_that_goes_away_for_a_moment_loses_nothing(self):
        journal = self.journal()
        gateway = self.gateway(_table("[log]", {"path": f"journald:{journal.path}"}))
        gateway.get("/1")
        self.found(journal, MESSAGE="asked for /1")
        journal.stop()
        gateway.get("/2")
        journal.start()
        self.found(journal, MESSAGE="asked for /2")
        self.assertEqual(self.status(gateway)["log_lines_dropped"], 0)

    def test_a_journal_that_stays_away_costs_lines_and_no_request(self):
        journal = self.journal()
        to = {"path": f"journald:{journal.path}"}
        gateway = self.gateway(_table("[log]", to), _table("[access_log]", to | {"fields": ["target"]}))
        gateway.get("/1")
        self.found(journal, MESSAGE="asked for /1")
        journal.stop()
        both = ("log_lines_dropped", "access_log_lines_dropped")

        def all_dropped():
            begun = time.monotonic()
            gateway.get("/2")
            self.assertLess(time.monotonic() - begun, 5)
            return all(self.status(gateway)[name] for name in both)

        self.assertTrue(eventually(all_dropped, 30), "nothing is dropped")
        self.assert_logged(gateway, "the gateway's log cannot be written")
        self.assertEqual(len(re.findall("the gateway's log cannot be written", gateway.output())), 1, gateway.output())
        journal.start()
        back = lambda: gateway.get("/3") and journal.find(MESSAGE="asked for /3")  # noqa: E731
        self.assertTrue(eventually(back, 20), "it is not written to again")
        self.message(journal, "is written again")

    def test_a_flood_is_bounded(self):
        journal = self.datagrams(is_journal=True, is_read=False)
        gateway = self.gateway(_table("[log]", {"path": f"journald:{journal.path}"}))
        self.assert_status(gateway.get("/flood", timeout=60), 200)
        with open(f"/proc/{gateway.process.pid}/status") as status:
            memory_kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        self.assertLess(memory_kib, 150_000)
        # What the supervisor or the queue had no room for is counted by one of the two.
        self.assert_eventually(lambda: self.status(gateway)["log_lines_dropped"] > 0, "nothing is dropped", 30)
        self.assert_status(gateway.get("/after"), 200)
        journal.read()
        self.message(journal, "came faster than written")


class RealJournal(Logs):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("not here: only root can start a journal")
        self.journald = Journald()
        self.addCleanup(self.journald.stop)

    def assert_shown(self, wanted):
        """`wanted`: (identifier, message) -> further fields."""

        def missing():
            found = {(one.get("SYSLOG_IDENTIFIER"), one.get("MESSAGE")): one for one in self.journald.entries()}
            return [key for key, fields in wanted.items() if not fields.items() <= found.get(key, {}).items()]

        self.assertTrue(eventually(lambda: not missing(), 20), missing())

    def test_entries_are_what_journalctl_shows(self):
        to = {"path": f"journald:{self.journald.socket}"}
        gateway = self.gateway(_table("[log]", to), _table("[access_log]", to | {"fields": FIELDS}), TRACES)
        gateway.get("/long", PARENT)
        self.assert_shown({
            ("shop", "asked for /long"): {"PILOTLIGHT_OUTPUT": "stdout", "PRIORITY": "6"},
            ("shop", "y" * 6000): {"PILOTLIGHT_SERVICE": "shop"},
            ("pilotlight", f'"GET" "/long" 200 shop - {TRACE}'): {"HTTP_STATUS": "200", "TRACE_ID": TRACE},
        })

    def test_the_journal_reads_the_local_form_of_syslog(self):
        to = {"path": f"syslog:{self.journald.socket.with_name('dev-log')}", "facility": "local2"}
        gateway = self.gateway(_table("[service_log]", to), _table("[access_log]", to | {"fields": ["status"]}))
        gateway.get("/a")
        head = {"PRIORITY": "6", "SYSLOG_FACILITY": "18"}
        self.assert_shown({
            ("shop", "asked for /a"): head | {"SYSLOG_PID": "1"},
            ("pilotlight", "200"): head | {"SYSLOG_PID": str(gateway.process.pid)},
        })


class Syslog(Logs):
    def test_the_local_form_and_the_other_one(self):
        server = self.datagrams(is_journal=False)
        to = {"path": f"syslog:{server.path}"}
        self.gateway(
            _table("[log]", to),
            _table("[access_log]", to | {"fields": FIELDS, "syslog_format": "rfc5424", "facility": "local7"}),
        ).get("/a", [("User-Agent", 'a"]\\b')])
        line = lambda pattern: [one for one in list(server.all) if re.fullmatch(pattern, one)]  # noqa: E731
        for pattern in (
            r"<30>pilotlight\[\d+\]: ready service=shop instance=1 .*",
            r"<30>shop\[1\]: asked for /a",
            r"<30>shop\[1\]: \\x1b\[31mred\\x1b\[0m",
            r'<190>1 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ pilotlight \d+ - '
            r'\[pilotlight@32473 method="GET" target="/a" status="200" service="shop" user_agent="a\\"\\]\\\\b"\] '
            r'"GET" "/a" 200 .*',
        ):
            self.assert_eventually(lambda: line(pattern), f"no {pattern}: {server.all}")

    def test_rsyslog_understands_all_ways(self):
        rsyslog = Rsyslog()
        self.addCleanup(rsyslog.stop)
        self.gateway(
            _table("[log]", {"path": f"syslog:udp://127.0.0.1:{rsyslog.udp}"}),
            _table("[service_log]", {"path": f"syslog:{rsyslog.folder}/log", "facility": "local0"}),
            _table("[access_log]", {"path": f"syslog:tcp://127.0.0.1:{rsyslog.tcp}", "fields": ["method", "status"]}),
        ).get("/a")
        fits = lambda one, like: all(re.fullmatch(like[name], one[name]) for name in like)  # noqa: E731
        wanted = [
            {"from": "imudp", "app": "pilotlight", "data": r'\[\S+@32473 service="shop" .*', "text": "ready .*"},
            {"from": "imuxsock", "pri": "134", "app": "shop", "tag": r"shop\[1\]:", "text": " ?asked for /a"},
            {"from": "imtcp", "pri": "30", "data": r'\[\S+@32473 method="GET" status="200"\]', "text": '"GET" 200'},
        ]

        def missing():
            seen = rsyslog.seen()
            return [like for like in wanted if not any(fits(one, like) for one in seen)]

        self.assertTrue(eventually(lambda: not missing(), 20), (missing(), rsyslog.seen()))


class Lines(Logs):
    def test_json_on_the_standard_error(self):
        gateway = self.gateway('[log]\nformat = "json"\n', TRACES)
        lines = lambda: gateway.output().splitlines()  # noqa: E731
        parsed = lambda: [json.loads(line) for line in lines() if line.startswith("{")]  # noqa: E731
        gateway.get("/before")
        self.assert_eventually(lambda: any(line["message"] == "ready" for line in parsed()), "it is not ready")
        gateway.get("/die", PARENT)
        self.assert_eventually(lambda: any(line.get("trace_id") == TRACE for line in parsed()), "no line has the trace")
        about = next(line for line in parsed() if line.get("trace_id") == TRACE)
        self.assertEqual(list(about)[:4], ["time", "level", "target", "message"])
        self.assertEqual(about["level"], "WARN")
        self.assertTrue(about["message"].startswith("502 Bad Gateway: service shop"), about)
        self.assertRegex(about["request_id"], "^[0-9a-f]{32}$")
        printed = next(line for line in parsed() if line.get("output") == "stderr")
        self.assertEqual((printed["service"], printed["instance"]), ("shop", 1))
        self.assertEqual(printed["message"], "\x1b[31mred\x1b[0m")
        ready = next(line for line in parsed() if line["message"] == "ready")
        self.assertEqual(ready["instance"], 1)
        gateway.signal(signal.SIGTERM)
        gateway.wait()
        self.assert_logged(gateway, "told to end (SIGTERM), stopping")
        stopping = [line for line in parsed() if line["message"].startswith("told to end (SIGTERM), stopping")]
        self.assertEqual(len(stopping), 1, gateway.output())

    def test_the_cause_of_a_failed_start_is_said_once(self):
        broken = service("broken", [PYTHON, "-c", "raise SystemExit(3)"], transport="http") + route(service="broken")
        gateway = self.start(Gateway(BINARY, config(broken)))
        self.assert_problem(gateway.get("/"), 503)
        about = r"WARN 503 Service Unavailable: service `broken` did not start, as said above \(phase \w+\) request_id="
        self.assert_eventually(lambda: re.search(about, gateway.output()), gateway.output())
        for line in gateway.output().splitlines():
            if "exited with status 3" in line:
                self.assertRegex(line, " ERROR service `broken` did not start: ")

    def test_files_that_are_moved(self):
        gateway = self.gateway(
            _table("[log]", {"path": str(self.folder / "own.log")}),
            _table("[service_log]", {"path": str(self.folder / "services.log"), "format": "json"}),
        )
        own, services = self.folder / "own.log", self.folder / "services.log"
        gateway.get("/1")
        self.assert_eventually(lambda: "asked for /1" in services.read_text(), "not written")
        self.assertRegex(own.read_text(), r"(?m)^20\S+Z  INFO ready service=shop instance=1 ")
        self.assertEqual(own.stat().st_mode & 0o777, 0o640 & ~os.umask(os.umask(0)))
        for file in (own, services):
            file.rename(file.with_suffix(".old"))
        gateway.signal(signal.SIGUSR1)
        self.assert_eventually(lambda: own.exists() and services.exists(), "SIGUSR1 does not open the files anew")
        gateway.get("/2")
        self.assert_eventually(lambda: "asked for /2" in services.read_text(), "not written")
        for line in services.read_text().splitlines():
            self.assertEqual(json.loads(line)["service"], "shop")
        self.assertNotIn("asked", gateway.output())

    def test_a_standard_error_that_is_the_journals(self):
        """systemd.exec(5): it is if JOURNAL_STREAM names its device and inode."""
        (self.folder / "pilotlight.toml").write_text(config(self.speaker))
        for is_journal in (True, False):
            read, write = os.pipe()
            stat = os.fstat(write)
            stream = f"{stat.st_dev}:{stat.st_ino if is_journal else 1}"
            process = subprocess.Popen(
                [BINARY], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=write,
                env=os.environ | {"JOURNAL_STREAM": stream}, text=True,
            )
            os.close(write)
            address = re.search(r"http://\S+", process.stdout.readline())[0]
            got = subprocess.run([program("curl"), "-s", f"{address}/a"], capture_output=True, text=True)
            self.assertEqual(got.stdout, "ok")
            process.terminate()
            process.communicate(timeout=30)
            with os.fdopen(read) as file:
                text = file.read()
            if is_journal:
                self.assertRegex(text, r"(?m)^<6>ready service=shop instance=1 ")
                self.assertRegex(text, r"(?m)^<6>shop#1 \| asked for /a$")
                self.assertRegex(text, r"(?m)^<6>told to end \(SIGTERM\), stopping")
                self.assertTrue(all(re.match("<[3467]>", line) for line in text.splitlines()), text)
            else:
                self.assertRegex(text, r"(?m)^20\S+ +INFO ready service=shop")
                self.assertRegex(text, r"(?m)^shop#1 \| asked for /a$")


if __name__ == "__main__":
    unittest.main()
