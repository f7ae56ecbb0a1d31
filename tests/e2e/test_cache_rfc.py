"""What RFC 5861, 9110 §14, 9110 §15.2, 9213 and the operator's settings let the cache do (issue 6, part 1)."""

import json
import subprocess
import unittest

from harness import BINARY, ORIGIN, Gateway, config, eventually, in_threads, route, service, setUpModule
from origin import Origin
from test_cache import CacheCase

__all__ = ["setUpModule"]

LONG_AGO = "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT"
# Stale from the beginning, so that no test waits for a lifetime to pass.
STALE = "Cache-Control: max-age=0, stale-while-revalidate=60"
SPARE = "Cache-Control: max-age=0, stale-if-error=60"


class RulesCase(CacheCase):
    def with_settings(self, **settings):
        """A gateway of this test, with these lines in `[cache]`."""
        lines = "".join(f'{name} = {value}\n' for name, value in settings.items())
        blocks = (service("web", url=self.origin.url), route(service="web", cache=True), "[cache]\n" + lines)
        self.gateway = self.start(Gateway(BINARY, config(*blocks)))


class WhileRevalidate(RulesCase):
    def test_a_stale_answer_is_given_at_once_and_revalidated_once(self):
        target = self.make(STALE, 'ETag: "a"', hold_after=1)
        self.serial(target)
        # The origin holds the second request, so whatever is answered now does not wait for it.
        answers = in_threads(20, lambda _: self.gateway.get(target))
        self.assertEqual({int(answer.body.split()[1]) for answer in answers}, {1})
        for answer in answers:
            self.assertRegex(self.status(answer), r"^pilotlight; hit; ttl=-?\d+; detail=stale-while-revalidate$")
        self.assertTrue(eventually(lambda: self.count(target) == 2))
        self.assertEqual(self.serial(target), 1)
        self.assertEqual(self.count(target), 2, "one request revalidates for all")
        self.origin.gate.set()
        self.assertTrue(eventually(lambda: self.serial(target) > 1), "what the refresh brought is given out")

    def test_the_refresh_is_conditional_and_whole(self):
        target = self.make(STALE, 'ETag: "a"', validate=1)
        self.serial(target)
        answer = self.gateway.get(target, [("Range", "bytes=0-5"), ("If-Match", '"x"'), ("X-Mine", "1")])
        self.assertEqual((answer.status, answer.body), (206, b"serial"))
        self.assertTrue(eventually(lambda: self.count(target) == 2))
        fields = self.origin.last_fields(target)
        self.assertEqual((fields.get("if-none-match"), fields.get("x-mine")), ('"a"', "1"))
        self.assertFalse({"range", "if-match"} & fields.keys())

    def test_a_failing_refresh_leaves_the_stale_answer(self):
        target = self.make(STALE, fail_after=1)
        self.serial(target)
        for asked in range(2, 4):
            # Asked again and again: while one refresh is under way no other begins.
            self.assertTrue(eventually(lambda: self.serial(target) == 1 and self.count(target) >= asked))
        self.assertEqual(self.serial(target), 1)

    def test_a_gateway_stops_with_a_refresh_under_way(self):
        self.gateway = self.start(self.gateway_to(self.origin))
        target = self.make(STALE, hold_after=1)
        self.serial(target)
        self.serial(target)
        self.assertTrue(eventually(lambda: self.count(target) == 2))
        self.assertEqual(self.gateway.stop(), 0)

    def test_a_refresh_does_not_hold_up_the_stop_of_its_service(self):
        blocks = (service("web", argv=ORIGIN, transport="http", socket="tcp", drain_timeout="60s"), route(service="web", cache=True))
        gateway = self.start(Gateway(BINARY, config(*blocks), stop_limit=30.0))
        target = self.make(STALE, hold_after=1)
        for _ in range(2):
            self.assertEqual(gateway.get(target).body.split()[1], b"1")
        # Its second request, which the origin holds for a minute, is there.
        self.assertTrue(eventually(lambda: self.assert_json(gateway.get("/show"))["made"] == 2))
        self.assertEqual(gateway.stop(), 0)

    def test_a_refresh_holds_no_connection(self):
        target = self.make(STALE, hold_after=1)
        self.serial(target)
        with self.gateway.client() as client:
            answer = client.request("GET", target, [("Connection", "close")])
            self.assertIn("stale-while-revalidate", self.status(answer))
            self.assertTrue(client.ended(), "closed with the answer, while the refresh is under way")
        self.assertTrue(eventually(lambda: self.count(target) == 2))
        self.assertFalse(self.origin.gate.is_set())

    def test_only_with_the_services_word(self):
        for says in ("max-age=0", "max-age=0, stale-while-revalidate=60, must-revalidate", "s-maxage=0, stale-while-revalidate=60"):
            target = self.make(f"Cache-Control: {says}", 'ETag: "a"')
            self.assertEqual([self.serial(target), self.serial(target)], [1, 2], says)
        target = self.make(STALE, n="no-cache")
        self.serial(target)
        self.assertEqual(self.serial(target, [("Cache-Control", "no-cache")]), 2)

    def test_what_is_stale_belongs_to_its_user_too(self):
        target = self.make(STALE, "Vary: Authorization")
        for user in ("ann", "bob", "ann", "bob"):
            self.assertIn(f"for {user} ", self.gateway.get(target, [("Authorization", user)]).body.decode())


class IfError(RulesCase):
    def test_a_stale_answer_in_place_of_503(self):
        target = self.make(SPARE, fail_after=1)
        self.serial(target)
        answer = self.gateway.get(target)
        self.assert_status(answer, 200)
        self.assertEqual(answer.body.split()[1], b"1")
        self.assertRegex(self.status(answer), r"^pilotlight; fwd=stale; fwd-status=503; ttl=-?\d+; detail=stale-if-error$")

    def test_those_who_wait_do_not_ask_a_service_that_has_just_failed(self):
        blocks = (service("web", url=self.origin.url), route(service="web", cache=True), '[admin]\nsocket = "@FOLDER@/admin.sock"\n')
        self.gateway = gateway = self.start(Gateway(BINARY, config(*blocks)))

        def pilotlight(*words):
            command = [BINARY, *words, "--json", "--socket", gateway.folder / "admin.sock"]
            return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)

        # Stale because it was purged: nobody waits for others where each has to validate, as with max-age=0.
        target = self.make("Cache-Control: max-age=60, stale-if-error=60", hold_after=1, fail_after=1)
        self.serial(target)
        pilotlight("purge", "--all", "--soft")

        def ask(number):
            if number == 0:
                self.assert_eventually(lambda: pilotlight("status", "web")["in_flight"] == 9, "nine requests are never in flight")
                self.origin.gate.set()
                return None
            return gateway.get(target)

        answers = in_threads(10, ask)[1:]
        self.assertEqual([(answer.status, answer.body.split()[1]) for answer in answers], [(200, b"1")] * 9)
        self.assertEqual(self.count(target), 2, "one of them asked for all")
        collapsed = [answer for answer in answers if self.status(answer).endswith("; collapsed; detail=stale-if-error")]
        self.assertEqual(len(collapsed), 8, [self.status(answer) for answer in answers])

    def test_a_service_that_closes_or_is_gone(self):
        origin = Origin()
        origin.__enter__()
        self.addCleanup(origin.server_close)
        self.gateway = self.start(self.gateway_to(origin))
        target = self.make(SPARE, cut_after=1)
        self.serial(target)
        self.assertEqual(self.serial(target), 1)
        origin.__exit__()
        self.assertEqual(self.serial(target), 1)
        self.assert_problem(self.gateway.get(self.make(SPARE, n="unstored", cut_after=0)), 502)

    def test_not_without_permission(self):
        for says in ("max-age=0", "max-age=0, stale-if-error=60, must-revalidate", "no-cache, stale-if-error=60"):
            target = self.make(f"Cache-Control: {says}", 'ETag: "a"', fail_after=1)
            self.serial(target)
            self.assert_status(self.gateway.get(target), 503)

    def test_a_request_may_allow_it(self):
        target = self.make("Cache-Control: max-age=0", 'ETag: "a"', fail_after=1)
        self.serial(target)
        self.assertEqual(self.serial(target, [("Cache-Control", "stale-if-error=60")]), 1)

    def test_other_answers_are_answers(self):
        target = self.make(SPARE, 'ETag: "a"')
        self.assertEqual([self.serial(target), self.serial(target)], [1, 2])
        self.assert_status(self.gateway.get(self.make(SPARE, status=404)), 404)

    def test_the_operator_may_allow_it(self):
        self.with_settings(stale_if_error='"1h"')
        target = self.make("Cache-Control: max-age=0", 'ETag: "a"', fail_after=1)
        self.serial(target)
        self.assertEqual(self.serial(target), 1)
        target = self.make("Cache-Control: max-age=0, must-revalidate", 'ETag: "a"', fail_after=1)
        self.serial(target)
        self.assert_status(self.gateway.get(target), 503)


class Ranges(RulesCase):
    def test_from_a_stored_response(self):
        target = self.make("Cache-Control: max-age=60", 'ETag: "a"')
        whole = self.gateway.get(target).body
        size = len(whole)
        for asked, body, said in (("bytes=0-5", whole[:6], f"bytes 0-5/{size}"), ("bytes=-3", whole[-3:], f"bytes {size - 3}-{size - 1}/{size}"),
                                  ("bytes=7-", whole[7:], f"bytes 7-{size - 1}/{size}")):  # fmt: skip
            answer = self.gateway.get(target, [("Range", asked)])
            self.assertEqual((answer.status, answer.body, answer.get("content-range")), (206, body, said))
            self.assertEqual(answer.get("content-length"), str(len(body)))
        beyond = self.gateway.get(target, [("Range", "bytes=900-")])
        self.assertEqual((beyond.status, beyond.body, beyond.get("content-range")), (416, b"", f"bytes */{size}"))
        for fields in ([("Range", "bytes=0-1,3-4")], [("Range", "lines=1-2")], [("Range", "bytes=0-1"), ("If-Range", '"b"')]):
            answer = self.gateway.get(target, fields)
            self.assertEqual((answer.status, answer.body), (200, whole), fields)
        self.assertEqual(self.count(target), 1)

    def test_a_whole_answer_to_a_range_is_stored(self):
        target = self.make("Cache-Control: max-age=60")
        self.assert_status(self.gateway.get(target, [("Range", "bytes=0-5")]), 200)
        self.assertEqual(self.gateway.get(target, [("Range", "bytes=0-5")]).body, b"serial")
        self.assertEqual(self.count(target), 1)

    def test_a_part_is_never_given_out_as_the_whole(self):
        target = self.make("Cache-Control: max-age=60", "Content-Range: bytes 0-5/90", status=206)
        self.assert_status(self.gateway.get(target, [("Range", "bytes=0-5")]), 206)
        self.gateway.get(target)
        self.assertEqual(self.count(target), 2)


class Targeted(RulesCase):
    def test_the_targeted_field_alone_counts(self):
        self.assert_stored(self.make("Cache-Control: no-store", "CDN-Cache-Control: max-age=60"))
        self.assert_not_stored(self.make("Cache-Control: max-age=60", "CDN-Cache-Control: no-store"))
        self.assert_not_stored(self.make("Cache-Control: max-age=60", "CDN-Cache-Control: private"))
        self.assert_stored(self.make("Cache-Control: max-age=60", "CDN-Cache-Control: private, &&&"))
        self.assert_not_stored(self.make("CDN-Cache-Control: max-age=60", "Set-Cookie: a=b"))

    def test_the_operators_list(self):
        self.with_settings(targets='["Pilot-Cache-Control"]')
        fields = "CDN-Cache-Control: no-store", "Cache-Control: no-store", "Pilot-Cache-Control: max-age=60"
        self.assert_stored(self.make(*fields))
        self.assert_not_stored(self.make("CDN-Cache-Control: max-age=60", "Cache-Control: no-store"))


class Assumed(RulesCase):
    def test_heuristic_freshness(self):
        self.assert_not_stored(self.make(LONG_AGO))
        self.with_settings(max_heuristic='"1h"')
        self.assert_stored(self.make(LONG_AGO, n=1))
        answer = self.gateway.get(self.make(LONG_AGO, n=1))
        self.assertIn("ttl=3", self.status(answer))  # 3600 less some seconds, not a tenth of 20 years
        self.assert_not_stored(self.make(LONG_AGO, n=2), [("Cookie", "a=b")])
        self.assert_not_stored(self.make(LONG_AGO, "Cache-Control: no-store"))

    def test_languages(self):
        target = self.make("Cache-Control: max-age=60", "Vary: Accept-Language")
        self.with_settings(language_order='"ignored"')
        self.assertEqual(self.serial(target, [("Accept-Language", "en, de")]), 1)
        self.assertEqual(self.serial(target, [("Accept-Language", "de,EN")]), 1)
        self.assertEqual(self.serial(target, [("Accept-Language", "de, en;q=0.5")]), 2)


class Post(RulesCase):
    def test_an_answer_to_post_that_is_what_a_get_gets(self):
        target = self.make("Cache-Control: max-age=60", "Content-Location: ")
        self.assertEqual(self.gateway.request("POST", target, body=b"x").status, 200)
        self.assertEqual(self.serial(target), 1)
        self.assertEqual(self.serial(target, method="POST"), 2, "POST itself is never answered from memory")
        self.assertEqual(self.serial(target), 2)

    def test_any_other(self):
        for number, fields in enumerate((["Cache-Control: max-age=60"], ["Content-Location: "], ["Cache-Control: max-age=60", "Content-Location: /other"],
                                         ["Cache-Control: max-age=60", "Content-Location: ", "Set-Cookie: a=b"])):  # fmt: skip
            target = self.make(*fields, n=number)
            self.gateway.request("POST", target, body=b"x")
            self.assertEqual(self.serial(target), 2, fields)


class Interim(RulesCase):
    def test_early_hints_pass_and_are_not_stored(self):
        target = self.make("Cache-Control: max-age=60", early=2)
        with self.gateway.client() as client:
            answer = client.request("GET", target)
            self.assertEqual([(one.status, one.get("link")) for one in answer.interim],
                             [(103, "</0.css>; rel=preload"), (103, "</1.css>; rel=preload")])  # fmt: skip
            self.assertIsNone(answer.get("link"))
            again = client.request("GET", target)
            self.assertEqual((again.interim, again.body, again.get("link")), ([], answer.body, None))

    def test_between_pipelined_answers(self):
        targets = [self.make("Cache-Control: no-store", early=1, n=number) for number in range(4)]
        with self.gateway.client() as client:
            for target in targets:
                client.send_head("GET", target)
            for target in targets:
                answer = client.answer()
                self.assertEqual((answer.status, answer.body.split()[1]), (200, b"1"))
                # Left out where they would have to wait, never in the middle of another answer.
                self.assertLessEqual({one.status for one in answer.interim}, {103})

    def test_not_to_http_1_0(self):
        target = self.make("Cache-Control: no-store", early=1)
        with self.gateway.client() as client:
            client.send(f"GET {target} HTTP/1.0\r\nHost: demo.test\r\n\r\n".encode())
            answer = client.answer()
            self.assertEqual((answer.status, answer.interim), (200, []))


if __name__ == "__main__":
    unittest.main()
