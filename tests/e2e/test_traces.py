"""Traces as a collector, services and clients see them."""

import json
import re
import signal
import socket
import subprocess
import time
import unittest

from collector import Collector, attributes
from harness import BINARY, PYTHON, ROOT, Gateway, TestCase, _table, config, route, service, setUpModule  # noqa: F401
from origin import Origin
from programs import program
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_operate import ADMIN, Unix, parsed

__all__ = ["setUpModule"]

INTERNAL, SERVER, CLIENT = 1, 2, 3
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT}-00"
CONTEXT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

PYTHON_SERVICE = """
import json, sys
sys.path.insert(0, {sdk!r})
import pilotlight
pilotlight.serve(lambda request: (200, {{"content-type": "application/json"}}, json.dumps(dict(request.headers))))
"""
NODE_SERVICE = """
const {{ serve }} = require({sdk!r});
serve((req, res) => res.end(JSON.stringify(req.headers)));
"""


def traces(collector, **settings):
    endpoint = collector if isinstance(collector, str) else collector.url
    return _table("[traces]", {"endpoint": endpoint} | settings)


class Traced(TestCase):
    def setUp(self):
        self.collector = Collector()
        self.collector.__enter__()
        self.addCleanup(self.collector.__exit__)
        self.origin = Origin()
        self.origin.__enter__()
        self.addCleanup(self.origin.__exit__)

    def gateway(self, *blocks, route_settings=None, **settings):
        """A gateway with an origin on `/`."""
        web = service("web", url=self.origin.url), route(service="web", **(route_settings or {}))
        sampled = [] if any(block.startswith("[traces]") for block in blocks) else [traces(self.collector, sample=1)]
        return self.start(Gateway(BINARY, config(*web, ADMIN, *sampled, *blocks, **settings)))

    def seen(self, gateway, target="/show", fields=()):
        """The fields that the service got."""
        shown = self.assert_json(gateway.get(target, fields))
        return {name.lower(): value for name, value in shown["fields"]}

    def spans(self, count, kind=None):
        self.assert_eventually(lambda: len(self.collector.all(kind)) >= count, f"not {count} spans of kind {kind}")
        return self.collector.all(kind)

    def metrics(self, gateway):
        return parsed(self.exposed(gateway)[1])

    def exposed(self, gateway, accept=None):
        """The media type of the metrics, and their text."""
        connection = Unix(gateway.folder / "admin.sock")
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics", headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.headers["content-type"], answer.read().decode()

    def lost(self, gateway, reason):
        return counted(self.metrics(gateway), "pilotlight_trace_spans_dropped_total", reason=reason)


def counted(metrics, name, **labels):
    wanted, (_, samples) = set(labels.items()), metrics
    return sum(value for (of, has), value in samples.items() if of == name and wanted <= set(has))


class Spans(Traced):
    def test_a_request_has_a_span_for_itself_its_phases_and_its_try(self):
        gateway = self.gateway()
        fields = [("User-Agent", "agent/1"), ("Cookie", "secret"), ("Authorization", "secret")]
        seen = self.seen(gateway, "/show?token=secret", fields)
        [server] = self.spans(1, SERVER)
        [client] = self.spans(1, CLIENT)
        said = attributes(server)
        self.assertEqual(server.name, "GET /")
        for name, value in {
            "http.request.method": "GET",
            "url.path": "/show",
            "url.scheme": "http",
            "http.route": "/",
            "http.response.status_code": 200,
            "network.protocol.version": "1.1",
            "server.address": "demo.test",
            "client.address": "127.0.0.1",
            "user_agent.original": "agent/1",
            "pilotlight.service": "web",
        }.items():
            self.assertEqual(said[name], value, name)
        self.assertNotIn("error.type", said)
        self.assertEqual(server.status.code, 0)
        self.assertEqual(server.parent_span_id, b"")
        self.assertEqual(client.parent_span_id, server.span_id)
        self.assertEqual(attributes(client)["http.response.status_code"], 200)
        for span in self.collector.all():
            self.assertEqual(span.trace_id, server.trace_id)
            self.assertLessEqual(server.start_time_unix_nano, span.start_time_unix_nano)
            self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano)
            self.assertLessEqual(span.end_time_unix_nano, server.end_time_unix_nano + 1_000_000)
        phases = {span.name for span in self.collector.all(INTERNAL)}
        self.assertLessEqual({"parse", "route", "service", "body", "write"}, phases)
        trace, span, flags = CONTEXT.fullmatch(seen["traceparent"]).groups()
        self.assertEqual((trace, span), (server.trace_id.hex(), client.span_id.hex()))
        self.assertEqual(int(flags, 16) & 1, 1)
        [(path, headers, body)] = self.collector.requests
        self.assertEqual((path, headers["content-type"]), ("/v1/traces", "application/x-protobuf"))
        self.assertNotIn(b"secret", body)
        self.assertEqual(self.collector.resource["service.name"], "pilotlight")

    def test_errors_are_errors(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        gone = service("gone", url=f"http://127.0.0.1:{port}"), route("/gone", "gone")
        gateway = self.gateway(*gone)
        self.assert_status(gateway.get("/gone"), 502)
        self.assert_status(gateway.get("/make?status=404"), 404)
        by_path = {attributes(span)["url.path"]: span for span in self.spans(2, SERVER)}
        self.assertEqual(by_path["/gone"].status.code, 2)
        self.assertEqual(attributes(by_path["/gone"])["error.type"], "502")
        self.assertEqual(by_path["/make"].status.code, 0)
        tries = {attributes(span)["url.path"]: span for span in self.collector.all(CLIENT)}
        self.assertEqual(attributes(tries["/gone"])["error.type"], "connect")
        self.assertEqual(attributes(tries["/make"])["error.type"], "404")

    def test_a_cold_start_is_seen(self):
        gateway = self.start(Gateway(BINARY, config(service(), route(), traces(self.collector, sample=1))))
        self.assert_status(gateway.get("/pid"), 200)
        self.spans(1, SERVER)
        self.assertLessEqual({"spawn", "connect"}, {span.name for span in self.collector.all(INTERNAL)})

    def test_queries_only_where_they_are_wanted(self):
        gateway = self.gateway(traces(self.collector, sample=1, query=True))
        self.seen(gateway, "/show?a=b")
        self.assertEqual(attributes(self.spans(1, SERVER)[0])["url.query"], "a=b")

    def test_hits_are_sampled_as_others_and_counted_once(self):
        gateway = self.gateway(route_settings={"cache": "1h"})
        for _ in range(5):
            self.assert_status(gateway.get("/make?h=cache-control:max-age%3D60"), 200)
        verdicts = sorted(attributes(span)["pilotlight.cache"] for span in self.spans(5, SERVER))
        self.assertEqual(verdicts, ["hit"] * 4 + ["miss"])
        self.assertEqual(len(self.collector.all(CLIENT)), 1)

    def test_a_hit_has_its_own_span_and_one_phase_by_both_protocols(self):
        settings = {"cache": "1h", "https": "allow"}
        gateway = self.gateway(traces(self.collector, sample=1, query=True), route_settings=settings)
        target = "/make?h=cache-control:max-age%3D60"
        with gateway.client() as client:
            for _ in range(2):
                self.assert_status(client.request("GET", target, [("User-Agent", "agent/1")]), 200)
        of_http2 = [program("curl"), "-sS", "--http2-prior-knowledge", "-A", "agent/1", "-H", "host: demo.test"]
        url = "http://{}:{}".format(*gateway.address) + target
        got = subprocess.run([*of_http2, url], stdout=subprocess.PIPE, check=True, timeout=30).stdout
        hits = [span for span in self.spans(3, SERVER) if attributes(span)["pilotlight.cache"] == "hit"]
        self.assertEqual([attributes(hit)["network.protocol.version"] for hit in hits], ["1.1", "2"])
        for hit in hits:
            said = attributes(hit)
            del said["network.protocol.version"]
            expected = {
                "http.request.method": "GET",
                "url.path": "/make",
                "url.query": "h=cache-control:max-age%3D60",
                "url.scheme": "http",
                "http.route": "/",
                "http.request.body.size": 0,
                "http.response.body.size": len(got),
                "http.response.status_code": 200,
                "pilotlight.cache": "hit",
                "pilotlight.service": "web",
                "server.address": "demo.test",
                "client.address": "127.0.0.1",
                "user_agent.original": "agent/1",
            }
            self.assertEqual(said, expected)
            self.assertEqual((hit.name, hit.parent_span_id, hit.flags & 1), ("GET /", b"", 1))
            [phase] = [span for span in self.collector.all(INTERNAL) if span.trace_id == hit.trace_id]
            self.assertEqual((phase.name, phase.parent_span_id), ("cache", hit.span_id))
            times = hit.start_time_unix_nano, hit.end_time_unix_nano
            self.assertEqual((phase.start_time_unix_nano, phase.end_time_unix_nano), times)
            self.assertLess(*times)
        self.assertEqual(len({hit.trace_id for hit in hits}), 2)


class Context(Traced):
    def test_strangers_choose_neither_trace_nor_sampling(self):
        gateway = self.gateway(traces(self.collector, sample=0))
        seen = self.seen(gateway, fields=[("traceparent", SAMPLED), ("tracestate", "a=1")])
        trace, _, flags = CONTEXT.fullmatch(seen["traceparent"]).groups()
        self.assertNotEqual(trace, TRACE)
        self.assertEqual(int(flags, 16) & 1, 0)
        self.assertNotIn("tracestate", seen)

    def test_a_trusted_parent_is_followed(self):
        gateway = self.gateway(traces(self.collector, sample=0, trust_parent=["127.0.0.0/8"]))
        seen = self.seen(gateway, fields=[("traceparent", SAMPLED), ("tracestate", "a=1,b=2")])
        [server] = self.spans(1, SERVER)
        self.assertEqual((server.trace_id.hex(), server.parent_span_id.hex()), (TRACE, PARENT))
        self.assertEqual(server.trace_state, "a=1,b=2")
        self.assertEqual(server.flags & 0x300, 0x300)
        self.assertEqual(CONTEXT.fullmatch(seen["traceparent"]).group(1), TRACE)
        self.assertEqual(seen["tracestate"], "a=1,b=2")
        seen = self.seen(gateway, fields=[("traceparent", UNSAMPLED), ("tracestate", "a=1")])
        self.assertEqual((seen["traceparent"], seen["tracestate"]), (UNSAMPLED, "a=1"))

    def test_whom_forwarding_trusts_is_trusted_here(self):
        gateway = self.gateway(traces(self.collector, sample=0), trust_forwarded=True)
        self.seen(gateway, fields=[("traceparent", SAMPLED)])
        self.assertEqual(self.spans(1, SERVER)[0].trace_id.hex(), TRACE)

    def test_what_is_malformed_begins_a_new_trace(self):
        gateway = self.gateway(traces(self.collector, sample=0, trust_parent=True))
        for value in ("x", SAMPLED.upper(), f"ff{SAMPLED[2:]}", f"{SAMPLED}-x", f"00-{'0' * 32}-{PARENT}-01"):
            with self.subTest(value):
                seen = self.seen(gateway, fields=[("traceparent", value), ("tracestate", "a=1")])
                self.assertNotEqual(CONTEXT.fullmatch(seen["traceparent"]).group(1), TRACE)
                self.assertNotIn("tracestate", seen)
        twice = [("traceparent", SAMPLED), ("traceparent", SAMPLED)]
        self.assertNotEqual(CONTEXT.fullmatch(self.seen(gateway, fields=twice)["traceparent"]).group(1), TRACE)
        seen = self.seen(gateway, fields=[("traceparent", SAMPLED), ("tracestate", "a=1,a=2")])
        self.assertEqual(CONTEXT.fullmatch(seen["traceparent"]).group(1), TRACE)
        self.assertNotIn("tracestate", seen)

    def test_without_traces_nothing_is_touched(self):
        web = service("web", url=self.origin.url), route(service="web")
        gateway = self.start(Gateway(BINARY, config(*web)))
        seen = self.seen(gateway, fields=[("traceparent", "anything"), ("tracestate", "A=")])
        self.assertEqual((seen["traceparent"], seen["tracestate"]), ("anything", "A="))
        self.assertNotIn("traceparent", self.seen(gateway))

    def test_it_crosses_the_pipe_to_python_and_node(self):
        web = service("web", url=self.origin.url), route(service="web")
        gateway = Gateway(BINARY, "")
        (gateway.folder / "show.py").write_text(PYTHON_SERVICE.format(sdk=str(ROOT / "sdk" / "python")))
        (gateway.folder / "show.js").write_text(NODE_SERVICE.format(sdk=str(ROOT / "sdk" / "node")))
        gateway._config = config(
            *web,
            service("py", [PYTHON, "show.py"], transport="pipe"),
            service("js", ["node", "show.js"], transport="pipe"),
            route("/py", "py"),
            route("/js", "js"),
            traces(self.collector, sample=0, trust_parent=True),
        )
        self.start(gateway)
        for at, path in enumerate(("/py", "/js"), 1):
            got = self.assert_json(gateway.get(path, [("traceparent", SAMPLED), ("tracestate", "a=1")]))
            trace, span, _ = CONTEXT.fullmatch(got["traceparent"]).groups()
            client = self.spans(at, CLIENT)[-1]
            self.assertEqual((trace, span, got["tracestate"]), (TRACE, client.span_id.hex(), "a=1"), path)


class Sampling(Traced):
    def test_the_ratio_is_kept_for_hits_and_others(self):
        gateway = self.gateway(traces(self.collector, sample=0.2), route_settings={"cache": "1h"}, workers=1)
        hit, other = "/make?h=cache-control:max-age%3D600", "/make?status=201"
        with gateway.client() as client:
            self.assert_status(client.request("GET", hit), 200)
            for _ in range(1000):
                self.assert_status(client.request("GET", hit), 200)
                self.assert_status(client.request("GET", other), 201)
        gateway.stop()  # which sends the last spans
        statuses = [attributes(span)["http.response.status_code"] for span in self.collector.all(SERVER)]
        for status in (200, 201):  # 1000 times 0.2, within six standard deviations
            self.assertTrue(200 - 76 <= statuses.count(status) <= 200 + 76, (status, statuses.count(status)))


class Collectors(Traced):
    """What a collector does delays no request, and loses none."""

    def test_none_there(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1/traces"
        gateway = self.gateway(traces(url, sample=1))
        self.assert_status(gateway.get("/show"), 200)
        self.assert_eventually(lambda: "spans were not sent" in gateway.output(), "no word of it")
        for _ in range(20):
            self.assert_status(gateway.get("/show"), 200)
        self.assertEqual(gateway.stop(), 0)

    def test_a_busy_one_gets_the_same_spans_again(self):
        self.collector.answers.extend([(503, [("Retry-After", "0")], b""), (429, [("Retry-After", "1")], b"")])
        gateway = self.gateway()
        self.seen(gateway)
        self.spans(1, SERVER)
        first, second, third = self.collector.requests
        self.assertEqual((first[2], first[2]), (second[2], third[2]))
        self.assert_eventually(
            lambda: counted(self.metrics(gateway), "pilotlight_trace_spans_sent_total") == len(self.collector.all()),
            "they are not counted once",
        )

    def test_one_that_wants_to_be_left_alone_for_years_keeps_nobody(self):
        self.collector.answers.append((503, [("Retry-After", str(10**9))], b""))
        gateway = self.gateway()
        self.seen(gateway)
        self.assert_eventually(lambda: self.collector.requests, "nothing was sent")
        self.assertEqual(gateway.stop(), 0)

    def test_one_that_refuses_is_not_asked_again(self):
        self.collector.answers.append((400, (), b""))
        gateway = self.gateway()
        self.seen(gateway)
        self.assert_eventually(lambda: self.lost(gateway, "refused") > 0, "nothing is counted")
        self.assertEqual(len(self.collector.requests), 1)

    def test_what_it_takes_in_part_is_counted_in_part(self):
        self.collector.answers.append((200, (), b"\x0a\x02\x08\x02"))
        gateway = self.gateway()
        self.seen(gateway)
        self.assert_eventually(lambda: self.lost(gateway, "rejected") == 2, "nothing is counted")


class SilentCollector(Traced):
    def test_one_that_does_not_answer_fills_the_queue_and_no_more(self):
        self.collector.gate.clear()
        gateway = self.gateway(workers=1)

        def flood():
            with gateway.client() as client:
                for _ in range(1200):
                    self.assert_status(client.request("GET", "/make"), 200)

        for _ in range(3):
            flood()
        self.assertGreater(self.lost(gateway, "queue_full"), 0)
        self.collector.gate.set()
        self.assert_eventually(
            lambda: counted(self.metrics(gateway), "pilotlight_trace_spans_sent_total") > 5000, "nothing is sent again"
        )


class Exemplars(Traced):
    OPEN = "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"

    def families(self, gateway):
        """What Prometheus's own strict reader of OpenMetrics makes of it."""
        kind, text = self.exposed(gateway, self.OPEN)
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        return {family.name: family for family in text_string_to_metric_families(text)}

    def test_slow_buckets_lead_to_a_trace(self):
        gateway = self.gateway(route_settings={"cache": "1h"})
        slow, hit = "/make?ms=300", "/make?h=cache-control:max-age%3D60"
        for target in (slow, hit, hit, hit):
            self.assert_status(gateway.get(target), 200)
        self.spans(4, SERVER)
        begun = time.time()
        families = self.families(gateway)
        buckets = families["pilotlight_request_duration_seconds"].samples
        found = [(sample, sample.exemplar) for sample in buckets if sample.exemplar]
        known = {span.trace_id.hex(): span for span in self.spans(4, SERVER)}
        bounds = sorted(float(sample.labels["le"]) for sample in buckets if sample.name.endswith("_bucket"))
        for sample, exemplar in found:
            span = known[exemplar.labels["trace_id"]]
            self.assertEqual(exemplar.labels["span_id"], span.span_id.hex())
            bound = float(sample.labels["le"])
            self.assertLess(exemplar.value, bound)
            self.assertGreaterEqual(exemplar.value, max((b for b in bounds if b < bound), default=0))
            self.assertLess(abs(float(exemplar.timestamp) - begun), 60)
        slowest = max(found, key=lambda one: one[1].value)[1]
        self.assertEqual(attributes(known[slowest.labels["trace_id"]])["url.path"], "/make")
        self.assertGreaterEqual(slowest.value, 0.3)
        layers = families["pilotlight_layer_duration_seconds"].samples
        of_service = [s.exemplar.labels for s in layers if s.exemplar and s.labels["layer"] == "service"]
        self.assertIn(slowest.labels, of_service)

    def test_a_hit_that_is_answered_from_its_head_is_one(self):
        gateway = self.gateway(route_settings={"cache": "1h"})
        with gateway.client() as client:
            for count in (1, 2):
                self.assert_status(client.request("GET", "/make?h=cache-control:max-age%3D60"), 200)
                self.spans(count, SERVER)
        [hit] = [span for span in self.collector.all(SERVER) if attributes(span)["pilotlight.cache"] == "hit"]
        expected = {"trace_id": hit.trace_id.hex(), "span_id": hit.span_id.hex()}
        families = self.families(gateway)
        for name in ("pilotlight_request_duration_seconds", "pilotlight_layer_duration_seconds"):
            found = [sample for sample in families[name].samples if sample.exemplar]
            [sample] = [sample for sample in found if sample.exemplar.labels == expected]
            self.assertEqual(sample.labels.get("layer", "cache"), "cache")
            took = hit.end_time_unix_nano - hit.start_time_unix_nano
            self.assertAlmostEqual(sample.exemplar.value, took / 1e9, places=8)

    def test_unsampled_requests_are_no_exemplars(self):
        gateway = self.gateway(traces(self.collector, sample=0))
        self.seen(gateway)
        name = "pilotlight_request_duration_seconds_count"
        self.assert_eventually(lambda: counted(self.metrics(gateway), name) == 1, "the request is not counted")
        families = self.families(gateway)
        self.assertFalse([sample for family in families.values() for sample in family.samples if sample.exemplar])

    def test_both_formats_have_the_same_samples(self):
        gateway = self.gateway()
        self.seen(gateway)
        self.spans(1, SERVER)
        kind, text = self.exposed(gateway, "text/plain")
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(self.exposed(gateway)[0], kind)
        named = {(s.name, tuple(sorted(s.labels.items()))) for f in self.families(gateway).values() for s in f.samples}
        others = {(name, labels) for name, labels in parsed(text)[1]}
        self.assertEqual(named, others)


class Settings(Traced):
    def test_the_fields_of_a_file_go_to_the_collector_and_nowhere_else(self):
        gateway = Gateway(BINARY, "")
        (gateway.folder / "keys").write_text("# ours\nX-Api-Key: a-secret\n")
        web = service("web", url=self.origin.url), route(service="web")
        gateway._config = config(*web, traces(self.collector, sample=1, headers_file="keys", service_name="edge"))
        self.start(gateway)
        self.seen(gateway)
        self.spans(1, SERVER)
        self.assertEqual(self.collector.requests[0][1]["x-api-key"], "a-secret")
        self.assertEqual(self.collector.resource["service.name"], "edge")
        gateway.stop()
        self.assertNotIn("a-secret", gateway.output())

    def test_a_reload_is_followed(self):
        gateway = self.gateway(traces(self.collector, sample=0))
        self.seen(gateway)
        with Collector() as other:
            file = gateway.folder / "pilotlight.toml"
            text = file.read_text().replace(self.collector.url, other.url).replace("sample = 0", "sample = 1")
            file.write_text(text)
            gateway.signal(signal.SIGHUP)

            def is_followed():
                self.seen(gateway)
                return other.all(SERVER)

            self.assert_eventually(is_followed, "the new collector gets nothing")
            self.assertEqual(self.collector.all(), [])

    def test_lines_of_the_access_log_name_the_trace(self):
        gateway = self.gateway('[access_log]\npath = "access.log"\n')
        self.seen(gateway)
        [server] = self.spans(1, SERVER)
        log = gateway.folder / "access.log"
        self.assert_eventually(lambda: log.read_text(), "no line")
        self.assertEqual(json.loads(log.read_text().splitlines()[0])["trace_id"], server.trace_id.hex())


if __name__ == "__main__":
    unittest.main()
