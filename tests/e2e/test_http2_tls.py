"""HTTP/2 over TLS: a client chooses it by ALPN (issue 17, parts 1 and 4)."""

import json
import os
import unittest

import grpc
import http2_client as http2
from grpc_service import Server
from h2c_service import Server as H2cServer
from harness import route, service, setUpModule
from test_tls import WEB, Tls

__all__ = ["setUpModule"]


class OverTls(Tls):
    def client(self, gateway):
        context = self.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        secure = self.socket(gateway, context)
        self.assertEqual(secure.selected_alpn_protocol(), "h2")
        return http2.Client(secure)

    def test_requests(self):
        gateway = self.begin(*WEB, route("/cached", "web", cache=True, https="allow"))
        client = self.client(gateway)
        told = json.loads(client.request("GET", "/show").body)
        fields = {name.lower(): value for name, value in told["fields"]}
        self.assertEqual((fields["x-forwarded-proto"], fields["via"]), ("https", "2.0 pilotlight"))
        data = os.urandom(2_000_000)
        stream = client.begin("POST", "/talk", end=False)
        client.send(stream, data, end=True)
        self.assertEqual(client.answer(stream).body, data)
        target = "/cached/make?h=cache-control:max-age=60"
        self.assertEqual({client.request("GET", target).body for _ in range(5)}, {b"serial 1 for nobody  0"})
        # The scheme is a part of the key.
        self.assertEqual(gateway.get(target).body, b"serial 2 for nobody  0")

    def test_many_streams(self):
        client = self.client(self.begin(*WEB))
        streams = [client.begin("GET", f"/show?n={number}") for number in range(90)]
        for number, stream in enumerate(streams):
            self.assertEqual(json.loads(client.answer(stream).body)["target"], f"/show?n={number}")

    def test_curl_chooses_it(self):
        gateway = self.begin(*WEB)
        for arguments, version in ((["--http2"], "2"), (["--http1.1"], "1.1")):
            told = self.curl(gateway, *arguments, "-o", os.devnull, "-w", "%{http_version} %{http_code}")
            self.assertEqual(told, f"{version} 200")

    def test_nobody_writes_who_he_is(self):
        client = self.client(self.begin(*WEB))
        forged = [("client-cert", ":Zm9yZ2Vk:"), ("client_cert", "1"), ("client-cert-chain", "2")]
        stream = client.begin("POST", "/show", forged, end=False)
        client.send(stream, b"x")
        client.h2.send_headers(stream, [*forged, ("x_forwarded_for", "3"), ("ok", "4")], end_stream=True)
        client.flush()
        told = json.loads(client.answer(stream).body)
        self.assertEqual([name for name, _ in told["fields"] if "cert" in name.lower()], [])
        self.assertEqual(told["trailers"], ["ok: 4"])

    def test_a_connection_that_breaks_within_a_stream(self):
        gateway = self.begin(*WEB)
        client = self.client(gateway)
        stream = client.begin("GET", "/wait")
        self.assertTrue(client.until(lambda: client.answers[stream].body))
        client.socket.close()
        gone = lambda: gateway.get("/gone").body == b"1"  # noqa: E731
        self.assert_eventually(gone, "the service was not told that its client has gone")

    def test_grpc(self):
        with Server() as server:
            gateway = self.begin(service("calls", url=f"h2c://127.0.0.1:{server.port}"), route("/", "calls"))
            roots = grpc.ssl_channel_credentials(self.authority.certificate.read_bytes())
            options = [("grpc.ssl_target_name_override", "demo.test")]
            with grpc.secure_channel("{}:{}".format(*self.address(gateway)), roots, options) as channel:
                talk = channel.stream_stream("/t.Test/Talk")
                self.assertEqual(list(talk(iter([b"a", b"b" * 100_000]), timeout=20)), [b"a", b"b" * 100_000])

    def test_what_a_service_over_http2_is_told(self):
        """RFC 9113 §8.3.1: the scheme of the connection to it, as Kestrel insists, and the host that it is to see."""
        with H2cServer() as server:
            rule = {"set": {"Host": "app.internal"}}
            routes = route("/", "web"), route("/rule", "web", request_fields=rule)
            gateway = self.begin(service("web", url=server.url), *routes)
            client = self.client(gateway)
            for target, host in (("/", "demo.test"), ("/rule", "app.internal")):
                self.assertEqual(client.request("GET", target).status, 200)
                seen = server.seen[-1]
                self.assertEqual((seen[":scheme"], seen[":authority"], seen.get("host")), ("http", host, None))
                self.assertIn('host="demo.test";proto=https', seen["forwarded"])
                self.assertEqual((seen["x-forwarded-proto"], seen["x-forwarded-host"]), ("https", "demo.test"))


if __name__ == "__main__":
    unittest.main()
