"""What is stored is purged by URL, prefix, tag, group, or as a whole (issue 6, number 5; RFC 9875)."""

import json
from urllib.parse import quote as escape

from harness import BINARY, Gateway, config, route, service, setUpModule
from origin import Origin
from test_operate import ADMIN, Operated

__all__ = ["setUpModule"]

FRESH = "Cache-Control: max-age=600"


def make(*fields, path="/make", **arguments):
    """A target of origin.py whose answer has these fields."""
    parts = [f"h={escape(field)}" for field in (FRESH, *fields)] + [f"{name}={value}" for name, value in arguments.items()]
    return f"{path}?{'&'.join(parts)}"


class PurgeCase(Operated):
    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        cls.gateway = cls.share(cls.gateway_with())

    @classmethod
    def gateway_with(cls, *blocks):
        web = service("web", url=cls.origin.url)
        return Gateway(BINARY, config(web, route("/", "web", cache=True), ADMIN, *blocks))

    def serial(self, gateway, target, host="one.test"):
        answer = gateway.get(target, host=host)
        self.assert_status(answer, 200)
        return answer.body.decode()

    def purge(self, gateway, **body):
        return self.admin(gateway, "/purge", "POST", json.dumps(body))

    def check(self, purged, kept, **body):
        """What of these places (host, target) a purge makes a miss, or stale, and what it does not."""
        gateway = self.gateway
        before = {place: self.serial(gateway, place[1], place[0]) for place in purged + kept}
        self.purge(gateway, **body)
        after = {place: self.serial(gateway, place[1], place[0]) for place in purged + kept}
        changed = [place for place in before if before[place] != after[place]]
        self.assertEqual(changed, purged, body)


class Scopes(PurgeCase):
    A, B = make("Cache-Tag: red, green", n=1), make("Surrogate-Key: green blue", n=2)
    GROUPED, PLAIN = make('Cache-Groups: "g", "h"', n=3), make(n=4)
    DEEP = make(path="/deep/make", n=5)

    def test_by_url(self):
        self.check([("one.test", self.A)], [("two.test", self.A), ("one.test", self.B)], url="http://ONE.test:80" + self.A)

    def test_by_prefix(self):
        self.check([("one.test", self.DEEP)], [("one.test", self.PLAIN), ("two.test", self.DEEP)],
                   prefixes=["http://one.test/deep/*"])  # fmt: skip

    def test_by_tag(self):
        """A tag is a name in the whole cache, whichever field it came in."""
        places = [("one.test", self.A), ("two.test", self.B)]
        self.check(places, [("one.test", self.PLAIN)], tags=["green"])
        self.check([("two.test", self.B)], [("one.test", self.A)], tags=["blue", "unknown"])

    def test_by_group(self):
        self.check([("one.test", self.GROUPED)], [("two.test", self.GROUPED), ("one.test", self.A)],
                   groups=[{"name": "h", "origin": "http://one.test"}])  # fmt: skip

    def test_everything(self):
        self.check([("one.test", self.A), ("two.test", self.PLAIN)], [], everything=True)

    def test_all_variants(self):
        gateway = self.gateway
        target = make("Vary: Accept-Language")
        ask = lambda language: gateway.get(target, [("Accept-Language", language)], host="one.test").body  # noqa: E731
        before = [ask("en"), ask("fr")]
        self.assertEqual([ask("en"), ask("fr")], before)
        self.purge(gateway, urls=["http://one.test" + target])
        self.assertFalse(set(before) & {ask("en"), ask("fr")})


class Soft(PurgeCase):
    def test_it_is_validated(self):
        gateway = self.gateway
        target = make('ETag: "one"', "Cache-Tag: t", validate=1)
        first = self.serial(gateway, target)
        self.purge(gateway, tags=["t"], soft=True)
        answer = gateway.get(target, host="one.test")
        self.assertEqual(answer.body.decode(), first)
        self.assertIn("fwd=stale; fwd-status=304", answer.get("cache-status"))
        self.assertIn("hit", gateway.get(target, host="one.test").get("cache-status"))

    def test_a_hard_purge_is_not_validated(self):
        gateway = self.gateway
        target = make('ETag: "one"', "Cache-Tag: t", validate=1)
        first = self.serial(gateway, target)
        self.purge(gateway, tags=["t"])
        answer = gateway.get(target, host="one.test")
        self.assertNotEqual(answer.body.decode(), first)
        self.assertIn("fwd=uri-miss; fwd-status=200", answer.get("cache-status"))


class Groups(PurgeCase):
    def test_unsafe_requests_invalidate_groups_of_their_origin(self):
        gateway = self.gateway
        grouped = make('Cache-Groups: "g"')
        before = {host: self.serial(gateway, grouped, host) for host in ("one.test", "two.test")}
        gateway.get(make('Cache-Group-Invalidation: "g"', n="get"), host="one.test")
        self.assertEqual(self.serial(gateway, grouped), before["one.test"], "RFC 9875 §3: ignored in answers to GET")
        gateway.request("POST", make('Cache-Group-Invalidation: "g"', n="post"), body=b"x", host="one.test")
        self.assertNotEqual(self.serial(gateway, grouped), before["one.test"])
        self.assertEqual(self.serial(gateway, grouped, "two.test"), before["two.test"])


class Fields(PurgeCase):
    def fields(self, answer):
        return [answer.get(name) for name in ("cache-tag", "surrogate-key", "cache-groups")]

    def test_clients_do_not_get_tags(self):
        target = make("Cache-Tag: a", "Surrogate-Key: b", 'Cache-Groups: "c"')
        unstored = f"/make?h={escape('Cache-Tag: a')}&h={escape('Cache-Control: no-store')}"
        for block, kept in (("", None), ("[cache]\nkeep_tags = true\n", "a")):
            gateway = self.start(self.gateway_with(block)) if block else self.gateway
            answers = [self.fields(gateway.get(target, host="one.test")) for _ in range(2)]
            self.assertEqual(answers, [[kept, kept and "b", '"c"']] * 2)
            self.assertEqual(gateway.get(unstored, host="one.test").get("cache-tag"), kept)


class Command(PurgeCase):
    def purge(self, gateway, *arguments):
        """What is said, without the last line: the gateway that was changed."""
        *lines, last = self.cli(gateway, "purge", *arguments).splitlines()
        self.assertIn(f"{gateway.folder}/pilotlight.toml (pid {gateway.process.pid})", last)
        return lines

    def test_what_it_says(self):
        gateway = self.gateway
        target = make("Cache-Tag: a", path="/deep/make")
        url = "http://one.test" + target
        self.serial(gateway, target)
        self.assertEqual(self.purge(gateway, "--soft", url), [f"made stale {url}"])
        self.assertEqual(self.purge(gateway, url), [f"purged {url}"])
        self.assertEqual(self.purge(gateway, url), [f"nothing was stored for {url}"])
        told = self.purge(gateway, "--tag", "a", "-t", "b", "--prefix", "http://one.test/deep/", "--group", "g@http://one.test", "--all")
        self.assertEqual(told, ["purged http://one.test/deep/*", "purged tag a", "purged tag b",
                                             "purged group g of http://one.test", "purged everything"])  # fmt: skip
        told = json.loads(self.cli(gateway, "purge", "--json", "--tag", "a"))
        self.assertEqual(told.pop("gateway")["pid"], gateway.process.pid)
        self.assertEqual(told, {"soft": False, "what": ["tag a"], "stored_urls": 0})

    def test_what_means_nothing(self):
        gateway = self.gateway
        self.cli(gateway, "purge", code=2)
        self.cli(gateway, "purge", "ftp://x/", code=2)
        self.cli(gateway, "purge", "--tag", "", code=2)
