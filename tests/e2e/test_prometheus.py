"""contrib/grafana and contrib/prometheus with a real Prometheus that scrapes a real gateway."""

import contextlib
import functools
import json
import re
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from certificates import Authority
from collector import Collector
from harness import BINARY, ROOT, Gateway, TestCase, _table, config, eventually, route, service, setUpModule
from origin import Origin
from programs import program
from redis_servers import Server, free_port

__all__ = ["setUpModule"]

CONTRIB = ROOT / "contrib"
DASHBOARD = json.loads((CONTRIB / "grafana" / "pilotlight.json").read_text())
ALERTS = CONTRIB / "prometheus" / "alerts.yml"
METRICS = re.compile(r"metrics on http://127.0.0.1:(\d+)/metrics")
HTTPS = re.compile(r"listening on https://127.0.0.1:(\d+)")
LISTENERS = """
[metrics]
listen = "127.0.0.1:0"
[tls]
certificates = [{ certificate = "server.pem", key = "server.key" }]
"""
#: What Grafana makes of a dashboard's variables.
VARIABLES = {"$__rate_interval": "10s", "$job": "pilotlight", "$instance": ".*", "$route": ".*", "$service": ".*"}


class Prometheus:
    """Scrapes one address four times a second."""

    def __init__(self, target, rules=None):
        self.folder = tempfile.TemporaryDirectory(prefix="pilotlight-prometheus-")
        self.url = f"http://127.0.0.1:{free_port()}"
        file = Path(self.folder.name) / "prometheus.yml"
        settings = {
            "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"},
            "scrape_configs": [{"job_name": "pilotlight", "static_configs": [{"targets": [target]}]}],
        }
        if rules:
            (file.parent / "rules.yml").write_text(rules)
            settings["rule_files"] = ["rules.yml"]
        file.write_text(json.dumps(settings))  # YAML, as all JSON is
        storage = f"--storage.tsdb.path={self.folder.name}/data", "--enable-feature=exemplar-storage"
        listen = f"--web.listen-address={self.url.removeprefix('http://')}"
        self.log = open(file.parent / "log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [program("prometheus"), f"--config.file={file}", *storage, listen, "--log.level=warn"],
            stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def __enter__(self):
        if not eventually(self._is_ready, 30):
            raise RuntimeError(f"Prometheus does not answer: {Path(self.log.name).read_text()}")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def _is_ready(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
            return answer.status == 200
        return False

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        """Values that are numbers."""
        found = self.get("query", query=expression)["result"]
        return [sample for sample in found if sample["value"][1] not in ("NaN", "+Inf", "-Inf")]

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"}


def queries():
    """Every query of the dashboard: (panel, expression)."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]


def filled(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


class Watched(TestCase):
    def port(self, gateway, pattern):
        return int(self.find_output(gateway, pattern)[1])

    def prometheus(self, gateway, rules=None):
        prometheus = Prometheus(f"127.0.0.1:{self.port(gateway, METRICS)}", rules)
        prometheus.__enter__()
        self.addCleanup(prometheus.__exit__)
        return prometheus

    def entered(self, manager):
        manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return manager


class Dashboard(Watched):
    """A gateway that has everything that a panel shows."""

    def setUp(self):
        self.origin = self.entered(Origin())
        self.collector = self.entered(Collector())
        redis = Server()
        self.addCleanup(redis.close)
        gateway = Gateway(BINARY, "")
        Authority(gateway.folder).issue("demo.test", file="server")
        gateway._config = config(
            service("web", url=self.origin.url),
            service("failing", ["false"]),
            service(idle_timeout="100ms"),
            route("/", "web", cache=True, https="allow"),
            route("/demo", "demo", https="allow"),
            route("/failing", "failing", https="allow"),
            route("/few", "web", limit={"rate": "1/d"}, https="allow"),
            _table("[cache.redis]", {"url": redis.url}),
            _table("[traces]", {"endpoint": self.collector.url, "sample": 1}),
            '[access_log]\npath = "access.log"\n',
            LISTENERS,
            listen=["127.0.0.1:0", "https://127.0.0.1:0"],
        )
        self.gateway = self.start(gateway)

    def traffic(self, prometheus):
        for target in ("/make?h=cache-control:max-age%3D60", "/make?status=500", "/failing", "/few"):
            self.gateway.get(target)
        if not prometheus.query('pilotlight_service_ready{service="demo"} == 1'):
            self.gateway.get("/demo/pid")  # one more cold start
        with contextlib.suppress(OSError):
            unverified = ssl._create_unverified_context()
            with socket.create_connection(("127.0.0.1", self.port(self.gateway, HTTPS)), 5) as plain:
                unverified.wrap_socket(plain, server_hostname="demo.test").close()

    def test_every_query_has_data(self):
        prometheus = self.prometheus(self.gateway)
        empty = dict(queries())
        wanted = [one for one in queries() if not one[0].startswith("annotation")]

        def have_all():
            self.traffic(prometheus)
            found = [(panel, expression, prometheus.query(filled(expression))) for panel, expression in wanted]
            empty.clear()
            empty.update({expression: panel for panel, expression, samples in found if not samples})
            return not empty

        self.assertTrue(eventually(have_all, 60), f"without data: {empty}")
        with self.subTest("annotations, variables"):
            for name, expression in queries():
                if name.startswith("annotation"):
                    prometheus.query(filled(expression))  # an error of the query raises
            for variable in DASHBOARD["templating"]["list"]:
                if found := re.fullmatch(r"label_values\((.*), (\w+)\)", variable.get("definition", "")):
                    values = {sample["metric"].get(found[2]) for sample in prometheus.query(filled(found[1]))}
                    self.assertTrue(values - {None}, variable["name"])
        with self.subTest("exemplars"):
            found = prometheus.get(
                "query_exemplars",
                query='pilotlight_request_duration_seconds_bucket{job="pilotlight"}',
                start=time.time() - 120,
                end=time.time() + 1,
            )
            traces = {exemplar["labels"]["trace_id"] for series in found for exemplar in series["exemplars"]}
            self.assertTrue(traces)
            self.gateway.signal(15)  # which sends the last spans
            self.gateway.wait()
            sent = {span.trace_id.hex() for span in self.collector.all()}
            self.assertLessEqual(traces, sent)

    def test_only_metrics_that_there_are(self):
        """The dashboard and the alerts name what the gateway's source exposes."""
        source = ROOT / "crates/gateway/src/admin"
        files = [source / "prometheus.rs", *sorted((source / "prometheus").glob("*.rs"))]
        exposed = "".join(file.read_text() for file in files)
        named = [expression for _, expression in queries()] + [ALERTS.read_text()]
        names = set(re.findall(r"\b(?:pilotlight|process)_[a-z0-9_]+", "\n".join(named)))
        self.assertGreater(len(names), 40)
        for name in sorted(names):
            self.assertIn(f'"{re.sub("_(bucket|sum|count)$", "", name)}"', exposed)


class Alerts(Watched):
    def quick(self):
        """The rules with every time that has to pass in a thirtieth, as the test cannot wait for minutes."""
        text = re.sub(r"(?m)^        for: .*\n", "", ALERTS.read_text())
        return re.sub(r"\[\d+m\]", "[4s]", text)

    def test_promtool(self):
        for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
            done = subprocess.run([program("promtool"), *command], cwd=ALERTS.parent, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_cases_for_and_against(self):
        cases = (ALERTS.parent / "alerts.test.yml").read_text()
        names = re.findall(r"- alert: (\w+)", ALERTS.read_text())
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertRegex(cases, rf"alertname: {name}, eval_time: \w+, exp_alerts: \[\]")
            self.assertRegex(cases, rf"alertname: {name}\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels")

    def test_they_fire_for_a_gateway_in_trouble_and_for_no_other(self):
        origin = self.entered(Origin())
        gateway = Gateway(BINARY, "")
        authority = Authority(gateway.folder)
        authority.issue("demo.test", file="server", days=30)
        gateway._config = config(
            service("web", url=origin.url),
            service("failing", ["false"]),
            route("/", "web", https="allow"),
            route("/failing", "failing", https="allow"),
            LISTENERS,
            listen=["127.0.0.1:0", "https://127.0.0.1:0"],
        )
        self.start(gateway)
        prometheus = self.prometheus(gateway, self.quick())

        def is_busy():
            self.assert_status(gateway.get("/make"), 200)
            return prometheus.query('sum(pilotlight_requests_total{code="2xx"}) > 20')

        self.assertTrue(eventually(is_busy, 30), "Prometheus has no requests")
        self.assertEqual(prometheus.firing(), set())

        authority.issue("demo.test", file="server", days=3)
        trouble = {"PilotlightErrors", "PilotlightServiceRefused", "PilotlightStartsFail", "PilotlightCertificateEnds"}

        def fires(wanted):
            gateway.get("/make?status=500")
            gateway.get("/failing")
            return wanted <= prometheus.firing()

        fired = set()
        for name in sorted(trouble):
            self.assertTrue(eventually(functools.partial(fires, {name}), 40), f"{name}: {prometheus.firing()}")
            fired |= prometheus.firing()
        self.assertEqual(fired - trouble, set())
        gateway.signal(9)
        self.assertTrue(eventually(lambda: "PilotlightDown" in prometheus.firing(), 30), "PilotlightDown does not fire")


if __name__ == "__main__":
    unittest.main()
