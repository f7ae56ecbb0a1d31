"""The defects of the gateway's ancestor (shared research, part 0.5), each as a test that it would fail.

Its report generator that could not finish (6) is the lab's to test; unused code (8) is the compiler's.
"""

import json
import time
import unittest

from harness import (
    BINARY, IS_LONG, ORIGIN, Gateway, TestCase, config, demo_gateway, descendants, limits, route, service, setUpModule,
)  # fmt: skip

__all__ = ["setUpModule"]


class Defects(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(demo_gateway())

    def test_1_http_mode_works(self):
        """Its HTTP client was dead code: every request to an HTTP service was 502."""
        for socket in ("unix", "tcp", "port"):
            with self.subTest(socket=socket):
                blocks = service("web", ORIGIN, transport="http", socket=socket), route(service="web")
                with Gateway(BINARY, config(*blocks)) as gateway:
                    told = self.assert_json(gateway.get("/show?a=1"))
                    self.assertEqual(told["target"], "/show?a=1")

    def test_2_no_hang_without_half_close(self):
        """Its services waited for the end of the stream that never came."""
        with self.gateway.client(timeout=10) as client:
            self.assertEqual(client.request("POST", "/echo", body=b"body").body, b"body")
            client.send_head("POST", "/echo", [("Transfer-Encoding", "chunked")])
            client.send_chunk(b"in chunks")
            client.end_chunks()
            self.assertEqual(client.answer("POST").body, b"in chunks")

    def test_3_stdout_never_blocks_a_pipe_service(self):
        """Its services stood still after 64 KiB of output."""
        self.assert_status(self.gateway.get("/flood?bytes=20000000", timeout=60), 200)

    def test_3_stdout_never_blocks_an_http_service(self):
        gateway = self.start(Gateway(BINARY, config(service("web", ORIGIN, transport="http"), route(service="web"))))
        self.assert_status(gateway.get("/print?bytes=20000000", timeout=60), 200)

    def test_3_a_gigabyte_on_stdout(self):
        """The issue's own measure: 1 GB does not block the service, nor grow the gateway.

        The short form sends twice the memory that the gateway may have.
        """
        sent = 1_000_000_000 if IS_LONG else 120_000_000
        gateway = self.start(demo_gateway(limits(response_timeout="300s")))  # its answer comes after the last byte
        self.assert_status(gateway.get("/status?code=200"), 200)
        self.assert_status(gateway.get(f"/flood?bytes={sent}", timeout=300), 200)
        kib = [line for line in open(f"/proc/{gateway.process.pid}/status") if line.startswith("VmHWM")]
        self.assertLess(int(kib[0].split()[1]), 60 * 1024, "the gateway's peak memory, KiB")

    def test_4_header_names_are_intact(self):
        """It sent a field named ContentType."""
        answer = self.gateway.request("POST", "/echo", [("Content-Type", "text/x-name")], b"x")
        names = [name.lower() for name, _ in answer.fields]
        self.assertIn("content-type", names)
        self.assertNotIn("contenttype", names)
        self.assertEqual(answer.get("content-type"), "text/x-name")

    def test_5_query_string_is_kept(self):
        for target in ("/echo?a=1&b=2", "/echo?", "/echo?q=%20%2F&q=+", "/echo/%2e%41?x", "/echo?=&&==?"):
            self.assertEqual(self.gateway.get(target).get("x-target"), target)

    def test_5_a_prefix_ends_at_a_segment(self):
        """Its /api/* also took /apifoo."""
        gateway = self.start(Gateway(BINARY, config(service(), route("/echo"))))
        for target in ("/echo", "/echo/", "/echo/x", "/echo?x=1"):
            self.assert_status(gateway.get(target), 200)
        for target in ("/echofoo", "/ech", "/"):
            self.assert_problem(gateway.get(target), 404)

    def test_5_second_set_cookie_is_kept(self):
        self.assertEqual(len(self.gateway.get("/cookies").all("set-cookie")), 2)

    def test_7_a_cold_start_is_cold(self):
        """It started every service at boot, and slept 2 s."""
        services = service(), service("web", ORIGIN, transport="http")
        gateway = self.start(Gateway(BINARY, config(*services, route(), route("/web", "web"))))

        def running():
            lines = descendants(gateway.process.pid).values()
            return sorted(line for line in lines if "demo.py" in line or "origin.py" in line)

        self.assertEqual(running(), [], "services run before anybody has asked")
        begin = time.monotonic()
        self.assert_status(gateway.get("/status?code=200"), 200)
        self.assertLess(time.monotonic() - begin, 1.9, "seconds for the first request")
        self.assertEqual(len(running()), 1, "the request of one service starts that one")

    def test_missing_configuration_is_an_error(self):
        """It logged the missing file and ended with status 0."""
        import subprocess

        done = subprocess.run([BINARY, "--config", "/nowhere/pilotlight.toml"], capture_output=True, timeout=20, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("/nowhere/pilotlight.toml", done.stderr)
        self.assertIn("pilotlight init", done.stderr)

    def test_every_method_is_passed_on(self):
        """It knew seven methods, everything else was 400; it kept one value of each field."""
        for method in ("PROPFIND", "QUERY", "X-OWN"):
            answer = self.gateway.request(method, "/echo", [("X-Echo-Utf8", "caf\xc3\xa9")])
            self.assertEqual(answer.get("x-method"), method)
            self.assertEqual(answer.get("x-echo-utf8"), "caf\xc3\xa9", "bytes that are not ASCII")

    def test_bodies_are_not_collected(self):
        """It held every body in memory. Here the first bytes come while the client still sends."""
        with self.gateway.client() as client:
            client.send_head("GET", "/slow?chunks=3&ms=300")
            pieces = client.body(client.head())
            begin = time.monotonic()
            self.assertEqual(next(pieces), b"chunk 0\n")
            self.assertEqual(b"".join(pieces), b"chunk 1\nchunk 2\n")
            self.assertGreater(time.monotonic() - begin, 0.4)

    def test_json_is_not_the_protocol(self):
        """Its bodies were base64 inside JSON: any byte must pass both ways."""
        body = bytes(range(256)) * 8 + json.dumps({"body": "}"}).encode()
        self.assertEqual(self.gateway.request("POST", "/echo", body=body).body, body)


if __name__ == "__main__":
    unittest.main()
