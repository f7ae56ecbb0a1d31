"""What people look at: `pilotlight status` on a narrow terminal, times of the last minutes, the stream of events."""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

from harness import BINARY, DEMO, setUpModule
from test_operate import FRESH, Operated, Unix

__all__ = ["setUpModule"]

MAX_WATCHERS = 8


class Looks(Operated):
    def on_a_terminal(self, gateway, columns, *arguments):
        """The lines of a command that sees a terminal, without colours."""
        main, side = pty.openpty()
        self.addCleanup(os.close, main)
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        command = [str(BINARY), *arguments, "--socket", str(self.socket(gateway))]
        environment = {**os.environ, "TERM": "xterm"}
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=side, env=environment) as process:
            os.close(side)
            text = b""
            with contextlib.suppress(OSError):  # the other side is closed
                while piece := os.read(main, 65536):
                    text += piece
        self.assertEqual(process.returncode, 0, text)
        self.assertIn(b"\x1b[", text, "no colours on a terminal")
        return re.sub(r"\x1b\[[\d;]*m", "", text.decode()).splitlines()

    def test_status_fits_the_terminal(self):
        gateway = self.operated()
        gateway.get("/pid")
        self.counted(gateway, 1)
        for columns in (80, 60, 40):
            lines = self.on_a_terminal(gateway, columns, "status")
            self.assertLessEqual(max(map(len, lines)), columns, lines)
            self.assertIn("demo", "\n".join(lines))
            lines = self.on_a_terminal(gateway, columns, "status", "demo")
            self.assertLessEqual(max(map(len, lines)), max(columns, 80), lines)
        head = next(line for line in self.on_a_terminal(gateway, 80, "status") if line.startswith("SERVICE"))
        for name in ("STATE", "REQS", "P50", "P99", "MEMORY"):
            self.assertIn(name, head)
        wide = self.on_a_terminal(gateway, 80, "status", "--wide")
        self.assertIn("CACHE HITS", next(line for line in wide if line.startswith("SERVICE")))
        self.assertNotIn("too narrow", "\n".join(wide))

    def test_times_of_late_leave_starts_out(self):
        # The start takes at least 300 ms, so the request that waited for it is known by its time.
        gateway = self.operated(demo={"argv": ["sh", "-c", 'sleep 0.3; exec "$@"', "sh", *DEMO]})
        for _ in range(5):
            gateway.get("/pid")
        self.counted(gateway, 5)
        told = self.service(gateway, "demo")
        whole, recent = told["latency"], told["recent"]
        cold = recent["cold"]
        self.assertEqual((whole["count"], recent["count"], cold["count"]), (5, 4, 1))
        self.assertGreaterEqual(cold["sum_ms"], 300)
        self.assertGreater(cold["p50_ms"], 250)
        self.assertAlmostEqual(recent["sum_ms"] + cold["sum_ms"], whole["sum_ms"], places=6)
        self.assertIn("; 1 cold start, ", self.cli(gateway, "status", "demo"))
        row = next(line for line in self.cli(gateway, "status").splitlines() if line.startswith("web"))
        self.assertEqual(row.split().count("-"), 5, f"a service without requests has times: {row}")

    def events(self, gateway):
        connection = Unix(self.socket(gateway))
        self.addCleanup(connection.close)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        if answer.status != 200:
            return json.loads(answer.read())
        self.assertEqual(answer.getheader("content-type"), "text/event-stream")
        return connection, self.told(answer)

    @staticmethod
    def told(answer):
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    def test_events_have_what_has_changed(self):
        gateway = self.operated()
        _, events = self.events(gateway)
        first = next(events)
        self.assertTrue(first["full"])
        states = [(each["name"], each["state"]) for each in first["services"]]
        self.assertEqual(states, [("demo", "stopped"), ("web", "stopped")])
        self.assertEqual(first["certificates"], {"certificates": [], "names": None})
        self.assertEqual(next(events)["services"], [], "nothing has changed")
        for _ in range(3):
            gateway.get(f"/web/make?{FRESH}")
        changed = next(event for event in events if any(each["requests"] == 3 for each in event["services"]))
        self.assertFalse(changed["full"])
        self.assertEqual([each["name"] for each in changed["services"]], ["web"])
        web = changed["services"][0]
        self.assertEqual((web["state"], web["instances"], web["cache_hits"]), ("ready", 1, 2))
        whole = changed["gateway"]
        self.assertEqual((whole["requests"], whole["verdicts"]), (3, {"hit": 2, "miss": 1}))
        self.assertEqual((whole["recent"]["count"], whole["recent"]["cold"]), (2, 1))
        self.assertGreater(whole["layers_ms"]["start"], 0)
        self.assertNotIn("certificates", changed)

    def test_as_many_watch_as_may(self):
        gateway = self.operated()
        watching = [self.events(gateway) for _ in range(MAX_WATCHERS)]
        for _, events in watching:
            self.assertTrue(next(events)["full"])
        refused = self.events(gateway)
        self.assertEqual(refused["status"], 503)
        self.assertIn(f"{MAX_WATCHERS} dashboards", refused["detail"])
        watching[0][0].close()
        again = lambda: isinstance(found := self.events(gateway), tuple) and next(found[1])["full"]  # noqa: E731
        self.assert_eventually(again, "the place of one that has gone is not given to another")
