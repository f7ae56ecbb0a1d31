"""Routes by what the head of a request says besides host and path, and routes that answer with an error."""

import json
import unittest

import http2_client as http2
from harness import BINARY, Gateway, TestCase, setUpModule
from origin import Origin
from http1 import Client
from ports import free_port

__all__ = ["setUpModule"]

FILE = """
listen = ["127.0.0.1:{one}", "127.0.0.1:{other}"]
workers = 1
[services.plain]
url = "{plain}"
[services.chosen]
url = "{chosen}"
[[routes]]
path = "/"
service = "plain"
[[routes]]
path = "/"
service = "chosen"
when = {{ headers = {{ version = "two" }} }}
[[routes]]
path = "/"
service = "chosen"
when = {{ query = {{ animal = "blue whale" }} }}
[[routes]]
path = "/post"
service = "chosen"
when = {{ methods = ["POST", "PUT"] }}
[[routes]]
path = "/port"
service = "chosen"
when = {{ ports = [{other}] }}
[[routes]]
path = "/gone"
respond = 404
[[routes]]
path = "/gone/but"
service = "chosen"
when = {{ headers = {{ version = "two" }} }}
[[routes]]
path = "/old"
redirect = {{ to = "/new{{below}}{{query}}", status = 302 }}
"""


class When(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain, cls.chosen = cls.enterClassContext(Origin()), cls.enterClassContext(Origin())
        cls.one, cls.other = free_port(), free_port()
        text = FILE.format(one=cls.one, other=cls.other, plain=cls.plain.url, chosen=cls.chosen.url)
        cls.gateway = cls.share(Gateway(BINARY, text))

    def served(self, path, *fields, method="GET", port=None, **more):
        """Which of the two has answered."""
        before = len(self.plain.seen), len(self.chosen.seen)
        with Client(("127.0.0.1", port or self.one)) as client:
            answer = client.request(method, path, fields, **more)
        self.assert_status(answer, 200)
        after = len(self.plain.seen), len(self.chosen.seen)
        return {(1, 0): "plain", (0, 1): "chosen", (0, 0): "cache"}[tuple(b - a for a, b in zip(before, after))]

    def test_fields_parameters_and_methods(self):
        self.assertEqual(self.served("/show"), "plain")
        self.assertEqual(self.served("/show", ("Version", "two")), "chosen")
        self.assertEqual(self.served("/show", ("Version", "twofold")), "plain")
        self.assertEqual(self.served("/show", ("Version", "two"), ("Version", "three")), "plain")
        self.assertEqual(self.served("/show?animal=blue+whale"), "chosen")
        self.assertEqual(self.served("/show?animal=whale&animal=blue+whale"), "plain")
        self.assertEqual(self.served("/post/show"), "plain")
        self.assertEqual(self.served("/post/show", method="PUT"), "chosen")

    def test_ports_of_listeners(self):
        self.assertEqual(self.served("/port/show"), "plain")
        said = f"demo.test:{self.other}"
        self.assertEqual(self.served("/port/show", host=said), "plain", "what a client says counts for nothing")
        self.assertEqual(self.served("/port/show", port=self.other), "chosen")

    def test_routes_with_one_url_do_not_share_what_is_stored(self):
        path = "/make?h=Cache-Control:max-age=60&of=url"
        before = len(self.plain.seen), len(self.chosen.seen)
        for _ in range(2):
            self.gateway.request("GET", path)
            self.gateway.request("GET", path, [("Version", "two")])
        after = len(self.plain.seen), len(self.chosen.seen)
        self.assertEqual(after, (before[0] + 1, before[1] + 1))
        self.assertEqual(self.served(path), "cache")
        self.assertEqual(self.served(path, ("Version", "two")), "cache")

    def test_hits_are_of_the_route_that_the_head_chooses(self):
        path = "/make?h=Cache-Control:max-age=60&of=head"
        with Client(("127.0.0.1", self.chosen.port())) as client:
            client.request("GET", path)
            client.request("GET", f"/port{path}")
        address = ("127.0.0.1", self.other)
        for target, version, serial in ((path, None, 1), (path, "two", 2), (f"/port{path}", None, 2)):
            fields = [("version", version)] if version else []
            with self.subTest(target, version=version):
                with Client(address) as client:
                    answers = [client.request("GET", target, fields) for _ in range(3)]
                with http2.Client(address) as client:
                    answers += [client.request("GET", target, fields) for _ in range(2)]
                self.assertEqual({answer.body for answer in answers}, {b"serial %d for nobody  0" % serial})
                self.assertIn("hit", answers[-1].get("cache-status"))

    def test_an_error_of_the_route(self):
        answer = self.gateway.request("GET", "/gone/x")
        self.assert_status(answer, 404)
        self.assertEqual(json.loads(answer.body)["detail"], "the route of this request answers every request with 404")
        self.assertEqual(self.served("/gone/but/show", ("Version", "two")), "chosen")
        self.assert_status(self.gateway.request("GET", "/gone/but/show"), 404)

    def test_a_redirect_to_what_is_below(self):
        for path, location in (("/old/a/b?x=1", "/new/a/b?x=1"), ("/old", "/new"), ("/old/", "/new/")):
            answer = self.gateway.request("GET", path)
            self.assert_status(answer, 302)
            self.assertEqual(answer.get("location"), location)


if __name__ == "__main__":
    unittest.main()
