"""Servers of somebody else's with TLS: nginx, by both versions of HTTP; whom the gateway trusts, and what it says of
those that it does not."""

import base64
import hashlib
import json
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from certificates import Authority
from harness import BINARY, Gateway, TestCase, config, route, service, setUpModule
from http1 import eventually
from nginx_server import Nginx
from programs import program
from test_operate import ADMIN

__all__ = ["setUpModule"]

class TlsCase(TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.authority = Authority(self.folder)

    def nginx(self, *names, listen="ssl http2", more="", **issue):
        certificate, key = self.authority.issue(*(names or ("localhost", "127.0.0.1")), **issue)
        return Nginx(self, listen, certificate, key, more)

    def gateway(self, *servers, host="127.0.0.1", tls=None, **settings):
        urls = [f"https://{host}:{one.port}" for one in servers]
        tls = {"ca": str(self.authority.certificate)} | (tls or {})
        text = service(url=urls if len(urls) > 1 else urls[0], tls=tls, **settings)
        return self.start(Gateway(BINARY, config(text, route(), ADMIN)))

    def told(self, gateway, target="/"):
        answer = gateway.get(target)
        self.assertEqual(answer.status, 200, answer)
        return answer.body.decode().split("|")[0].split(" ")

    def refused(self, gateway):
        return self.assert_problem(gateway.get("/"), 502)["detail"]


class Speaking(TlsCase):
    def test_http2_if_the_server_has_it(self):
        gateway = self.gateway(self.nginx())
        for _ in range(5):
            self.assertEqual(self.told(gateway)[0], "HTTP/2.0")

    def test_http1_if_it_has_not_and_if_it_is_to_be(self):
        for gateway in (self.gateway(self.nginx(listen="ssl")), self.gateway(self.nginx(), transport="http")):
            for _ in range(5):
                self.assertEqual(self.told(gateway)[0], "HTTP/1.1")

    def test_bodies_both_ways(self):
        for listen in ("ssl http2", "ssl"):
            server = self.nginx(listen=listen)
            gateway = self.gateway(server)
            self.assertEqual(gateway.get("/large").body, (server.folder / "large").read_bytes())
            body = bytes(range(251)) * 20_000
            self.assertEqual(gateway.request("PUT", "/put", body=body).status, 201)
            self.assertEqual((server.folder / "put" / "put").read_bytes(), body)

    def test_several_that_speak_different_versions(self):
        gateway = self.gateway(self.nginx(), self.nginx(listen="ssl"))
        self.assertTrue(eventually(lambda: {self.told(gateway)[0] for _ in range(20)} == {"HTTP/2.0", "HTTP/1.1"}, 20))

    def test_a_server_that_is_replaced_by_one_of_another_version(self):
        first = self.nginx()
        gateway = self.gateway(first)
        self.assertEqual(self.told(gateway)[0], "HTTP/2.0")
        first.stop()
        first.start("ssl")
        self.assertTrue(eventually(lambda: gateway.get("/").status == 200, 20))
        self.assertEqual(self.told(gateway)[0], "HTTP/1.1")

    def test_sessions_are_resumed(self):
        server = self.nginx(listen="ssl", more="keepalive_timeout 0;")
        gateway = self.gateway(server)
        self.told(gateway)
        self.assertEqual({self.told(gateway)[2] for _ in range(5)}, {"r"})

    def test_health_requests_and_ejection_as_without_tls(self):
        gone, there = self.nginx(), self.nginx(listen="ssl")
        health = {"path": "/health", "interval": "100ms", "unhealthy": 1}
        gateway = self.gateway(gone, there, health=health)
        self.told(gateway)
        gone.stop()

        def states():
            command = [str(BINARY), "status", "--json", "--socket", str(gateway.folder / "admin.sock")]
            status = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
            return [one["state"] for one in status["services"][0]["servers"]]

        self.assertTrue(eventually(lambda: states() == ["unhealthy", "in"], 20), states())
        self.assertEqual({self.told(gateway)[0] for _ in range(10)}, {"HTTP/1.1"})


class Switching(TlsCase):
    def echo(self):
        """A server with TLS that switches to a protocol in which it says what it hears; and its port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue("127.0.0.1"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def talk():
            with context.wrap_socket(listener.accept()[0], server_side=True) as client:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += client.recv(4096)
                client.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
                )
                while data := client.recv(4096):
                    client.sendall(data)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 20)
        return listener.getsockname()[1]

    def test_a_websocket_goes_by_http1_though_the_server_has_http2(self):
        text = service(url=f"https://127.0.0.1:{self.echo()}", tls={"ca": str(self.authority.certificate)})
        gateway = self.start(Gateway(BINARY, config(text, route())))
        with socket.create_connection(gateway.address, 20) as client:
            client.sendall(
                b"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.assertIn(b" 101 ", head.split(b"\r\n")[0])
            payload = bytes(range(256)) * 4096
            sending = threading.Thread(target=client.sendall, args=(payload,))
            sending.start()
            back = b""
            while len(back) < len(payload):
                back += client.recv(65_536)
            sending.join()
            self.assertEqual(back, payload)


class Announcing(TlsCase):
    """`proxy_protocol`: the server is told whose a connection is."""

    def seen(self, gateway, **fields):
        answer = gateway.get("/", fields=list(fields.items()))
        self.assertEqual(answer.status, 200, answer)
        return answer.body.decode().split("|")[1].split(" ")

    def test_the_client_of_each_request(self):
        for version in ("v1", "v2"):
            server = Nginx(self, listen="proxy_protocol")
            text = service(url=f"http://127.0.0.1:{server.port}", proxy_protocol=version)
            gateway = self.start(Gateway(BINARY, config(text, route())))
            with gateway.client() as client:
                port = client._sock.getsockname()[1]
                found = []
                for _ in range(3):
                    client.send_head("GET", "/")
                    found.append(client.answer("GET").body.decode().split("|")[1].split(" "))
            self.assertEqual([one[:2] for one in found], [["127.0.0.1", str(port)]] * 3)
            self.assertEqual(len({one[2] for one in found}), 3, "a connection for each")

    def test_the_client_that_a_trusted_proxy_tells_of(self):
        server = Nginx(self, listen="proxy_protocol")
        text = service(url=f"http://127.0.0.1:{server.port}", proxy_protocol="v2")
        gateway = self.start(Gateway(BINARY, config(text, route(), trust_forwarded=["127.0.0.0/8"])))
        fields = {"x-forwarded-for": "2001:db8::7"}
        self.assertEqual(self.seen(gateway, **fields)[0], "2001:db8::7")

    def test_in_front_of_tls_and_of_health_requests(self):
        server = self.nginx(listen="ssl http2 proxy_protocol")
        health = {"path": "/", "interval": "100ms", "unhealthy": 1}
        gateway = self.gateway(server, proxy_protocol="v1", health=health)
        self.assertEqual(self.told(gateway)[0], "HTTP/1.1")
        command = [str(BINARY), "status", "--json", "--socket", str(gateway.folder / "admin.sock")]
        status = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        self.assertEqual(status["services"][0]["servers"][0]["state"], "in")


class Trusting(TlsCase):
    def test_the_name_that_is_asked_for(self):
        server = self.nginx("app.internal")
        gateway = self.gateway(server, tls={"server_name": "app.internal"})
        self.assertEqual(self.told(gateway)[1], "app.internal")
        other = self.gateway(server)
        self.assertIn("is not for 127.0.0.1, but for", self.refused(other))

    def test_an_authority_that_is_not_trusted(self):
        server = self.nginx()
        stranger = Authority(self.folder, "stranger")
        gateway = self.gateway(server, tls={"ca": str(stranger.certificate)})
        self.assertIn("of no authority that is trusted: name its authority in `tls.ca`", self.refused(gateway))

    def test_one_that_is_over(self):
        certificate, key = self.authority.issue_expired("localhost")
        gateway = self.gateway(Nginx(self, certificate=certificate, key=key))
        self.assertIn("its certificate has expired", self.refused(gateway))

    def test_a_server_without_tls(self):
        plain = Nginx(self, listen="")
        self.assertIn("it does not speak TLS there", self.refused(self.gateway(plain)))

    def test_a_certificate_of_the_gateways_own(self):
        more = f"ssl_client_certificate {self.authority.certificate}; ssl_verify_client on;"
        server = self.nginx(more=more)
        certificate, key = self.authority.issue("gateway.internal", usage="clientAuth")
        gateway = self.gateway(server, tls={"certificate": str(certificate), "key": str(key)})
        self.assertEqual(self.told(gateway)[3], "CN=gateway.internal")
        # nginx tells by HTTP that it wants one.
        self.assertEqual(self.gateway(server).get("/").status, 400)

    def test_pins(self):
        certificate, key = self.authority.issue("127.0.0.1")
        server = Nginx(self, certificate=certificate, key=key)
        command = [program("openssl"), "pkey", "-in", str(key), "-pubout", "-outform", "der"]
        public = subprocess.run(command, capture_output=True, check=True).stdout
        pin = "sha256/" + base64.b64encode(hashlib.sha256(public).digest()).decode()
        other = "sha256/" + base64.b64encode(bytes(32)).decode()
        self.assertEqual(self.told(self.gateway(server, tls={"pins": [other, pin]}))[0], "HTTP/2.0")
        refused = self.refused(self.gateway(server, tls={"pins": [other]}))
        self.assertIn(f"its key is none of `tls.pins`: {pin}", refused)

    def test_files_that_cannot_be_used_are_found_before_the_start(self):
        broken = self.folder / "broken.pem"
        broken.write_text("nothing")
        text = service(url="https://127.0.0.1", tls={"ca": str(broken)})
        file = self.folder / "pilotlight.toml"
        file.write_text(config(text, route()))
        done = subprocess.run([str(BINARY), "check", "--config", str(file)], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("broken.pem: there is no certificate in it", done.stderr)

    def test_a_reload_reads_the_files_again(self):
        server = self.nginx()
        ca = self.folder / "used.pem"
        ca.write_bytes(Authority(self.folder, "stranger").certificate.read_bytes())
        gateway = self.gateway(server, tls={"ca": str(ca)})
        self.refused(gateway)
        ca.write_bytes(self.authority.certificate.read_bytes())
        command = [str(BINARY), "reload", "--socket", str(gateway.folder / "admin.sock")]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        self.assertEqual(self.told(gateway)[0], "HTTP/2.0")


if __name__ == "__main__":
    unittest.main()
