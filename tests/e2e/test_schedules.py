"""Schedules: requests at certain times, by the way that a client's requests go."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest
from datetime import datetime, timezone

from harness import BINARY, HERE, ORIGIN, PYTHON, ROOT, Gateway, config, eventually, route, service, setUpModule
from test_operate import ADMIN, Operated, Unix
from test_upgrade import Upgrading

__all__ = ["setUpModule"]

def schedule(cron, path, **more):
    lines = [f'{key} = "{value}"' for key, value in ({"cron": cron, "service": "app", "path": path} | more).items()]
    return "\n".join(["[[schedules]]", *lines, ""])


class Scheduled(Operated):
    def app(self, **settings):
        env = {"SDK": str(ROOT / "sdk" / "python"), "FOLDER": "@FOLDER@"} | settings.pop("env", {})
        return service("app", [PYTHON, "-B", str(HERE / "scheduled.py")], env=env, **settings)

    def gateway(self, *schedules, app=None, routes=()):
        return Gateway(BINARY, config(app or self.app(), *routes, ADMIN, *schedules))

    def begin(self, *schedules, **more):
        return self.start(self.gateway(*schedules, **more))

    def notes(self, gateway):
        file = gateway.folder / "notes"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def schedules(self, gateway):
        return {one["name"]: one for one in self.admin(gateway, "/schedules")["schedules"]}

    def command(self, gateway, *arguments, code=0):
        line = [BINARY, "schedules", *arguments, "--socket", gateway.folder / "admin.sock"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}\n{gateway.output()}")
        return done.stdout + done.stderr


class ByTheClock(Scheduled):
    def test_a_service_is_started_by_its_schedule(self):
        gateway = self.begin(
            schedule("* * * * *", "/tasks/tick?a=1", host="app.example", method="PUT"),
            schedule("0 0 1 1 *", "/never"),
        )
        self.assertEqual(self.admin(gateway, "/services/app")["state"], "stopped")
        before = self.schedules(gateway)["app/tasks/tick"]
        self.assertLessEqual(before["next_in_seconds"], 60)
        self.assert_eventually(lambda: self.notes(gateway), "it was never asked", limit=75)
        [note] = self.notes(gateway)
        request = {"method": "PUT", "path": "/tasks/tick", "query": "a=1", "host": "app.example"}
        self.assertEqual(note, request | {"agent": "Pilotlight-Schedule"})
        self.assert_eventually(lambda: self.schedules(gateway)["app/tasks/tick"]["history"], "no history")
        now = self.schedules(gateway)["app/tasks/tick"]
        [run] = now["history"]
        self.assertEqual((run["result"], run["status"], run["cause"]), ("ok", 200, "schedule"))
        self.assertEqual(now["runs"], {"ok": 1, "failed": 0, "skipped": 0, "elsewhere": 0, "missed": 0})
        self.assertEqual(self.schedules(gateway)["app/never"]["history"], [])
        status = self.admin(gateway, "/status")
        self.assertEqual([one["name"] for one in status["schedules"]], ["app/tasks/tick", "app/never"])
        metrics = self.ask(gateway, "GET", "/metrics").read().decode()
        self.assertIn('pilotlight_schedule_runs_total{schedule="app/tasks/tick",outcome="ok"} 1', metrics)
        self.assertIn('pilotlight_schedule_last_success_seconds{schedule="app/tasks/tick"}', metrics)

    def test_times_that_went_by_while_the_gateway_did_not_run(self):
        """What is kept of a schedule is moved into the past: a gateway that begins has missed it."""
        gateway = self.gateway(schedule("0 * * * *", "/run", missed="run"), schedule("0 * * * *", "/skip"))
        data = gateway.folder / "data"
        os.environ["XDG_DATA_HOME"] = str(data)
        self.addCleanup(os.environ.pop, "XDG_DATA_HOME")
        self.start(gateway)
        self.assert_eventually(lambda: list(data.glob("pilotlight/schedules/*.json")), "nothing is kept")
        [file] = data.glob("pilotlight/schedules/*.json")
        gateway.process.send_signal(signal.SIGTERM)
        gateway.process.wait(20)
        self.assertIsNone(gateway._ready.get(timeout=20))  # its output has ended
        kept = json.loads(file.read_text())
        self.assertEqual(list(kept["schedules"]), ["app/run"])
        kept["schedules"]["app/run"]["dealt"] -= 5 * 3600
        file.write_text(json.dumps(kept))
        self.assertEqual(self.notes(gateway), [])
        gateway.start()
        self.assert_eventually(lambda: self.schedules(gateway)["app/run"]["history"], "what was missed does not run")
        now = self.schedules(gateway)
        self.assertEqual([run["cause"] for run in now["app/run"]["history"]], ["missed"])
        self.assertEqual((now["app/run"]["runs"]["ok"], now["app/run"]["runs"]["missed"]), (1, 4))
        self.assertEqual(now["app/skip"]["history"], [])
        self.assertEqual([note["path"] for note in self.notes(gateway)], ["/run"])
        # It is known from now on.
        self.assertTrue(eventually(lambda: json.loads(file.read_text()) != kept))


class ByHand(Scheduled):
    def test_run_now(self):
        # Months away, and twelve hours: what is left is told in days and hours.
        now = datetime.now(timezone.utc)
        cron = f"0 {(now.hour + 12) % 24} 1 {(now.month + 5) % 12 + 1} *"
        gateway = self.begin(schedule(cron, "/a"), schedule(cron, "/broken", name="broken", method="GET"))
        self.assertRegex(self.command(gateway, "--run", "app/a"), r"^app/a: ok 200, \d+ ms\n$")
        self.assertEqual([note["method"] for note in self.notes(gateway)], ["POST"])
        told = self.command(gateway, "--run", "broken", code=1)
        self.assertIn("broken: failed: it was answered with status 500: no such table: users", told)
        self.assertIn("there is no schedule nothing: app/a, broken", self.command(gateway, "nothing", code=2))
        self.assertIn("there is no schedule", self.command(gateway, "--run", "nothing", code=2))
        listed = self.command(gateway)
        self.assertRegex(listed, rf"app/a +{re.escape(cron)} +in \d+d \d+h +ok 200, \d+ ms, \d+s ago")
        self.assertLess(max(map(len, listed.splitlines())), 120)
        line = [BINARY, "status", "--socket", gateway.folder / "admin.sock"]
        self.assertIn("\n\nSCHEDULE  CRON", subprocess.run(line, capture_output=True, text=True, timeout=60).stdout)
        one = self.command(gateway, "broken")
        self.assertIn("request     GET /broken of app", one)
        self.assertRegex(one, r"runs +.*1 failed")
        as_json = json.loads(self.command(gateway, "--run", "app/a", "--json"))
        self.assertEqual((as_json["result"], as_json["cause"]), ("ok", "by hand"))

    def test_no_two_at_once(self):
        gateway = self.begin(schedule("0 0 1 1 *", "/slow"))
        line = [BINARY, "schedules", "--run", "app/slow", "--socket", gateway.folder / "admin.sock"]
        first = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        self.assert_eventually(lambda: self.schedules(gateway)["app/slow"]["running"], "it does not run")
        told = self.command(gateway, "--run", "app/slow", code=1)
        self.assertIn('run 1 of the schedule "app/slow" is not over', told)
        self.assertRegex(self.command(gateway), r"app/slow .* runs for \d+s")
        (gateway.folder / "go").touch()
        self.assertRegex(first.communicate(timeout=30)[0], "^app/slow: ok 200")

    def test_a_run_that_takes_too_long_has_failed(self):
        gateway = self.begin(schedule("0 0 1 1 *", "/slow", timeout="1s"), schedule("0 0 1 1 *", "/a"))
        told = self.command(gateway, "--run", "app/slow", code=1)
        self.assertIn("app/slow: failed:", told)
        (gateway.folder / "go").touch()
        self.assertIn("app/a: ok", self.command(gateway, "--run", "app/a"))

    def test_a_service_that_does_not_start(self):
        app = service("app", [sys.executable, "-c", "raise SystemExit('no module named flask')"])
        gateway = self.begin(schedule("0 0 1 1 *", "/a"), app=app)
        self.assertIn("app/a: failed:", self.command(gateway, "--run", "app/a", code=1))

    def test_over_http_and_no_route_is_needed(self):
        app = service("app", ORIGIN, transport="http")
        closed = route("/", "app", deny={"networks": ["0.0.0.0/0", "::/0"]})
        gateway = self.begin(schedule("0 0 1 1 *", "/x", method="GET"), app=app, routes=(closed,))
        self.assert_problem(gateway.get("/x"), 403)
        self.assertIn("app/x: ok 200", self.command(gateway, "--run", "app/x"))


class Changes(Scheduled):
    def test_reload(self):
        gateway = self.begin(schedule("0 0 1 1 *", "/a"))
        self.command(gateway, "--run", "app/a")
        text = config(self.app(), ADMIN, schedule("0 12 1 1 *", "/a"), schedule("0 0 1 1 *", "/b"))
        text = text.replace("@FOLDER@", str(gateway.folder))
        (gateway.folder / "pilotlight.toml").write_text(text)
        done = subprocess.run(
            [BINARY, "reload", "--socket", gateway.folder / "admin.sock"], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("schedules", done.stdout)
        now = self.schedules(gateway)
        self.assertEqual(list(now), ["app/a", "app/b"])
        self.assertEqual((now["app/a"]["cron"], now["app/a"]["runs"]["ok"]), ("0 12 1 1 *", 1))
        self.assertTrue(now["app/a"]["next"].endswith("12:00"))
        self.command(gateway, "--run", "app/b")
        # What is no longer there is not run.
        (gateway.folder / "pilotlight.toml").write_text(text.split("[[schedules]]")[0])
        self.admin(gateway, "/reload", method="POST")
        self.assertEqual(self.schedules(gateway), {})
        self.assertIn("no schedules;", self.command(gateway))

    def test_a_run_ends_before_its_service_is_stopped(self):
        gateway = self.begin(schedule("0 0 1 1 *", "/slow"), app=self.app(drain_timeout="20s"))
        first = self.ask(gateway, "POST", "/schedules/run", json.dumps({"name": "app/slow"}))
        self.assertEqual((first.status, json.loads(first.read())["number"]), (202, 1))
        self.assert_eventually(lambda: self.notes(gateway), "it does not run")
        gateway.signal(signal.SIGTERM)
        self.assert_eventually(lambda: "told to end" in gateway.output(), "it does not stop")
        self.assertIsNone(gateway.process.poll())
        (gateway.folder / "go").touch()
        self.assertEqual(gateway.wait(), 0)
        self.assert_logged(gateway, "the run of a schedule is over")


class Upgrade(Upgrading):
    def test_another_process_takes_over(self):
        """The run that is under way ends in the process that began it; the next ones begin in the other."""
        env = {"SDK": str(ROOT / "sdk" / "python"), "FOLDER": "@FOLDER@"}
        app = service("app", [PYTHON, "-B", str(HERE / "scheduled.py")], env=env)
        gateway = self.begin(app, schedule("0 0 1 1 *", "/slow"), schedule("0 0 1 1 *", "/a"))
        connection = Unix(gateway.folder / "admin.sock")
        connection.request("POST", "/schedules/run", json.dumps({"name": "app/slow"}))
        self.assertEqual(connection.getresponse().status, 202)
        connection.close()
        self.assert_eventually((gateway.folder / "notes").exists, "it does not run")
        pids = self.upgrade(gateway)
        self.assertEqual(pids["old_pid"], gateway.process.pid)
        # The old process may have accepted one more connection.
        is_over = lambda: self.status(gateway)["schedules"][0]["running"] is None  # noqa: E731
        self.assert_eventually(is_over, "the new process has taken the run over")
        self.assertIn("app/a: ok 200", self.command(gateway, "schedules", "--run", "app/a"))
        self.assertIsNone(gateway.process.poll(), "it did not wait for the run")
        (gateway.folder / "go").touch()
        self.assertEqual(gateway.wait(), 0)
        over = "the run of a schedule is over"
        self.assert_eventually(lambda: gateway.output().count(over) == 2, "not told of both runs")


if __name__ == "__main__":
    unittest.main()
