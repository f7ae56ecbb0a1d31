"""What a route says about the cache beyond the RFC: [routes.cache] (issue 6, part 7)."""

import json
import random
import subprocess
import unittest
from urllib.parse import quote as escape

from harness import BINARY, Gateway, TestCase, config, route, service, setUpModule
from origin import Origin

__all__ = ["setUpModule"]

ADMIN = '[admin]\nsocket = "admin.sock"\n'
LONG = "Cache-Control: max-age=60"


def make(*fields, path="/make", query="", **arguments):
    """A target of origin.py whose answer has these fields."""
    parts = [f"h={escape(field)}" for field in fields] + [f"{name}={value}" for name, value in arguments.items()]
    return f"{path}?{'&'.join(parts + ([query] if query else []))}"


class RuledCase(TestCase):
    """Every route has `url` as its service; RULES are path and cache."""

    RULES = {}

    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        routes = [route(path, "web", cache=cache) for path, cache in cls.RULES.items()]
        cls.gateway = cls.share(Gateway(BINARY, config(service("web", url=cls.origin.url), *routes, ADMIN)))

    def setUp(self):
        super().setUp()
        self.origin.forget()

    def make(self, *fields, **arguments):
        """A target that no other test requests. A field makes it so, as every rule here has `h` in its keys."""
        return make(*fields, f"X-Test: {self._testMethodName}", **arguments)

    def body(self, target, *fields, method="GET"):
        return self.gateway.request(method, target, list(fields)).body.decode()

    def cli(self, *arguments):
        """What a command of the running gateway printed."""
        command = [str(BINARY), *arguments, "--socket", str(self.gateway.folder / "admin.sock")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def asked(self):
        """How often the service was asked so far."""
        return len(self.origin.requests("/"))

    def assert_shared(self, *requests):
        """All requests (target, fields…) get the first one's answer."""
        bodies = [self.body(*request) for request in requests]
        self.assertEqual(len(set(bodies)), 1, list(zip(requests, bodies)))

    def assert_apart(self, *requests):
        """Each request is answered by the service itself, whatever was asked before."""
        for request in requests:
            before = self.asked()
            self.body(*request)
            self.assertEqual(self.asked(), before + 1, request)


class Query(RuledCase):
    RULES = {
        "/ignore": {"key": {"ignore_query": ["utm_*", "fbclid"], "sort_query": True}},
        "/only": {"key": {"only_query": ["page", "h"]}},
        "/all": True,
    }

    def test_ignored_parameters_share_an_answer(self):
        target = self.make(LONG, path="/ignore/make", query="id=1&b=2")
        self.assert_shared((target,), (f"{target}&utm_source=x",), (f"{target}&fbclid=1&utm_",),
                           (target.replace("id=1&b=2", "b=2&utm_x=1&id=1"),))  # fmt: skip
        self.assertEqual(self.asked(), 1)

    def test_the_service_sees_the_target_as_it_was_sent(self):
        target = self.make(LONG, path="/ignore/make", query="z=1&utm_source=x&a=1")
        self.body(target)
        self.assertEqual(self.origin.requests("/")[0], target)

    def test_a_hit_that_leaves_out_a_part_of_the_target_is_one_that_is_taken(self):
        target = self.make(LONG, path="/ignore/make", query="b=2")
        self.assert_shared((target,), (f"{target}&utm_x=1",))
        self.assert_status(self.gateway.get(f"{target}&utm_x=<"), 400)
        # What is behind it is no part of the target: it is not what another one has stored.
        fragment = target.replace("&b=2", "&utm_x=1#&b=2")
        self.assert_apart((fragment,))

    def test_what_counts_keeps_answers_apart(self):
        target = self.make(LONG, path="/ignore/make", query="id=1")
        self.assert_apart((target,), (target.replace("id=1", "id=2"),), (f"{target}&id=2",), (f"{target}&UTM_source=1",),
                          (f"{target}&x=1;utm_source=2",), (f"{target}&utm_source=2;id=3",))  # fmt: skip

    def test_only_some_parameters(self):
        target = self.make(LONG, path="/only/make", query="page=1")
        self.assert_shared((target,), (f"{target}&x=1",), (f"{target}&session=9&y",))
        self.assert_apart((f"{target}&page=2",), (f"{target}&p%61ge=2",), (f"{target}&PAGE=2",), (f"{target}&page[]=2",),
                          (f"{target}&x=1;page=2",))  # fmt: skip

    def test_without_rules_every_byte_counts(self):
        target = self.make(LONG, path="/all/make", query="id=1")
        self.assert_apart((target,), (f"{target}&utm_source=x",), (f"{target}&",))

    def test_an_unsafe_request_and_a_purge_reach_the_key(self):
        target = self.make(LONG, path="/ignore/make", query="b=1&a=1")
        other = target.replace("b=1&a=1", "a=1&utm_x=1&b=1")
        self.assert_shared((target,), (other,))
        self.body(other, method="POST")
        self.assert_apart((target,))
        self.assert_shared((target,), (other,))
        self.assertIn("purged", self.cli("purge", f"http://demo.test{other}"))
        self.assert_apart((target,))

    def test_a_location_is_invalidated_under_its_own_key(self):
        target = self.make(LONG, path="/ignore/make", query="b=1&a=1")
        self.assert_shared((target,), (target,))
        self.body(self.make(f"Location: {target}&utm_y=2", path="/all/make", status=201), method="POST")
        self.assert_apart((target,))


class Fields(RuledCase):
    RULES = {
        "/theme": {"key": {"cookies": ["theme"]}},
        "/lang": {"key": {"headers": ["accept-language"]}},
    }

    def test_a_cookie_of_the_key(self):
        target = self.make(LONG, path="/theme/make")
        dark = ("Cookie", "theme=dark")
        self.assert_shared((target, dark), (target, ("Cookie", "a=1; theme=dark")), (target, dark))
        self.assertEqual(self.asked(), 1)
        self.assert_apart(
            (target,), (target, ("Cookie", "theme=")), (target, ("Cookie", "theme=light")),
            (target, ("Cookie", 'theme="dark"')), (target, ("Cookie", "theme=dark; theme=light")),
            (target, ("Cookie", "theme=light; theme=dark")), (target, ("Cookie", "Theme=dark")),
            (target, ("Cookie", "a=1 theme=dark")), (target, ("Cookie", "theme=dark,theme=blue")),
        )  # fmt: skip
        self.assert_shared((target,), (target, ("Cookie", "a=1")))

    def test_an_unsafe_request_and_a_purge_reach_all_keys_of_a_url(self):
        target = self.make(LONG, path="/theme/make")
        users = [(target,), (target, ("Cookie", "theme=dark")), (target, ("Cookie", "theme=light; a=1"))]
        for take_back in (lambda: self.body(target, method="POST"),
                          lambda: self.cli("purge", f"http://demo.test{target}")):  # fmt: skip
            self.assert_apart(*users)
            for user in users:
                self.assert_shared(user, user)
            self.assertNotIn("nothing was stored", take_back())
        self.assert_apart(*users)

    def test_a_field_of_the_key(self):
        target = self.make(LONG, path="/lang/make")
        self.assert_apart((target,), (target, ("Accept-Language", "de")), (target, ("Accept-Language", "en")),
                          (target, ("Accept-Language", "")))  # fmt: skip
        before = self.asked()
        self.assertIn(" de ", self.body(target, ("Accept-Language", "de")))
        self.assertIn(" en ", self.body(target, ("Accept-Language", "en")))
        self.assertEqual(self.asked(), before)

    def test_fields_too_long_for_a_key_go_past(self):
        target = self.make(LONG, path="/lang/make")
        long = (target, ("Accept-Language", "x" * 5000))
        self.assert_apart(long, long)
        status = self.gateway.request("GET", target, [long[1]]).get("cache-status")
        self.assertEqual(status, "pilotlight; fwd=bypass; fwd-status=200; detail=key-too-long")

    def test_vary_cookie_needs_public_and_a_key_with_all_cookies(self):
        public = self.make("Cache-Control: public, max-age=60", "Vary: Cookie", path="/theme/make")
        dark = ("Cookie", "theme=dark")
        self.assert_shared((public, dark), (public, dark))
        more = (public, ("Cookie", "theme=dark; session=1"))
        self.assert_apart(more, more)
        silent = self.make(LONG, "Vary: Cookie", path="/theme/make")
        self.assert_apart((silent, dark), (silent, dark))


class Lifetimes(RuledCase):
    RULES = {
        "/short": {"default_ttl": "60s", "max_ttl": "60s", "errors": {"404": "60s", "5xx": "60s"}},
        "/errors": {"errors": "60s"},
        "/none": {},
    }

    def test_the_longest_lifetime(self):
        answer = self.gateway.get(self.make("Cache-Control: max-age=6000", path="/short/make"))
        self.assertIn("stored; ttl=60", answer.get("cache-status").replace("ttl=60; stored", "stored; ttl=60"))
        self.assertEqual(answer.get("cache-control"), "max-age=6000")

    def test_errors_that_say_nothing_are_stored(self):
        for path, status in (("/short", 404), ("/short", 503), ("/errors", 404), ("/errors", 410), ("/errors", 500)):
            target = self.make(path=f"{path}/make", status=status)
            self.assert_shared((target,), (target,))
            self.assert_status(self.gateway.get(target), status)

    def test_other_errors_are_not(self):
        for path, status in (("/short", 451), ("/short", 401), ("/errors", 429), ("/errors", 403), ("/errors", 400),
                             ("/none", 404), ("/none", 503), ("/errors", 200)):  # fmt: skip
            target = self.make(path=f"{path}/make", status=status)
            self.assert_apart((target,), (target,))

    def test_the_services_word_wins(self):
        for said in ("no-store", "private", "max-age=0"):
            target = self.make(f"Cache-Control: {said}", path="/errors/make", status=404)
            self.assert_apart((target,), (target,))
        target = self.make("Set-Cookie: a=1", path="/errors/make", status=404)
        self.assert_apart((target,), (target,))

    def test_errors_of_users_stay_theirs(self):
        target = self.make(path="/errors/make", status=404)
        for field in (("Cookie", "a=1"), ("Authorization", "Basic eDp5")):
            self.assert_apart((target, field), (target, field))
        self.assert_shared((target,), (target,))
        self.assert_apart((target, ("Cookie", "a=1")))


class BypassAndStore(RuledCase):
    RULES = {
        "/bypass": {"bypass": {"cookies": ["session*"], "headers": ["x-preview"], "query": ["preview"], "methods": ["HEAD"]}},  # fmt: skip
        "/store": {"store": {"statuses": ["2xx", "4xx"], "types": ["text/*"], "max_object": "1KiB"}},
        "/on": True,
        "/off": False,
    }

    def test_bypass(self):
        target = self.make(LONG, path="/bypass/make")
        self.assert_shared((target,), (target,), (target, ("Cookie", "a=session")))
        for past in ((target, ("Cookie", "session=1")), (target, ("Cookie", "a=1; SESSION_id=2")),
                     (target, ("X-Preview", "")), (f"{target}&preview",), (f"{target}&x=1;preview=1",)):  # fmt: skip
            self.assert_apart(past, past)
        status = self.gateway.request("GET", target, [("X-Preview", "1")]).get("cache-status")
        self.assertEqual(status, "pilotlight; fwd=bypass; fwd-status=200; detail=rule")
        wants = [("X-Preview", "1"), ("Cache-Control", "only-if-cached")]
        self.assert_status(self.gateway.request("GET", target, wants), 504)
        before = self.asked()
        self.gateway.request("HEAD", target)
        self.assertEqual(self.asked(), before + 1)
        self.assert_shared((target,), (target,))

    def test_an_unsafe_request_past_the_cache_still_invalidates(self):
        target = self.make(LONG, path="/bypass/make")
        self.assert_shared((target,), (target,))
        self.body(target, ("Cookie", "session=1"), method="POST")
        self.assert_apart((target,))

    def test_an_unsafe_request_that_offers_another_protocol_invalidates(self):
        target = self.make(LONG, path="/bypass/make")
        self.assert_shared((target,), (target,))
        # As clients that would rather speak HTTP/2 do with their first request.
        self.body(target, ("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", ""), method="POST")
        self.assert_apart((target,))

    def test_an_unsafe_request_of_a_route_without_cache_invalidates_what_it_names(self):
        page, grouped = self.make(LONG, path="/on/make"), self.make(LONG, 'Cache-Groups: "g"', path="/on/make")
        self.assert_shared((page,), (page,))
        self.assert_shared((grouped,), (grouped,))
        self.body(self.make(f"Location: {page}", path="/off/make"), method="POST")
        self.assert_apart((page,))
        self.body(self.make('Cache-Group-Invalidation: "g"', path="/off/make"), method="POST")
        self.assert_apart((grouped,))

    def test_what_may_be_stored(self):
        text = "Content-Type: text/plain"
        stored = self.make(LONG, text, path="/store/make")
        self.assert_shared((stored,), (stored,))
        stored = self.make(LONG, text, path="/store/make", status=404)
        self.assert_shared((stored,), (stored,))
        for fields, status, why in (
            ((LONG, text), 301, "route-status"),
            ((LONG, "Content-Type: application/json"), 200, "route-type"),
            ((LONG,), 200, "route-type"),
        ):
            target = self.make(*fields, path="/store/make", status=status)
            self.assert_apart((target,), (target,))
            self.assertTrue(self.gateway.get(target).get("cache-status").endswith(f"detail={why}"))

    def test_large_answers(self):
        target = self.make(LONG, "Content-Type: text/plain", path="/store/make")
        long = [("Accept-Language", "x" * 1200)]
        answers = [self.gateway.request("GET", target, long) for _ in range(2)]
        self.assertNotEqual(answers[0].body, answers[1].body)
        self.assertTrue(answers[1].get("cache-status").endswith("detail=too-large"))


class Users(RuledCase):
    """A sample with the real binary of what crates/cache/tests/it/ruled_users.rs plays in memory."""

    RULES = {
        "/a": True, "/b": "60s", "/c": {"default_ttl": "60s", "errors": "60s", "key": {"cookies": ["theme"]}},
        "/d": {"default_ttl": "60s", "key": {"cookies": ["user"], "only_query": ["h", "status"]}, "bypass": {"cookies": ["admin"]}},
    }  # fmt: skip

    def test_nobody_is_given_anothers_answer(self):
        chance = random.Random(7)
        cookies = ["", "user=ann", "user=bob", "user=ann; theme=dark", "theme=dark", "user=bob; admin=1", "user=ann user=bob"]
        said = ["", "Cache-Control: public", LONG, f"{LONG}, public", f"{LONG}, private", "Cache-Control: s-maxage=60"]
        shared = 0
        client = self.enterContext(self.gateway.client())
        for step in range(900):
            words = chance.choice(said)
            fields = [words, chance.choice(["", "", "Vary: Cookie", "Vary: Authorization", "Set-Cookie: id=1"])]
            # Few targets, so that they meet.
            path, code = chance.choice("abcd"), chance.choice([200, 200, 200, 404])
            target = self.make(*filter(None, fields), path=f"/{path}/make", status=code, query=f"n={step // 300}")
            cookie, basic = chance.choice(cookies), chance.choice(["", "", "ann", "bob"])
            asks = [(name, value) for name, value in (("Cookie", cookie), ("Authorization", basic)) if value]
            text = client.request("GET", target, asks).body.decode()
            me, made_for = basic or cookie or "nobody", text.split(" for ")[1].rsplit("  ", 1)[0]
            if made_for == me:
                continue
            shared += 1
            explicit = "max-age" in words or "s-maxage" in words
            context = (target, asks, text)
            self.assertNotIn("Set-Cookie", fields[1], context)
            self.assertNotIn("private", words, context)
            self.assertTrue(explicit or (made_for == "nobody" and not asks), context)
            self.assertFalse(path == "d" and ("admin" in made_for or "admin" in me), context)
            self.assertFalse("Vary" in fields[1] and "public" not in words and "Cookie" in fields[1], context)
            if made_for in ("ann", "bob"):
                self.assertTrue("public" in words or "s-maxage" in words, context)
        self.assertGreater(shared, 20, "the sample has too few answers that were shared")


class Explained(RuledCase):
    RULES = {
        "/shop": {
            "default_ttl": "60s", "max_ttl": "10m", "errors": {"404": "30s"},
            "key": {"sort_query": True, "ignore_query": ["utm_*"], "cookies": ["theme"]},
            "bypass": {"cookies": ["session"]}, "store": {"statuses": ["2xx", "4xx"]},
        },
    }  # fmt: skip

    def explain(self, target, *fields):
        asked = [argument for field in fields for argument in ("-H", field)]
        return json.loads(self.cli("explain", f"http://demo.test{target}", *asked, "--json"))["cache"]

    def test_key_and_its_parts(self):
        told = self.explain("/shop/make?b=1&utm_source=x&a=2", "Cookie: theme=dark")
        self.assertEqual(told["key"], "http://demo.test/shop/make?a=2&b=1 cookie:theme=dark")
        self.assertEqual(told["key_parts"]["left_out"], ["utm_source=x"])
        self.assertEqual((told["verdict"], told["stored"], told["variants"]), ("miss", None, []))
        self.assertEqual(told["route"]["key.ignore_query"], ["utm_*"])
        self.assertEqual(told["route"]["store.statuses"], ["200-299", "400-499"])

    def test_what_is_stored_and_by_which_field(self):
        for field, seconds, by in (
            ("Cache-Control: max-age=50", 50, "max-age"),
            ("Cache-Control: max-age=50, s-maxage=40", 40, "s-maxage"),
            ("Cache-Control: max-age=5000", 600, "max_ttl of the route"),
            ("X-Nothing: said", 60, "default_ttl of the route"),
        ):
            target = self.make(field, "Vary: Accept-Language", "ETag: \"v\"", path="/shop/make")
            self.body(target, ("Accept-Language", "de"))
            told = self.explain(target, "Accept-Language: de")
            self.assertEqual(told["verdict"], "hit", told)
            stored = told["stored"]
            self.assertEqual((stored["lifetime_seconds"], stored["lifetime_by"]), (seconds, by))
            self.assertEqual((stored["tier"], stored["vary"]), ("memory", {"accept-language": "de"}))
            other = self.explain(target, "Accept-Language: en")
            self.assertEqual((other["verdict"], [one["chosen"] for one in other["variants"]]), ("miss", [False]))

    def test_errors_and_why_nothing_is_stored(self):
        target = self.make(path="/shop/make", status=404)
        self.body(target)
        self.assertEqual(self.explain(target)["stored"]["lifetime_by"], "errors of the route")
        for field, why in (("Set-Cookie: a=1", "set-cookie"), ("Cache-Control: private", "private")):
            target = self.make(field, path="/shop/make")
            self.body(target)
            self.assertEqual(self.explain(target)["last_not_stored"]["why"], why)
        self.body(self.make(LONG, path="/shop/make", status=301))
        told = self.explain(self.make(LONG, path="/shop/make", status=301))
        self.assertEqual(told["last_not_stored"]["why"], "route-status")

    def test_the_rule_that_sends_a_request_past_the_cache(self):
        told = self.explain("/shop/make", "Cookie: a=1; session=2")
        self.assertEqual((told["verdict"], told["bypassed_by"]), ("bypass", "bypass.cookies"))

    def test_text_for_people(self):
        target = self.make(LONG, path="/shop/make")
        self.body(target)
        text = self.cli("explain", f"http://demo.test{target}&utm_source=x")
        for line in ("cache     hit: a stored answer is fresh (RFC 9111 §4.2)\n", "key       http://demo.test/shop/make?h=",
                     "          left out: utm_source=x\n", "stored    200, ", "s of 60 s (max-age), fresh for",
                     "rules     bypass.cookies: session\n"):  # fmt: skip
            self.assertIn(line, text)


if __name__ == "__main__":
    unittest.main()
