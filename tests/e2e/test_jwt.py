"""Signed tokens let in (`allow.jwt`; issue 17, part 9)."""

import json
import socket
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

import http2_client
from certificates import Authority
from harness import BINARY, GatewayError, config, eventually, route, service, setUpModule
from test_access import STORED, AccessCase, htpasswd, open_client
from test_cache import make
from tokens import Issuer, KeyServer, encode

__all__ = ["setUpModule"]

PUBLIC = make("Cache-Control: public, max-age=60")
CHALLENGE = 'Bearer realm="restricted"'


def bearer(token):
    return [("Authorization", f"Bearer {token}")]


class TokenCase(AccessCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.issuer = Issuer(cls.folder.name, "RS256")

    def serve(self, *issuers, **named):
        server = KeyServer(*issuers, **named)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def guarded(self, jwks, *routes, allow=(), **settings):
        jwt = {"jwks": jwks} | settings
        return self.gateway_with(route("/", "web", cache=True, allow={"jwt": jwt} | dict(allow)), *routes)

    def seen(self):
        _, _, fields = self.origin.seen[-1]
        return {name.lower(): value for name, value in fields}

    def assert_refused(self, answer, description, status=401, error="invalid_token"):
        self.assert_problem(answer, status)
        expected = f'{CHALLENGE}, error="{error}", error_description="{description}"'
        self.assertTrue(answer.get("www-authenticate").startswith(expected), answer.get("www-authenticate"))


class Tokens(TokenCase):
    def test_each_algorithm(self):
        for kind in ("RS256", "ES256", "EdDSA", "PS256"):
            with self.subTest(kind=kind):
                issuer = self.issuer if kind == self.issuer.kind else Issuer(self.folder.name, kind)
                gateway = self.guarded(self.serve(issuer).url)
                for _ in range(3):  # not remembered, and remembered
                    self.assert_status(self.get(gateway, "/show", fields=bearer(issuer.token())), 200)
                forged = Issuer(self.folder.name, kind, "other").token({"kid": "a"})
                answer = self.get(gateway, "/show", fields=bearer(forged))
                self.assert_refused(answer, "the signature of the token is wrong")

    def test_what_is_refused(self):
        issuer = self.issuer
        gateway = self.guarded(
            self.serve(issuer).url, issuer="https://id.test", audience=["shop", "till"], leeway="0s")  # fmt: skip
        mine = {"iss": "https://id.test", "aud": "shop"}
        good = issuer.token(**mine)
        head, body, signature = good.split(".")
        unsigned = encode(json.dumps({"alg": "none", "kid": "a"}).encode()) + "." + body
        algorithm, wrong = "the algorithm of the token is not allowed", "the signature of the token is wrong"
        parts = "the token is no signed token (three parts between dots, RFC 7515 section 3.1)"
        for token, description in (
            (issuer.token(**mine, expires=-1), "the token has expired"),
            (issuer.token(**mine, expires=None), "the token does not say when it expires"),
            (issuer.token(**mine, nbf=4_000_000_000), "the token is not valid yet"),
            (issuer.token(**mine, iat=4_000_000_000), "the token is not valid yet"),
            (issuer.token(**mine | {"aud": "other"}), "the token is for another audience"),
            (issuer.token(iss="https://id.test"), "the token is for another audience"),
            (issuer.token(**mine | {"iss": "https://id.test/"}), "the issuer of the token is another one"),
            (issuer.token({"crit": ["exp"]}, **mine), "the token demands an extension (crit) that is not supported"),
            (issuer.confused(**mine), algorithm), (f"{unsigned}.", algorithm), (f"{unsigned}.{signature}", algorithm),
            (issuer.token({"alg": "RS512"}, **mine), wrong), (issuer.token({"alg": "ES256"}, **mine), algorithm),
            (f"{head}.{body}.", wrong), (f"{head}.{body}.{signature[:-4]}AAAA", wrong), (f"{head}.{body}", parts),
            ("a.b.c.d.e", "the token is encrypted, which is not supported"), ("x" * 17_000, "the token is too large"),
        ):  # fmt: skip
            with self.subTest(description=description, token=token[:80]):
                self.assert_refused(self.get(gateway, "/show", fields=bearer(token)), description)
        self.assertEqual(self.origin.seen, [])
        for fields in ([], [("Authorization", good)], [("Authorization", "Basic YTpi")], bearer(good) * 2, bearer("")):
            answer = self.get(gateway, "/show", fields=fields)
            self.assert_problem(answer, 401)
            self.assertEqual(answer.get("www-authenticate"), CHALLENGE)
        self.assert_status(self.get(gateway, "/show", fields=bearer(good)), 200)
        listed = issuer.token(**mine | {"aud": ["x", "till"]})
        self.assert_status(self.get(gateway, "/show", fields=bearer(listed)), 200)
        self.assertEqual(self.refused(gateway, "/", "credentials"), 23)
        self.assertNotIn(signature, gateway.output())

    def test_scopes(self):
        gateway = self.guarded(self.serve(self.issuer).url, scopes=["read", "write"], allow={"realm": "shop"}.items())
        self.assert_status(self.get(gateway, "/show", fields=bearer(self.issuer.token(scope="a write read"))), 200)
        answer = self.get(gateway, "/show", fields=bearer(self.issuer.token(scope="read")))
        self.assert_problem(answer, 403)
        self.assertEqual(
            answer.get("www-authenticate"),
            'Bearer realm="shop", error="insufficient_scope", '
            'error_description="the token has not the scopes that are needed", scope="read write"',
        )
        self.assertEqual(self.refused(gateway, "/", "scope"), 1)

    def test_claims_are_fields_that_nobody_can_forge(self):
        claims = {"X-User": "sub", "X-Roles": "realm_access.roles", "X-None": "none"}
        allow = {"jwt": {"jwks": self.serve(self.issuer).url, "claims": claims}, "preflight": True}
        gateway = self.guarded(allow["jwt"]["jwks"], route("/cors", "web", allow=allow), claims=claims)
        forged = [("X-User", "root"), ("X_User", "root"), ("x-roles", "admin"), ("X_None", "y"), ("X-None", "y")]
        token = self.issuer.token(sub="ann", realm_access={"roles": ["a", "b"]})
        for fields in (bearer(token) + forged, forged + bearer(token)):
            self.assert_status(self.get(gateway, "/show", fields=fields), 200)
            seen = self.seen()
            told = {name: value for name, value in seen.items() if "user" in name or "roles" in name or "none" in name}
            self.assertEqual(told, {"x-user": "ann", "x-roles": "a,b"})
        asks = [("Origin", "http://a.test"), ("Access-Control-Request-Method", "PUT")]
        self.assert_status(self.get(gateway, "/cors/show", fields=asks + forged, method="OPTIONS"), 200)
        self.assertEqual({"x-user", "x_user", "x-roles", "x_none", "x-none"} & set(self.seen()), set())
        self.assert_status(self.get(gateway, "/show", fields=asks, method="OPTIONS"), 401)
        for odd in ("a\r\nX-Admin: 1", "a\u202eb", " ann", {"a": 1}, "x" * 5000):
            answer = self.get(gateway, "/show", fields=bearer(self.issuer.token(sub=odd)))
            self.assert_refused(answer, "a claim of the token cannot be passed on")
        self.assert_status(self.get(gateway, "/show", fields=bearer(self.issuer.token(sub="Zoë"))), 200)

    def test_two_users_never_see_each_others_answers(self):
        """By the token alone, by a claim that the service is told, and by a cookie that the cache does not know."""
        url = self.serve(self.issuer).url
        gateway = self.guarded(
            url,
            route("/told", "web", cache=True, allow={"jwt": {"jwks": url, "claims": {"X-User": "sub"}}}),
            route("/cookie", "web", cache="1h", allow={"jwt": {"jwks": url, "from": "cookie:session"}}))  # fmt: skip
        ann, bob = self.issuer.token(sub="ann"), self.issuer.token(sub="bob")
        for path, fields in (
            ("", bearer), ("/told", bearer), ("/cookie", lambda token: [("Cookie", f"a=b; session={token}")]),
        ):  # fmt: skip
            for target, serials in (
                (path + STORED, [1, 2, 3, 4]), (path + PUBLIC, [1, 2, 1, 2] if path == "/told" else [1, 1, 1, 1]),
            ):  # fmt: skip
                found = [self.get(gateway, target, fields=fields(token)) for token in (ann, bob, ann, bob)]
                self.assertEqual([int(answer.body.split()[1]) for answer in found], serials, target)
                expired = self.issuer.token(sub="ann", expires=-100)
                for other in ([], fields(expired), fields("x"), [("X-User", "ann")]):
                    for more in ([], [("If-None-Match", "*")], [("Range", "bytes=0-0")],
                                 [("Cache-Control", "only-if-cached")]):  # fmt: skip
                        for method in ("GET", "HEAD"):
                            answer = self.get(gateway, target, fields=other + more, method=method)
                            self.assert_status(answer, 401)

    def test_a_token_in_a_cookie_or_a_field(self):
        url = self.serve(self.issuer).url
        gateway = self.guarded(
            url, route("/field", "web", allow={"jwt": {"jwks": url, "from": "header:X-Token"}}),
            **{"from": "cookie:session"})  # fmt: skip
        token = self.issuer.token()
        cookie, field = [("Cookie", f"session={token}")], [("X-Token", token)]
        for target, fields, status in (
            ("/show", cookie, 200), ("/show", field, 401), ("/show", bearer(token), 401), ("/field/show", field, 200),
            ("/field/show", cookie, 401), ("/field/show", field * 2, 401), ("/show", cookie * 2, 401),
            ("/show", [("Cookie", f"xsession={token}")], 401),
        ):  # fmt: skip
            self.assert_status(self.get(gateway, target, fields=fields), status)

    def test_a_token_in_one_of_several_cookies(self):
        """Clients of HTTP/2 send a field for each (RFC 9113 §8.2.3); answers are stored and not."""
        gateway = self.guarded(self.serve(self.issuer).url, **{"from": "cookie:session"})
        session, other = ("cookie", f"session={self.issuer.token()}"), ("cookie", "theme=dark")
        client = http2_client.Client(gateway.address)
        self.addCleanup(client.socket.close)
        for fields, status in (
            ([session], 200), ([other, session], 200), ([session, other], 200), ([other, ("x", "y"), session], 200),
            ([other, other], 401), ([session, session], 401), ([], 401),
        ):  # fmt: skip
            for target in ("/show", PUBLIC, PUBLIC):
                self.assertEqual(client.request("GET", target, fields).status, status, f"{target} {fields}")

    def test_over_http2_and_upgrades(self):
        url = self.serve(self.issuer).url
        told = {"jwt": {"jwks": url, "claims": {"X-User": "sub"}}}
        gateway = self.guarded(url, route("/told", "web", cache=True, allow=told))
        token = self.issuer.token(sub="ann")
        client = http2_client.Client(gateway.address)
        self.addCleanup(client.socket.close)
        mine = [("authorization", f"Bearer {token}")]
        for target in (PUBLIC, "/told" + PUBLIC):
            for fields, statuses in ((mine, [200, 200, 200]), ([], [401]), ([("authorization", "Bearer x")], [401])):
                found = [client.request("GET", target, fields, host="demo.test").status for _ in statuses]
                self.assertEqual(found, statuses, target)
        client.request("GET", "/told/show", [*mine, ("x-user", "root"), ("x_user", "root")], host="demo.test")
        self.assertEqual({name: value for name, value in self.seen().items() if "user" in name}, {"x-user": "ann"})
        switch = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                  ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]  # fmt: skip
        before = len(self.origin.seen)
        with open_client(gateway) as plain:
            self.assert_status(plain.request("GET", "/ws", switch), 401)
        pseudo = [(":protocol", "websocket")]
        version = [("sec-websocket-version", "13")]
        stream = client.begin("CONNECT", "/ws", version, host="demo.test", end=False, pseudo=pseudo)
        self.assertEqual(client.answer(stream).status, 401)
        self.assertEqual(len(self.origin.seen), before)
        with socket.create_connection(gateway.address, timeout=20) as connection:
            fields = "".join(f"{name}: {value}\r\n" for name, value in [*switch, *bearer(token), ("Host", "a")])
            connection.sendall(f"GET /ws HTTP/1.1\r\n{fields}\r\n".encode())
            self.assertIn(b" 101 ", connection.recv(100))

    def test_beside_a_password(self):
        """Both have to be right. In one field they cannot be."""
        users = Path(self.folder.name) / "users"
        htpasswd(users, "ann", "x", "-c")
        url = self.serve(self.issuer).url
        with self.assertRaises(GatewayError) as raised:
            self.guarded(url, allow={"basic": str(users)}.items())
        self.assertIn("cannot both be in `Authorization`", str(raised.exception))
        gateway = self.guarded(url, allow={"basic": str(users)}.items(), **{"from": "cookie:s"})
        password, cookie = [("Authorization", "Basic YW5uOng=")], [("Cookie", f"s={self.issuer.token()}")]
        for fields, status in ((password + cookie, 200), (password, 401), (cookie, 401), (password + cookie, 200)):
            self.assert_status(self.get(gateway, "/show", fields=fields), status)


class Keys(TokenCase):
    def status(self, gateway):
        done = subprocess.run([BINARY, "status", "--json", "--config", gateway.folder / "pilotlight.toml"],
                              capture_output=True, text=True, timeout=20)  # fmt: skip
        return json.loads(done.stdout)["jwks"][0]

    def test_rotation(self):
        """A token by a new key has the keys fetched at once; one by a key that is gone is refused then."""
        new = Issuer(self.folder.name, "ES256", "new")
        server = self.serve(self.issuer)
        gateway = self.guarded(server.url)
        old, fresh = self.issuer.token(), new.token()
        self.assert_status(self.get(gateway, "/show", fields=bearer(old)), 200)
        server.issuers = [new]
        self.assert_status(self.get(gateway, "/show", fields=bearer(fresh)), 200)
        self.assertEqual(server.asked, 2)
        self.assert_refused(self.get(gateway, "/show", fields=bearer(old)), "the token was signed by an unknown key")
        for number in range(20):
            token = new.token({"kid": f"guess-{number}"})
            answer = self.get(gateway, "/show", fields=bearer(token))
            self.assert_refused(answer, "the token was signed by an unknown key")
        self.assertEqual(server.asked, 2, "guesses do not have it asked")
        self.assert_status(self.get(gateway, "/show", fields=bearer(fresh)), 200)

    def test_keys_are_fetched_again_and_again(self):
        new = Issuer(self.folder.name, "ES256", "later")
        server = self.serve(self.issuer)
        server.fields = [("Cache-Control", "max-age=3600")]
        gateway = self.guarded(server.url, refresh="1s")
        self.assert_status(self.get(gateway, "/show", fields=bearer(self.issuer.token())), 200)
        server.issuers = [new]
        old = self.issuer.token()
        eventually(lambda: self.get(gateway, "/show", fields=bearer(old)).status == 401)
        self.assert_status(self.get(gateway, "/show", fields=bearer(new.token())), 200)

    def test_the_url_is_away(self):
        """At the start: 503 until it is there. Later: the keys that are there are used."""
        server = KeyServer(self.issuer)
        server.server_close()
        gateway = self.guarded(server.url, refresh="1s")
        token = bearer(self.issuer.token())
        answer = self.get(gateway, "/show", fields=token)
        self.assert_problem(answer, 503)
        self.assertEqual((answer.get("retry-after"), self.origin.seen), ("5", []))
        self.assertEqual(self.refused(gateway, "/", "keys"), 1)
        self.assert_logged(gateway, "requests that need them get 503 until there are")
        self.assert_status(self.get(gateway, "/show"), 401)
        self.assertIn("no connection to 127.0.0.1", self.status(gateway)["error"])
        with KeyServer(self.issuer, port=server.server_address[1]):
            eventually(lambda: self.get(gateway, "/show", fields=token).status == 200)
        eventually(lambda: "those of before are used for up to 24 h" in gateway.output())
        self.assert_status(self.get(gateway, "/show", fields=bearer(self.issuer.token(sub="new"))), 200)
        self.assertEqual(self.status(gateway)["keys"], 1)
        gateway.signal(1)  # the routes are made anew, the keys are not
        eventually(lambda: "reloaded" in gateway.output())
        self.assert_status(self.get(gateway, "/show", fields=bearer(self.issuer.token(sub="newer"))), 200)

    def test_what_is_no_set_of_keys_changes_nothing(self):
        server = self.serve(self.issuer)
        gateway = self.guarded(server.url, refresh="1s")
        token = bearer(self.issuer.token())
        self.assert_status(self.get(gateway, "/show", fields=token), 200)
        for status, body, reason in (
            (200, b"<html>", "it is no set of keys"), (200, b'{"keys":[]}', "none of the 0 keys"),
            (200, b" " * 600_000, "the answer cannot be read"), (302, b"", "the answer was 302 Found, not 200"),
            (500, None, "the answer was 500 Internal Server Error, not 200"),
        ):  # fmt: skip
            self.change(server, status, body)
            self.assertTrue(eventually(lambda reason=reason: reason in (self.status(gateway)["error"] or "")), reason)
            self.assert_status(self.get(gateway, "/show", fields=token), 200)
            # After errors in a row, the gateway would wait longer each time.
            self.change(server, 200, None)
            self.assert_eventually(lambda: self.status(gateway)["error"] is None, "the error is still there")

    def change(self, server, status, body):
        """Returns after the gateway has asked for the keys again."""
        server.status, server.body, before = status, body, server.asked
        self.assert_eventually(lambda: server.asked > before, "the keys are not asked for again", 30)

    def test_over_https(self):
        """By the authority that the configuration names, and by no other."""
        authority = Authority(self.folder.name)
        certificate, key = authority.issue("127.0.0.1")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = self.serve(self.issuer, context=context)
        token = bearer(self.issuer.token())
        gateway = self.guarded(server.url, ca=str(authority.certificate))
        self.assert_status(self.get(gateway, "/show", fields=token), 200)
        strange = Authority(self.folder.name, "strange")
        gateway = self.guarded(server.url, ca=str(strange.certificate))
        self.assert_status(self.get(gateway, "/show", fields=token), 503)
        self.assertIn("certificate", self.status(gateway)["error"])

    def test_a_file_is_followed(self):
        file = Path(self.folder.name) / "keys.json"
        file.write_text(json.dumps({"keys": [self.issuer.jwk()]}))
        new = Issuer(self.folder.name, "EdDSA", "in-file")
        gateway = self.guarded(str(file))
        old = bearer(self.issuer.token())
        self.assert_status(self.get(gateway, "/show", fields=old), 200)
        file.write_text("broken")
        eventually(lambda: "there are no new keys from" in gateway.output())
        self.assert_status(self.get(gateway, "/show", fields=old), 200)
        file.write_text(json.dumps({"keys": [new.jwk()]}))
        eventually(lambda: self.get(gateway, "/show", fields=bearer(new.token())).status == 200)
        self.assert_status(self.get(gateway, "/show", fields=old), 401)

    def test_check_and_explain(self):
        with tempfile.TemporaryDirectory() as folder:
            for keys, expected in (
                (None, "No such file"), ("{}", "it is no set of keys"),
                ('{"keys":[{"kty":"oct","k":"AAAA"}]}', "it is a shared secret, which could also sign"),
            ):  # fmt: skip
                file = Path(folder) / "keys.json"
                file.write_text(keys) if keys else file.unlink(missing_ok=True)
                guarded = route("/", "web", allow={"jwt": {"jwks": str(file)}})
                text = config(service("web", url="http://127.0.0.1:9"), guarded)
                (Path(folder) / "pilotlight.toml").write_text(text)
                done = subprocess.run([BINARY, "check", "--config", Path(folder) / "pilotlight.toml"],
                                      capture_output=True, text=True, timeout=20)  # fmt: skip
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(expected, done.stdout + done.stderr)
        url = self.serve(self.issuer).url
        gateway = self.guarded(url, issuer="https://id.test", audience="shop", scopes=["read"])
        command = [BINARY, "explain", "/x", "--config", gateway.folder / "pilotlight.toml"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
        demands = "issuer https://id.test, audience shop, scope read, else 401"
        self.assertIn(f"allow.jwt: tokens signed by the keys of {url}, {demands}", told)


if __name__ == "__main__":
    unittest.main()
