"""`pilotlight.asgi`: ASGI 3.0 for HTTP and lifespan, by what the gateway's side sees."""

import importlib.util
import json
import os
import signal
import struct
import unittest

from harness import (
    CANCELLED, DATA, DRAIN, END, INFO, INTERNAL, RESET, RESPONSE, SDK, STOP, TRAILERS, GatewayCase, frame, request,
    reset,
)

SERVE = """
import asyncio, json
from pilotlight import asgi
START, BODY = "http.response.start", "http.response.body"

async def answer(send, body=b"", status=200, headers=(), **more):
    await send({"type": START, "status": status, "headers": headers, **more})
    await send({"type": BODY, "body": body})

def http(function):
    async def app(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        await function(scope, receive, send)
    return app
"""
SCOPE = SERVE + """
@http
async def app(scope, receive, send):
    shown = {key: repr(value) for key, value in scope.items()}
    await answer(send, json.dumps(shown).encode())
"""
LIFESPAN = SERVE + """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"]["made"] = "at the start"
        print("up", flush=True)
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        print("down", flush=True)
        return await send({"type": "lifespan.shutdown.complete"})
    scope["state"]["own"] = 1
    await asyncio.sleep(0.2)
    await answer(send, repr(scope["state"]).encode())
asgi.serve(app)
"""


class AsgiCase(GatewayCase):
    def app(self, body, source=SERVE, **settings):
        """A service whose application has this body; its first connection."""
        lines = "\n    ".join(body.strip().splitlines())
        words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        text = f"{source}\n@http\nasync def app(scope, receive, send):\n    {lines}\nasgi.serve(app, {words})\n"
        return self.serve(text)

    def one(self, connection, exchange=1, target="/", **more):
        connection.send(request(exchange, target, **more))
        return connection.next()


class Scopes(AsgiCase):
    def scope(self, target="/", mount="", **more):
        connection = self.serve(SCOPE + f"asgi.serve(app, mount={mount!r})")
        return {key: eval(value) for key, value in json.loads(self.one(connection, target=target, **more).body).items()}

    def test_every_key_as_the_specification_has_it(self):
        headers = [("accept", "*/*"), ("x-twice", "1"), ("x-twice", "2"), ("x-latin", "\xe4")]
        scope = self.scope("/caf%C3%A9/a%2Fb?q=%20&r", method="PUT", headers=headers, deadline_ms=5000)
        self.assertEqual(scope["type"], "http")
        self.assertEqual(scope["asgi"], {"version": "3.0", "spec_version": "2.5"})
        self.assertEqual((scope["http_version"], scope["method"], scope["scheme"]), ("1.1", "PUT", "http"))
        self.assertEqual((scope["path"], scope["raw_path"]), ("/café/a/b", b"/caf%C3%A9/a%2Fb"))
        self.assertEqual((scope["query_string"], scope["root_path"]), (b"q=%20&r", ""))
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        self.assertEqual(scope["headers"], [(b"host", b"localhost:8080"), *pairs])
        self.assertEqual((scope["client"], scope["server"]), (("127.0.0.1", 5), ("localhost", 8080)))
        self.assertEqual(scope["state"], {})
        self.assertEqual(scope["extensions"]["http.response.trailers"], {})
        self.assertEqual(scope["extensions"]["pilotlight"]["id"], "request-1")
        self.assertIsInstance(scope["extensions"]["pilotlight"]["deadline"], float)

    def test_the_port_is_that_of_the_scheme(self):
        self.assertEqual(self.scope(authority="[::1]")["server"], ("::1", 80))
        self.assertIsNone(self.scope(authority="")["server"])

    def test_a_mount_is_the_root_path_and_stays_in_the_path(self):
        scope = self.scope("/shop/cart", mount="/shop/")
        self.assertEqual((scope["root_path"], scope["path"]), ("/shop", "/shop/cart"))

    def test_what_is_not_below_the_mount_is_not_found(self):
        connection = self.serve(SCOPE + "asgi.serve(app, mount='/shop')")
        self.assertEqual(self.one(connection, target="/shopping").status, 404)
        self.assertEqual(self.one(connection, target="/shop").status, 200)


class Tasks(AsgiCase):
    """What an application may do with its task, and with `receive` and `send`, before it first waits and after."""

    def test_the_task_is_the_same_before_and_after_a_wait(self):
        connection = self.app("""
before = asyncio.current_task()
await asyncio.sleep(0)
await answer(send, repr([before is asyncio.current_task(), before.done()]).encode())""")
        self.assertEqual(self.one(connection).body, b"[True, False]")

    def test_receive_can_be_a_task_of_its_own(self):
        connection = self.app("""
first = asyncio.create_task(receive())
message = await first
second = asyncio.create_task(receive())
done, _ = await asyncio.wait({second}, timeout=0.01)
await answer(send, repr([message, len(done)]).encode())""")
        whole = {"type": "http.request", "body": b"abc", "more_body": False}
        connection.send(request(1, "/", b"abc"))
        self.assertEqual(eval(connection.next().body), [whole, 0])

    def test_a_limit_of_time_within_the_application(self):
        connection = self.app("""
try:
    await asyncio.wait_for(asyncio.sleep(60), 0.01)
except asyncio.TimeoutError:
    await answer(send, b"in time")""")
        self.assertEqual(self.one(connection).body, b"in time")

    def test_variables_of_one_request_are_not_those_of_the_next(self):
        connection = self.app("""
import contextvars
global known
known = globals().get("known") or contextvars.ContextVar("known", default=0)
known.set(known.get() + 1)
await answer(send, b"%d" % known.get())""")
        self.assertEqual([self.one(connection, number).body for number in (1, 2)], [b"1", b"1"])

    def test_after_the_answer_there_is_only_the_end(self):
        connection = self.app("""
await answer(send, b"first")
try:
    await send({"type": BODY, "body": b"second"})
except RuntimeError as error:
    print(await receive(), error, flush=True)""")
        self.assertEqual(self.one(connection).body, b"first")
        self.assertTrue(self.line().startswith(b"{'type': 'http.disconnect'} 'http.response.body' was sent"))
        self.assertEqual(self.one(connection, 2).body, b"first")

    def test_one_that_fails_after_the_start_of_its_answer_and_one_after_its_end(self):
        connection = self.app("""
await send({"type": START, "status": 200, "headers": []})
if scope["path"] == "/late":
    await send({"type": BODY, "body": b"whole"})
raise KeyError("as asked")""")
        early, late = self.one(connection), self.one(connection, 2, "/late")
        self.assertEqual((early.kind, early.code), (RESET, INTERNAL))
        self.assertEqual((late.kind, late.body), (RESPONSE, b"whole"))

    def test_fields_from_a_generator_and_a_body_that_is_no_bytes(self):
        connection = self.app("""
fields = ((name, b"1") for name in (b"a", b"b"))
await send({"type": START, "status": 200, "headers": fields})
await send({"type": BODY, "body": bytearray(b"text")})""")
        got = self.one(connection)
        self.assertEqual((got.headers, got.body), ([("a", "1"), ("b", "1")], b"text"))

    def test_an_application_that_is_an_object(self):
        connection = self.serve(SERVE + """
class Called:
    async def __call__(self, scope, receive, send):
        await answer(send, b"called")

asgi.serve(Called(), lifespan="off")""")
        self.assertEqual(self.one(connection).body, b"called")


class Answers(AsgiCase):
    def test_a_whole_one_is_one_frame(self):
        headers = "[(b'X-A', b'1'), (b'x-a', b'2'), (b'connection', b'close')]"
        connection = self.app(f"await answer(send, b'hi', 201, {headers})")
        got = self.one(connection)
        self.assertEqual((got.kind, got.end, got.status, got.body), (RESPONSE, True, 201, b"hi"))
        self.assertEqual(got.headers, [("x-a", "1"), ("x-a", "2")])

    def test_a_stream_comes_on_an_answer_connection(self):
        connection = self.app("""
await send({"type": START, "status": 200})
for number in range(3):
    await send({"type": BODY, "body": b"%d" % number * 40000, "more_body": True})
await send({"type": BODY})""")
        connection.send(request(7))
        first, body, trailers = self.accept().answer(7)
        self.assertEqual(body, b"0" * 40000 + b"1" * 40000 + b"2" * 40000)

    def test_trailers(self):
        connection = self.app("""
await answer(send, b"body", trailers=True)
await send({"type": "http.response.trailers", "headers": [(b"x-a", b"1")], "more_trailers": True})
await send({"type": "http.response.trailers", "headers": [(b"x-b", b"2")]})""")
        connection.send(request(7))
        _, body, trailers = self.accept().answer(7)
        self.assertEqual((body, trailers), (b"body", [("x-a", "1"), ("x-b", "2")]))

    def test_early_hints_are_info(self):
        connection = self.app("""
await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
await answer(send, b"body")""")
        connection.send(request(7))
        answers = self.accept()
        hint = answers.next()
        self.assertEqual((hint.kind, hint.status, hint.headers), (INFO, 103, [("link", "</a.css>; rel=preload")]))
        self.assertEqual(answers.answer(7)[1], b"body")

    def test_head_and_no_content_have_no_body(self):
        connection = self.app("await answer(send, b'body', 204 if scope['path'] == '/204' else 200)")
        self.assertEqual(self.one(connection, method="HEAD").body, b"")
        self.assertEqual(self.one(connection, 2, "/204").body, b"")

    def test_a_wrong_length_is_an_error_of_the_application(self):
        for body in ("abc", "abcdefg"):
            connection = self.app(f"await answer(send, {body.encode()!r}, headers=[(b'content-length', b'5')])")
            got = self.one(connection)
            self.assertEqual((got.kind, got.code), (RESET, INTERNAL))
            self.assertIn("its content-length says 5", self.stderr())

    def test_messages_out_of_order_are_errors(self):
        for lines, text in [
            ("await send({'type': BODY})", "may be"),
            ("await send({'type': START, 'status': 99})", "it must be 200 to 999"),
            ("await answer(send, headers=[(b'x', b'a\\r\\nb')])", "P-8"),
            ("return", "without a whole answer"),
        ]:
            got = self.one(self.app(lines))
            self.assertEqual((got.kind, got.code), (RESET, INTERNAL), lines)
            self.assertIn(text, self.stderr() + got.text)

    def test_an_error_after_the_answer_changes_nothing(self):
        connection = self.app("await answer(send, b'x')\nraise KeyError('late')")
        self.assertEqual(self.one(connection).status, 200)
        self.assertEqual(self.one(connection, 2).status, 200)
        self.eventually(lambda: self.stderr().count("KeyError: 'late'") == 2)

    def test_refused_and_overloaded(self):
        connection = self.app("raise pilotlight.Overloaded('later', retry_after=2)")
        got = self.one(connection)
        self.assertEqual((got.code, got.retry_after_ms), (4, 2000))

    def test_backpressure_holds_what_the_gateway_does_not_read(self):
        connection = self.app("""
if scope["path"] == "/count":
    return await answer(send, str(done[0]).encode())
await send({"type": START, "status": 200})
for _ in range(4000):
    await send({"type": BODY, "body": bytes(65000), "more_body": True})
    done[0] += 1
await send({"type": BODY})""", SERVE + "done = [0]\n")
        connection.send(request(7))
        answers = self.accept()
        self.assertEqual(answers.next().kind, RESPONSE)
        counts = [int(self.one(connection, 8, "/count").body) for _ in range(20)]
        self.assertLess(counts[-1], 100)
        answers.close()


class Requests(AsgiCase):
    READ = """
pieces = []
while True:
    message = await receive()
    if message["type"] == "http.disconnect":
        print("gone", flush=True)
        return
    pieces.append(message["body"])
    if not message["more_body"]:
        break
await answer(send, b"|".join(pieces))"""

    def test_a_body_comes_piece_by_piece(self):
        own = self.own(self.app(self.READ))
        own.send(request(1, body=b"one", method="POST", end=False))
        own.send(frame(DATA, 1, b"two"), frame(DATA, 1, b"", END))
        self.assertEqual(own.next().body.replace(b"|", b""), b"onetwo")

    def test_trailers_of_the_request_end_it(self):
        own = self.own(self.app(self.READ))
        own.send(request(1, body=b"one", method="POST", end=False), frame(TRAILERS, 1, b"x-a\x001\0"))
        self.assertEqual(own.next().body.replace(b"|", b""), b"one")

    def test_the_client_goes_while_it_sends(self):
        own = self.own(self.app(self.READ))
        own.send(request(1, body=b"half", method="POST", end=False), reset(1, CANCELLED))
        self.assertEqual(own.next().kind, RESET)
        self.assertEqual(self.line(), b"gone\n")
        own.send(request(2, body=b"whole", method="POST"))
        self.assertEqual(own.next().body, b"whole")

    def test_stop_when_the_body_is_not_read(self):
        own = self.own(self.app("await answer(send, b'early', 413)"))
        own.send(request(1, body=b"half", method="POST", end=False))
        self.assertEqual(own.next().kind, STOP)
        self.assertEqual(own.next().status, 413)
        own.send(frame(DATA, 1, b"more"), frame(DATA, 1, b"", END), request(2))
        self.assertEqual(own.next().status, 413)

    def test_receive_waits_for_the_end_of_the_answer(self):
        connection = self.app("""
await receive()
async def watch():
    print((await receive())["type"], flush=True)
task = asyncio.ensure_future(watch())
await asyncio.sleep(0)
await answer(send, b"x")
await task""")
        self.assertEqual(self.one(connection).status, 200)
        self.assertEqual(self.line(), b"http.disconnect\n")


class Cancels(AsgiCase):
    def test_receive_and_send_tell_of_it(self):
        connection = self.app("""
await receive()
print((await receive())["type"], flush=True)
try:
    await send({"type": START, "status": 200})
except OSError as error:
    print(type(error).__name__, flush=True)""")
        connection.send(request(1), reset(1, CANCELLED))
        got = connection.next()
        self.assertEqual((got.kind, got.code), (RESET, CANCELLED))
        self.assertEqual([self.line(), self.line()], [b"http.disconnect\n", b"Disconnected\n"])

    def test_a_task_that_does_not_listen_is_cancelled(self):
        connection = self.app("""
try:
    await asyncio.sleep(100)
finally:
    print("cancelled", flush=True)""", patience_s=0.05)
        connection.send(request(1), reset(1, CANCELLED))
        self.assertEqual(connection.next().kind, RESET)
        self.assertEqual(self.line(), b"cancelled\n")

    def test_one_that_has_answered_is_left_alone(self):
        connection = self.app("""
await answer(send, b"x")
await asyncio.sleep(0.2)
print("done", flush=True)""", patience_s=0.01)
        self.assertEqual(self.one(connection).status, 200)
        connection.send(reset(1, CANCELLED))
        self.assertEqual(self.line(), b"done\n")


class Lifespans(AsgiCase):
    def test_startup_state_and_shutdown_behind_the_last_answer(self):
        connection = self.serve(LIFESPAN)
        self.assertEqual(self.line(), b"up\n")
        connection.send(request(1), frame(DRAIN, 0, struct.pack("<I", 5000)))
        self.assertEqual(connection.next().body, b"{'made': 'at the start', 'own': 1}")
        self.assertEqual(self.line(), b"down\n")
        self.assertEqual(self.exit_code(), 0)

    def test_sigterm_too(self):
        connection = self.serve(LIFESPAN)
        connection.send(request(1))
        self.assertEqual(self.line(), b"up\n")
        self.process.send_signal(signal.SIGTERM)
        kinds = [connection.next().kind, connection.next().kind]
        self.assertEqual(sorted(kinds), [RESPONSE, DRAIN])
        connection.send(frame(DRAIN, 0, struct.pack("<I", 5000)))
        self.assertEqual((self.line(), self.exit_code()), (b"down\n", 0))

    def test_state_is_copied_for_each_request(self):
        connection = self.serve(LIFESPAN)
        for exchange in (1, 2):
            self.assertEqual(self.one(connection, exchange).body, b"{'made': 'at the start', 'own': 1}")

    def test_a_start_that_fails(self):
        failing = SERVE + """
async def app(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})
asgi.serve(app)"""
        self.start(failing)
        self.assertEqual(self.exit_code(), 1)
        self.assertIn("the application's start failed: no database", self.stderr())

    def test_on_wants_one_and_off_has_none(self):
        self.start(SCOPE + "asgi.serve(app, lifespan='on')")
        self.assertEqual(self.exit_code(), 1)
        self.assertIn("the application has no lifespan", self.stderr())
        connection = self.serve(LIFESPAN.replace("asgi.serve(app)", "asgi.serve(app, lifespan='off')"))
        self.assertEqual(self.one(connection).body, b"{'own': 1}")


class CommandLine(AsgiCase):
    def test_a_factory_and_its_mount(self):
        with open(os.path.join(self.folder, "made.py"), "w") as file:
            file.write(SCOPE + "def create():\n    return app\n")
        words = ("-m", "pilotlight.asgi", "made:create", "--factory", "--mount", "/m", "--loop=asyncio")
        self.assertEqual(self.one(self.serve(None, *words), target="/m/x").status, 200)

    def test_misuse(self):
        for words in ([], ["a:b", "c:d"], ["a:b", "--loop", "none"]):
            self.start(None, "-m", "pilotlight.asgi", *words)
            self.assertEqual(self.exit_code(), 2, words)
            self.assertIn("usage:", self.stderr())

    @unittest.skipUnless(importlib.util.find_spec("uvloop"), "uvloop is not installed")
    def test_uvloop_serves_all_of_it(self):
        connection = self.serve(None, os.path.join(SDK, "demo_asgi.py"))
        connection.send(request(1, "/echo", body=b"hi"))
        self.assertEqual(connection.next().body, b"hi")
        with open(f"/proc/{self.process.pid}/maps") as file:
            maps = file.read()
        self.assertIn("uvloop", maps)


if __name__ == "__main__":
    unittest.main()
