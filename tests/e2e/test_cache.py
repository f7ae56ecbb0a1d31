"""Answers from memory by the rules of a shared cache (issue 2, part 5; RFC 9111, RFC 9211)."""

import threading
import time
import unittest
from urllib.parse import quote as escape

from harness import BINARY, Gateway, TestCase, config, demo_gateway, eventually, in_threads, route, rss_kib, service, setUpModule
from origin import Origin

__all__ = ["setUpModule"]


def make(*fields, path="/make", **arguments):
    """A target of origin.py whose answer has these fields."""
    parts = [f"h={escape(field)}" for field in fields] + [f"{name}={value}" for name, value in arguments.items()]
    return f"{path}?{'&'.join(parts)}"


class CacheCase(TestCase):
    """A gateway with a cache and an origin, both shared: `self.make` gives targets that only one test requests."""

    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        cls.gateway = cls.share(cls.gateway_to(cls.origin))

    @staticmethod
    def gateway_to(origin):
        blocks = [service("web", url=origin.url), route(service="web", cache=True),
                  route("/short", "web", cache="2s"), route("/never", "web", cache=False)]  # fmt: skip
        return Gateway(BINARY, config(*blocks))

    def setUp(self):
        super().setUp()
        self.origin.gate.clear()
        self.addCleanup(self.origin.gate.set)

    def make(self, *fields, **arguments):
        """A target of origin.py that no other test requests, and whose answer has these fields."""
        return make(*fields, **arguments, test=self._testMethodName)

    def count(self, target):
        """Number of requests of `target` that the origin has received."""
        return len(self.origin.requests(target))

    def serial(self, target, fields=(), method="GET"):
        """Which making of the answer this is, 1 for the first."""
        answer = self.gateway.request(method, target, fields)
        self.assert_status(answer, 200)
        return int(answer.body.split()[1])

    def assert_stored(self, target, fields=()):
        self.assertEqual([self.serial(target, fields) for _ in range(3)], [1, 1, 1], target)

    def assert_not_stored(self, target, fields=()):
        self.assertEqual([self.serial(target, fields) for _ in range(3)], [1, 2, 3], target)

    def status(self, answer):
        values = answer.all("cache-status")
        self.assertEqual(len(values), 1, f"every answer says what the cache did: {answer}")
        return values[0]


class Storing(CacheCase):
    def test_explicit_freshness_is_stored(self):
        for fields in (["Cache-Control: max-age=60"], ["Cache-Control: s-maxage=60, max-age=0"],
                       ["Cache-Control: public, max-age=60"], ["Expires: Fri, 01 Jan 2100 00:00:00 GMT"]):  # fmt: skip
            with self.subTest(fields=fields):
                self.assert_stored(self.make(*fields, n=escape(fields[0])))

    def test_what_must_not_be_stored_is_not(self):
        long = "Cache-Control: max-age=60"
        cases = {
            "no-store": ["Cache-Control: no-store, max-age=60"],
            "private": ["Cache-Control: private, max-age=60"],
            "private field": ['Cache-Control: private="x-a", max-age=60'],
            "set-cookie": [long, "Set-Cookie: session=1"],
            "vary star": [long, "Vary: *"],
            "vary cookie": [long, "Vary: Cookie"],
            "nothing said": [],
            "stale from birth": ["Cache-Control: max-age=0"],
            "bad expires": ["Expires: 0"],
        }
        for name, fields in cases.items():
            with self.subTest(name):
                self.assert_not_stored(self.make(*fields, n=escape(name)))

    def test_request_no_store_is_obeyed(self):
        self.assert_not_stored(self.make("Cache-Control: max-age=60"), [("Cache-Control", "no-store")])

    def test_routes_default_lifetime(self):
        """`cache = "2s"` is the lifetime of answers that give none; an answer's own words win."""
        target = self.make(path="/short/make")
        self.assertEqual([self.serial(target), self.serial(target)], [1, 1])
        self.assertTrue(eventually(lambda: self.serial(target) == 2, 6), "still served 6 s later, the lifetime is 2 s")
        self.assert_not_stored(self.make("Cache-Control: no-store", path="/short/make"))

    def test_route_without_cache(self):
        self.assert_not_stored(self.make("Cache-Control: max-age=60", path="/never/make"))

    def test_query_is_part_of_the_key(self):
        targets = [self.make("Cache-Control: max-age=60", a=number) for number in (1, 2)]
        self.assertEqual([self.serial(target) for target in targets], [1, 1])
        self.assertEqual([self.count(target) for target in targets], [1, 1])

    def test_host_is_part_of_the_key(self):
        target = self.make("Cache-Control: max-age=60")
        first = self.gateway.get(target, host="one.test")
        second = self.gateway.get(target, host="two.test")
        self.assertNotEqual(first.body, second.body)

    def test_errors_without_freshness_are_not_stored(self):
        for code in (500, 502, 404, 403):
            target = self.make(status=code)
            answers = [self.gateway.get(target).body for _ in range(2)]
            self.assertNotEqual(*answers, code)

    def test_incomplete_answer_is_not_stored(self):
        """A body shorter than its Content-Length is passed on cut and never stored."""
        target = self.make("Cache-Control: max-age=60", path="/stream", chunks=2)
        self.assertEqual(self.gateway.get(target).body, b"chunk 0\nchunk 1\n")

    def test_post_is_never_answered_from_memory(self):
        target = self.make("Cache-Control: max-age=60")
        self.assertEqual([self.serial(target, method="POST") for _ in range(3)], [1, 2, 3])


class Serving(CacheCase):
    def test_age_and_cache_status(self):
        target = self.make("Cache-Control: max-age=60")
        first = self.gateway.get(target)
        self.assertIn("fwd=", self.status(first))
        self.assertIsNone(first.get("age"))
        time.sleep(1.1)  # Age counts whole seconds
        second = self.gateway.get(target)
        self.assertRegex(self.status(second), r"^\S+; ?hit.*")
        self.assertIn(int(second.get("age")), (1, 2, 3))
        self.assertNotIn("fwd=", self.status(second))

    def test_cache_status_is_on_every_answer(self):
        answers = [
            self.gateway.get("/never/show"), self.gateway.get(self.make("Cache-Control: no-store")),
            self.gateway.request("POST", "/show", body=b"x"), self.gateway.get(self.make(status=500)),
        ]  # fmt: skip
        for answer in answers:
            self.status(answer)

    def test_upstream_age_counts(self):
        target = self.make("Cache-Control: max-age=60", "Age: 58")
        self.assertEqual(self.serial(target), 1)
        self.assertTrue(eventually(lambda: self.serial(target) == 2, 8), "58 s old when it came, fresh for 60 s")

    def test_client_directives(self):
        target = self.make("Cache-Control: max-age=60")
        self.serial(target)
        self.assertEqual(self.serial(target, [("Cache-Control", "no-cache")]), 2)
        answer = self.gateway.get(self.make(n="unknown"), [("Cache-Control", "only-if-cached")])
        self.assert_problem(answer, 504)
        self.assertEqual(self.serial(target, [("Cache-Control", "only-if-cached")]), 2)

    def test_304_to_the_client(self):
        target = self.make("Cache-Control: max-age=60", 'ETag: "one"')
        self.serial(target)
        for value in ('"one"', 'W/"one"', '"zero", "one"', "*"):
            answer = self.gateway.get(target, [("If-None-Match", value)])
            self.assertEqual((answer.status, answer.body, answer.get("etag")), (304, b"", '"one"'), value)
        self.assert_status(self.gateway.get(target, [("If-None-Match", '"two"')]), 200)
        self.assertEqual(self.count(target), 1)

    def test_if_modified_since(self):
        target = self.make("Cache-Control: max-age=60", "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT")
        self.serial(target)
        later = [("If-Modified-Since", "Sun, 01 Jan 2023 00:00:00 GMT")]
        self.assert_status(self.gateway.get(target, later), 304)
        # RFC 9110 §13.1.3: not evaluated beside If-None-Match
        self.assert_status(self.gateway.get(target, later + [("If-None-Match", '"x"')]), 200)

    def test_revalidation_with_the_service(self):
        target = self.make("Cache-Control: max-age=1", 'ETag: "v"', validate=1)
        self.assertEqual(self.serial(target), 1)
        time.sleep(2.1)  # past its freshness
        self.assertEqual(self.serial(target), 1, "a 304 of the service serves what is stored")
        self.assertEqual(self.count(target), 2)
        conditions = [
            dict((n.lower(), v) for n, v in fields).get("if-none-match")
            for _, path, fields in self.origin.seen if path == target
        ]  # fmt: skip
        self.assertEqual(conditions, [None, '"v"'])
        self.assertEqual(self.serial(target), 1)
        self.assertEqual(self.count(target), 2, "fresh again after the 304")

    def test_head(self):
        target = self.make("Cache-Control: max-age=60")
        stored = self.gateway.get(target)
        answer = self.gateway.request("HEAD", target)
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertEqual(answer.get("content-length"), stored.get("content-length"))
        self.assertEqual(self.count(target), 1, "HEAD is answered by a stored GET")

    def test_range_request_on_a_stored_answer_is_not_wrong(self):
        target = self.make("Cache-Control: max-age=60")
        whole = self.gateway.get(target).body
        answer = self.gateway.get(target, [("Range", "bytes=0-2")])
        self.assertIn(answer.status, (200, 206))
        if answer.status == 206:
            self.assertEqual(answer.body, whole[:3])


class Varying(CacheCase):
    def test_vary(self):
        target = self.make("Cache-Control: max-age=60", "Vary: Accept-Language")
        german, french = [("Accept-Language", "de")], [("Accept-Language", "fr")]
        self.assertEqual(self.serial(target, german), 1)
        self.assertEqual(self.serial(target, french), 2)
        self.assertEqual(self.serial(target, german), 1)
        self.assertEqual(self.serial(target, french), 2)
        self.assertEqual(self.serial(target), 3)

    def test_vary_on_two_fields(self):
        target = self.make("Cache-Control: max-age=60", "Vary: X-A, X-B")
        self.assertEqual(self.serial(target, [("X-A", "1"), ("X-B", "1")]), 1)
        self.assertEqual(self.serial(target, [("X-A", "1"), ("X-B", "2")]), 2)
        self.assertEqual(self.serial(target, [("X-B", "1"), ("X-A", "1")]), 1)


class Users(CacheCase):
    """Two users never see each other's answers."""

    def bodies(self, target, name):
        users = [f"Bearer {user}" if name == "Authorization" else f"session={user}" for user in ("ann", "bob")]
        seen = {user: [self.gateway.get(target, [(name, user)]).body.decode() for _ in range(3)] for user in users}
        for user, bodies in seen.items():
            for body in bodies:
                self.assertIn(user, body, f"{user} was served {body!r}")

    def test_authorization(self):
        self.bodies(self.make("Cache-Control: max-age=60"), "Authorization")

    def test_authorization_with_private(self):
        self.bodies(self.make("Cache-Control: private, max-age=60"), "Authorization")

    def test_cookie_with_set_cookie(self):
        self.bodies(self.make("Cache-Control: max-age=60", "Set-Cookie: session=new"), "Cookie")

    def test_cookie_with_vary(self):
        self.bodies(self.make("Cache-Control: max-age=60", "Vary: Cookie"), "Cookie")

    def test_default_lifetime_is_not_for_authorization(self):
        self.bodies(self.make(path="/short/make"), "Authorization")

    def test_public_may_be_shared(self):
        """RFC 9111 §3.5: the service says so."""
        target = self.make("Cache-Control: public, max-age=60")
        self.assertEqual(self.serial(target, [("Authorization", "Bearer ann")]), 1)
        self.assertEqual(self.serial(target, [("Authorization", "Bearer bob")]), 1)

    def test_in_parallel(self):
        """Collapsing never gives one user's answer to another."""
        target = self.make("Cache-Control: private, max-age=60", ms=50)

        def one(index):
            user = f"Bearer user{index}"
            for _ in range(3):
                body = self.gateway.get(target, [("Authorization", user)]).body.decode()
                self.assertIn(f"for {user} ", body)

        in_threads(20, one)


class Invalidation(CacheCase):
    def test_unsafe_methods_invalidate(self):
        for number, method in enumerate(("POST", "PUT", "DELETE", "PATCH")):
            target = self.make("Cache-Control: max-age=60", n=number)
            self.assertEqual([self.serial(target), self.serial(target)], [1, 1])
            self.assertEqual(self.serial(target, method=method), 2)
            self.assertEqual(self.serial(target), 3, f"{method} left what was stored")

    def test_location_is_invalidated(self):
        target = self.make("Cache-Control: max-age=60", n="located")
        self.serial(target)
        self.gateway.request("POST", self.make(f"Location: {target}", n="poster"))
        self.assertEqual(self.serial(target), 2)

    def test_a_failed_post_invalidates_nothing(self):
        target = self.make("Cache-Control: max-age=60", n="kept")
        self.serial(target)
        self.gateway.request("POST", self.make(f"Location: {target}", n="failed", status=500))
        self.assertEqual(self.serial(target), 1)


class Collapse(CacheCase):
    def test_fifty_concurrent_misses_are_one_request(self):
        target = self.make("Cache-Control: max-age=60", ms=400)
        serials = in_threads(50, lambda _: self.serial(target))
        self.assertEqual(serials, [1] * 50)
        self.assertEqual(self.count(target), 1)

    def test_uncacheable_answers_do_not_queue(self):
        """Followers of a leader whose answer cannot be shared go on in parallel, not one by one."""
        target = self.make("Cache-Control: no-store", ms=300, hold_after=1)
        serials = []
        asking = threading.Thread(target=lambda: serials.extend(in_threads(20, lambda _: self.serial(target))))
        asking.start()
        try:
            # After the first answer none comes, so all others are under way at once.
            everyone = lambda: self.count(target) == 20  # noqa: E731
            self.assert_eventually(everyone, "each of the 20 is asked for while none of the others is answered")
        finally:
            self.origin.gate.set()
            asking.join()
        self.assertEqual(sorted(serials), list(range(1, 21)))

    def test_a_leader_that_goes_away_leaves_its_followers_served(self):
        target = self.make("Cache-Control: max-age=60", ms=600)
        leader = self.gateway.client()
        leader.send_head("GET", target)
        self.assertTrue(eventually(lambda: self.count(target)))
        results = []
        follower = threading.Thread(target=lambda: results.append(self.serial(target)))
        follower.start()
        leader.close()
        follower.join(15)
        self.assertEqual(len(results), 1, "the follower of a leader that went away was not answered")

    def test_over_the_pipe(self):
        """The cache stands before every kind of service: 30 requests of the demo's /pid route with a lifetime, one exchange."""
        gateway = self.start(demo_gateway(route("/echo", cache="60s")))
        ids = in_threads(30, lambda _: gateway.get("/echo?same").get("cache-status"))
        self.assertEqual(len([value for value in ids if "fwd=" in value and "collapsed" not in value]), 1, ids)


class Bound(TestCase):
    def test_memory_is_bounded(self):
        """A flood of distinct targets does not grow the gateway beyond `cache.memory` by much."""
        cache = '[cache]\nmemory = "1MiB"\nmax_object = "64KiB"\n'
        origin = self.enterContext(Origin())
        blocks = service("web", url=origin.url), route(service="web", cache=True), cache
        gateway = self.start(Gateway(BINARY, config(*blocks)))

        def flood(first):
            with gateway.client() as client:
                for number in range(first, first + 130):
                    field = "x-pad:" + "y" * 12_000
                    client.request("GET", make("Cache-Control: max-age=600", field, n=number))

        flood(0)
        before = rss_kib(gateway)
        for turn in range(1, 5):
            flood(turn * 1000)
        self.assertLess(rss_kib(gateway) - before, 8 * 1024, "KiB more after 6 MB of distinct answers into a cache of 1 MiB")


if __name__ == "__main__":
    unittest.main()
