"""Eight gateways with one file and one Redis Cluster: what they share, as docs/guide/many-gateways.md says it."""

import json
import threading
import unittest
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import BINARY, Gateway, config, route, service, setUpModule
from redis_servers import Cluster
from test_operate import ADMIN, Operated

__all__ = ["setUpModule"]

GATEWAYS = 8


class Pages(BaseHTTPRequestHandler):
    """Says how often it was asked for a path; fresh for ten minutes, with a tag."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65_536

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked[self.path] += 1
        if self.path == "/held":
            self.server.go_on.wait(30)
        body = str(self.server.asked[self.path]).encode()
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=600")
        self.send_header("Cache-Tag", "pages")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


class Eight(Operated):
    def setUp(self):
        self.pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.pages.daemon_threads = True
        self.pages.asked, self.pages.go_on = Counter(), threading.Event()
        threading.Thread(target=self.pages.serve_forever, daemon=True).start()
        self.addCleanup(self.pages.server_close)
        self.addCleanup(self.pages.shutdown)
        self.cluster = Cluster(3)
        self.addCleanup(self.cluster.close)

    def gateways(self, *blocks, budget="1s"):
        web = service("web", url=f"http://127.0.0.1:{self.pages.server_port}")
        redis = f'[cache.redis]\nurl = "{self.cluster.url}"\nbudget = "{budget}"\n'
        routes = [
            route("/", "web", cache=True),
            route("/limited", "web", cache=False, limit={"rate": "16/h", "shared": True}),
        ]
        text = config(web, *routes, ADMIN, redis, *blocks)
        gateways = [self.start(Gateway(BINARY, text)) for _ in range(GATEWAYS)]
        for gateway in gateways:
            covered = lambda of=gateway: self.admin(of, "/status")["cache"]["coherence"]["covered"]  # noqa: E731
            self.assert_eventually(covered, "other gateways are not known", 30)
        return gateways

    def bodies(self, gateways, target):
        answers = [gateway.get(target, host="h.test") for gateway in gateways]
        for answer in answers:
            self.assert_status(answer, 200)
        return [answer.body.decode() for answer in answers]

    def is_written(self, gateway):
        """Answers are written behind."""
        metrics = self.ask(gateway, "GET", "/metrics").read().decode()
        return 'pilotlight_cache_redis_writes_total{result="written"} 1' in metrics

    def test_cache_purges_and_limits(self):
        gateways = self.gateways()
        self.assertEqual(self.bodies(gateways[:1], "/page"), ["1"])
        self.assert_eventually(lambda: self.is_written(gateways[0]), "nothing is stored in Redis")
        self.assertEqual(self.bodies(gateways, "/page"), ["1"] * GATEWAYS, "one of them has asked the service again")
        told = self.admin(gateways[3], "/purge", "POST", json.dumps({"tags": ["pages"]}))
        self.assertEqual((len(told["nodes"]["applied"]), told["nodes"]["late"]), (GATEWAYS, []), told)
        bodies = set(self.bodies(gateways, "/page"))
        self.assertNotIn("1", bodies, "an answer that was purged")
        statuses = Counter(gateways[at % GATEWAYS].get("/limited").status for at in range(5 * GATEWAYS))
        self.assertEqual(statuses, {200: 16, 429: 5 * GATEWAYS - 16})

    def test_a_shared_schedule_runs_once(self):
        schedule = '[[schedules]]\ncron = "* * * * *"\nservice = "web"\npath = "/tick"\nshared = true\njitter = "0s"\n'
        gateways = self.gateways(schedule)

        def runs():
            found = [self.admin(gateway, "/schedules")["schedules"][0] for gateway in gateways]
            return Counter({key: sum(one["runs"][key] for one in found) for key in found[0]["runs"]})

        self.assert_eventually(lambda: sum(runs().values()) >= GATEWAYS, "it was not due", limit=80)
        told = runs()
        self.assertEqual(told["elsewhere"] * 1.0 / max(told["ok"], 1), GATEWAYS - 1, told)
        self.assertEqual(told["failed"] + told["skipped"] + told["missed"], 0, told)
        self.assertEqual(self.pages.asked["/tick"], told["ok"])

    def shared(self, path, **keys):
        lines = {"cron": "0 0 1 1 *", "service": "web", "path": path, "name": "job"} | keys
        rows = [f'{key} = "{value}"' for key, value in lines.items()]
        return "\n".join(["[[schedules]]", "shared = true", *rows, ""])

    def history(self, gateway):
        return self.admin(gateway, "/schedules")["schedules"][0]["history"]

    def ran(self, gateway):
        self.admin(gateway, "/schedules/run", "POST", json.dumps({"name": "job"}), status=202)
        self.assert_eventually(lambda: self.history(gateway), "the run is not over", limit=40)
        return self.history(gateway)[0]

    def test_a_run_that_is_under_way_at_another_gateway(self):
        a, b = self.gateways(self.shared("/held"))[:2]
        self.addCleanup(self.pages.go_on.set)
        self.admin(a, "/schedules/run", "POST", json.dumps({"name": "job"}), status=202)
        self.assert_eventually(lambda: self.pages.asked["/held"], "it was not asked")
        refused = self.ran(b)
        self.assertEqual(refused["result"], "failed")
        self.assertIn("not over at another gateway", refused["reason"])
        self.assertEqual(self.pages.asked["/held"], 1)
        self.pages.go_on.set()
        self.assert_eventually(lambda: self.history(a), "the run is not over")
        self.assertEqual(self.history(a)[0]["result"], "ok")

    def test_nothing_is_sent_without_redis(self):
        gateway = self.gateways(self.shared("/tick", timeout="2s"))[0]
        for node in self.cluster.nodes:
            node.kill()
        run = self.ran(gateway)
        self.assertEqual(run["result"], "failed")
        self.assertIn("Redis did not say within `timeout` (2 s)", run["reason"])
        self.assertEqual(self.pages.asked["/tick"], 0)

    def test_without_redis_each_serves_alone(self):
        gateways = self.gateways(budget="50ms")
        self.bodies(gateways, "/page")
        for node in self.cluster.nodes:
            node.kill()
        self.bodies(gateways, "/page")
        self.bodies(gateways, "/other")
        statuses = Counter(gateways[0].get("/limited").status for _ in range(20))
        self.assertEqual(statuses, {200: 16, 429: 4}, "each counts alone")


if __name__ == "__main__":
    unittest.main()
