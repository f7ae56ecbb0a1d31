"""Routes by a field of a JSON body, by HTTP/1.1 and HTTP/2, whole and in pieces; what was read goes on unchanged."""

import gzip
import hashlib
import json
import socket
import tempfile
import unittest
from pathlib import Path

import http2_client
from harness import BINARY, HERE, PYTHON, Gateway, config, route, service, setUpModule
from test_access import Decider, basic, htpasswd
from test_operate import ADMIN, Operated

__all__ = ["setUpModule"]

ECHO = [PYTHON, "-B", str(HERE / "echo_service.py")]
NAMES = ("llama", "qwen", "plain")


class JsonRoutes(Operated):
    @staticmethod
    def with_models(*more, plain=True):
        services = [service(name, ECHO, env={"NAME": name}) for name in NAMES]
        routes = [
            route("/v1", service="llama", json={"model": "llama-3*"}),
            route("/v1", service="qwen", json={"model": "qwen"}),
            *([route("/v1", service="plain")] if plain else []),
        ]
        return Gateway(BINARY, config(*services, *routes, *more, ADMIN, dev=True))

    def post(self, gateway, body, *fields, path="/v1/chat/completions", status=200):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = gateway.request("POST", path, fields, body)
        self.assert_status(answer, status)
        return answer.body.decode() if status != 200 else json.loads(answer.body)

    def served(self, gateway, body, *fields, **more):
        """Who answered; the service got the body as it was sent."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.post(gateway, body, *fields, **more)
        self.assertEqual((answer["length"], answer["sha256"]), (len(body), hashlib.sha256(body).hexdigest()))
        return answer["name"]


class Choice(JsonRoutes):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(cls.with_models())

    def test_the_field_chooses(self):
        gateway = self.gateway
        self.assertEqual(self.served(gateway, {"model": "llama-3.1-8b", "messages": []}), "llama")
        self.assertEqual(self.served(gateway, {"messages": [{"model": "llama-3"}], "model": "qwen"}), "qwen")
        for other in ({"model": "qwen2"}, {"model": 7}, {"x": 1}, [], "qwen"):
            self.assertEqual(self.served(gateway, other), "plain")
        self.assertEqual(self.served(gateway, b"no json"), "plain")
        self.assertEqual(self.served(gateway, b'{"model":"qwen","model":"llama-3"}'), "qwen")
        self.assertEqual(json.loads(gateway.get("/v1/models").body)["name"], "plain")

    def test_the_more_specific_route_is_asked_first(self):
        gateway = self.start(self.with_models(
            route("/v1/models", service="qwen"),
            route("/v1", service="qwen", json={"model": "llama-3.1"}),
            route("/v1", service="plain", json={"model": "llama-3.1", "user": "*"})))
        self.assertEqual(self.served(gateway, {"model": "llama-3"}, path="/v1/models/x"), "qwen")
        self.assertEqual(self.served(gateway, {"model": "llama-3.1"}), "qwen")
        self.assertEqual(self.served(gateway, {"model": "llama-3.1", "user": "a"}), "plain")
        self.assertEqual(self.served(gateway, {"model": "llama-3.2", "user": "a"}), "llama")

    def test_a_large_body_goes_on_unchanged(self):
        gateway = self.gateway
        large = json.dumps({"model": "qwen", "image": "x" * 3_000_000}).encode()
        self.assertEqual(self.served(gateway, large), "qwen")
        late = json.dumps({"image": "x" * 100_000, "model": "qwen"}).encode()
        self.assertEqual(self.served(gateway, late), "plain")

    def test_the_length_stays_and_chunks_stay_chunks(self):
        gateway = self.gateway
        body = json.dumps({"model": "qwen", "text": "y" * 200_000}).encode()
        self.assertEqual(self.post(gateway, body)["content_length"], str(len(body)))
        with gateway.client() as client:
            head = b"POST /v1/x HTTP/1.1\r\nHost: demo.test\r\nTransfer-Encoding: chunked\r\n\r\n"
            pieces = [body[at:at + 7] for at in range(0, 70, 7)] + [body[70:]]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
            client.send(head + chunks + b"0\r\n\r\n")
            answer = json.loads(client.answer("POST").body)
            self.assertEqual((answer["name"], answer["content_length"], answer["length"]), ("qwen", None, len(body)))
            self.assertEqual(json.loads(client.request("GET", "/v1/models").body)["name"], "plain")

    def test_a_client_that_waits_for_the_word_gets_it(self):
        gateway = self.gateway
        body = json.dumps({"model": "llama-3", "text": "z" * 1000}).encode()
        with socket.create_connection(gateway.address, 20) as connection:
            fields = ("Host: a", f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close")
            connection.sendall("\r\n".join(["POST /v1 HTTP/1.1", *fields, "\r\n"]).encode())
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100 "))
            connection.sendall(body)
            text = b"".join(iter(lambda: connection.recv(65536), b""))
        self.assertIn(b'"name": "llama"', text)

    def test_http2(self):
        gateway = self.gateway
        for model, name in (("qwen", "qwen"), ("llama-3", "llama"), ("other", "plain")):
            body = json.dumps({"model": model, "text": "y" * 300_000}).encode()
            with http2_client.Client(gateway.address) as client:
                answer = client.request("POST", "/v1/x", (), body)
            self.assertEqual(answer.status, 200, answer)
            answer = json.loads(bytes(answer.body))
            self.assertEqual((answer["name"], answer["length"]), (name, len(body)))
            self.assertEqual(answer["sha256"], hashlib.sha256(body).hexdigest())

    def test_a_compressed_body_is_not_looked_into(self):
        body = gzip.compress(b'{"model":"qwen"}')
        self.assertEqual(self.served(self.gateway, body, ("Content-Encoding", "gzip")), "plain")
        refused = self.post(self.start(self.with_models(plain=False)), body, ("Content-Encoding", "gzip"), status=400)
        self.assertIn("compressed", refused)

    def test_explain(self):
        text = self.cli(self.gateway, "explain", "/v1/x")
        self.assertIn("chosen by `model` of the body, which --data says here", text)
        text = self.cli(self.gateway, "explain", "/v1/x", "--data", '{"model": "qwen"}')
        self.assertIn("/v1{model=qwen}", text)
        self.assertIn("service   qwen", text)


class Refused(JsonRoutes):
    def test_what_no_route_takes(self):
        gateway = self.start(self.with_models(plain=False))
        for body, status, why in (
            ({"model": "other"}, 404, "no route takes what is there"),
            ({"x": 1}, 404, "no route takes what is there"),
            (b"nope", 400, "no JSON object"),
            (b'{"x": [1', 400, "no whole JSON object"),
            ({"text": "x" * 100_000}, 400, "limits.json_look_ahead"),
        ):
            text = self.post(gateway, body, status=status)
            self.assertIn(why, text)
            self.assertIn("`model`", text)
        answer = gateway.get("/v1/models")
        self.assert_status(answer, 400)
        self.assertIn("there is no body", answer.body.decode())

    def test_a_body_that_does_not_come_is_given_up(self):
        gateway = self.start(self.with_models("[limits]\nbody_timeout = \"1s\"\n"))
        with socket.create_connection(gateway.address, 20) as connection:
            connection.sendall(b"POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 408 "))

    def test_limits_and_counts_are_those_of_the_route(self):
        gateway = self.start(self.with_models(route("/v2", service="qwen", json={"model": "qwen"}, body_size="1KiB")))
        large = {"model": "qwen", "t": "x" * 2000}
        self.assertIn("the route's body_size", self.post(gateway, large, path="/v2", status=413))
        self.served(gateway, {"model": "qwen"}, path="/v2")
        self.counted(gateway, 2)
        text = self.ask(gateway, "GET", "/metrics").read().decode()
        self.assertIn('pilotlight_requests_total{route="/v2{model=qwen}",service="qwen",code="2xx"', text)


class Access(JsonRoutes):
    """No body is looked into for a client that none of the routes lets in."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        users = Path(folder.name) / "users.htpasswd"
        htpasswd(users, "ann", "secret", "-c")
        cls.staff = {"basic": str(users)}

    def protect(self, *rules, **settings):
        """Routes of the services in their order, each with rules of its own; the last one has no field."""
        services = [service(name, ECHO, env={"NAME": name}) for name in NAMES]
        fields = [{"json": {"model": name}} for name in NAMES[: len(rules) - 1]] + [{}]
        routes = [route("/v1", NAMES[at], **fields[at], **rules[at]) for at in range(len(rules))]
        blocks = [*services, *routes, ADMIN, '[limits]\nbody_timeout = "10m"\n']
        return self.start(Gateway(BINARY, config(*blocks, dev=True, **settings)))

    def begun(self, gateway, *fields):
        """The answer to a request of which the head and a piece of the body came."""
        with socket.create_connection(gateway.address, 20) as connection:
            head = ["POST /v1/x HTTP/1.1", "Host: a", "Content-Length: 3000000", *map(": ".join, fields), "\r\n"]
            connection.sendall("\r\n".join(head).encode() + b'{"messages": [')
            return connection.recv(65536).decode()

    def test_a_wrong_password_is_answered_without_the_body(self):
        gateway = self.protect({"allow": self.staff}, {"allow": self.staff}, {"allow": self.staff})
        for fields in ((), basic("ann", "wrong"), [*basic("eve", "secret"), ("Expect", "100-continue")]):
            answer = self.begun(gateway, *fields)
            self.assertTrue(answer.startswith("HTTP/1.1 401 "), answer)
            self.assertIn('Basic realm="restricted"', answer)
        with http2_client.Client(gateway.address) as client:
            fields = [(name.lower(), value) for name, value in basic("ann", "wrong")]
            stream = client.begin("POST", "/v1/x", fields, end=False)
            client.send(stream, b'{"messages": [')
            self.assertEqual(client.answer(stream).status, 401)
        for model, name in (("llama", "llama"), ("qwen", "qwen"), ("other", "plain")):
            body = {"text": "x" * 300, "model": model}
            self.assertEqual(self.served(gateway, body, *basic("ann", "secret")), name)
        self.assertIn("401", self.post(gateway, {"model": "qwen"}, status=401))

    def test_where_one_route_is_open_the_body_decides(self):
        gateway = self.protect({"allow": self.staff}, {})
        self.assertEqual(self.served(gateway, {"model": "other"}), "qwen")
        self.assertEqual(self.served(gateway, {"model": "llama"}, *basic("ann", "secret")), "llama")
        self.post(gateway, {"model": "llama"}, *basic("ann", "wrong"), status=401)
        self.assertEqual(self.served(gateway, {"model": "other"}, *basic("ann", "wrong")), "qwen")

    def test_networks(self):
        gateway = self.protect({"allow": {"networks": ["192.0.2.0/24"]}}, {"deny": {"networks": ["127.0.0.0/8"]}})
        self.assertTrue(self.begun(gateway).startswith("HTTP/1.1 403 "))

    def test_a_request_is_counted_on_its_own_route(self):
        rules = {"allow": self.staff}
        gateway = self.protect(rules | {"limit": {"rate": "2/d"}}, rules | {"limit": {"rate": "3/d"}})
        ann = basic("ann", "secret")
        for _ in range(3):
            self.assertEqual(self.served(gateway, {"model": "other"}, *ann), "qwen")
        for _ in range(2):
            self.assertEqual(self.served(gateway, {"model": "llama"}, *ann), "llama")
        for model in ("llama", "other"):
            self.post(gateway, {"model": model}, *ann, status=429)
        self.assertTrue(self.begun(gateway, *ann).startswith("HTTP/1.1 429 "), "no body is read for nothing")

    def test_guesses_are_counted(self):
        limit = {"rate": "2/d", "by": "client"}
        gateway = self.protect(*[{"allow": self.staff, "limit": limit}] * 2)
        statuses = [self.begun(gateway, *basic("ann", f"guess {at}"))[9:12] for at in range(6)]
        # Two on each of two routes.
        self.assertEqual(statuses, ["401"] * 4 + ["429"] * 2)
        self.post(gateway, {"model": "llama"}, *basic("ann", "secret"), status=429)

    def test_an_auth_server_is_asked_once(self):
        decider = Decider()
        self.addCleanup(decider.server_close)
        self.addCleanup(decider.shutdown)
        url = "http://127.0.0.1:%d/auth" % decider.server_address[1]
        forward = {"allow": {"forward": {"url": url, "fields": ["X-User"]}}}
        gateway = self.protect(forward, forward | {"limit": {"rate": "2/d"}}, {"allow": self.staff})
        self.assertTrue(self.begun(gateway, ("Authorization", "eve")).startswith("HTTP/1.1 403 "))
        self.assertEqual(len(decider.asked), 1)
        answer = self.post(gateway, {"model": "llama"}, ("Authorization", "ann"), ("X-User", "eve"))
        self.assertEqual((answer["name"], answer["user"], len(decider.asked)), ("llama", "ann", 2))
        self.post(gateway, {"model": "qwen"}, ("Authorization", "bob"))
        # Another route than the one that asked has the request as it came.
        self.post(gateway, {"model": "other"}, ("Authorization", "ann"), status=401)
        for _ in range(2):
            answer = self.post(gateway, {"model": "other"}, *basic("ann", "secret"), ("X-User", "eve"))
            self.assertEqual((answer["name"], answer["user"]), ("plain", "eve"))


if __name__ == "__main__":
    unittest.main()
