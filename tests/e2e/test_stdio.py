"""Programs that speak JSON lines on their standard streams, over HTTP (docs/guide/stdio.md): sessions, streams, what is
sent again, limits, ends. The programs are stdio_program.py; test_mcp.py has those of others."""

import json
import re
import unittest
from pathlib import Path

from harness import BINARY, HERE, PYTHON, Cut, Gateway, TestCase, alive, config, descendants, eventually, in_threads
from harness import route, service, setUpModule

__all__ = ["setUpModule"]

PROGRAM = HERE / "stdio_program.py"
BOTH = "application/json, text/event-stream"
VERSION = "2025-06-18"
NEW = "2026-07-28"


def stdio(name="demo", mode="session", *args, options=None, **settings):
    """The configuration of one service."""
    argv = [PYTHON, "-B", str(PROGRAM), mode, *args]
    options = ({"mode": "lines"} if mode == "lines" else {}) | (options or {})
    return service(name, argv, transport="stdio", stdio=options, **settings)


def rpc(method, id_=None, /, **params):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return message | ({} if id_ is None else {"id": id_})


class Events:
    """An event stream as it comes: (id, message) for each event, the message none if it is empty."""

    def __init__(self, client, head, method="POST"):
        self.client, self.head = client, head
        self._pieces, self._text = client.body(head, method), b""
        self.comments = 0

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            event, found, rest = self._text.partition(b"\n\n")
            if not found:
                self._text += next(self._pieces)
                continue
            self._text = rest
            lines = dict(line.split(": ", 1) for line in event.decode().split("\n") if not line.startswith(":"))
            if lines:
                return lines.get("id"), json.loads(lines["data"]) if lines.get("data") else None
            self.comments += 1

    def messages(self):
        return [message for _, message in self if message is not None]


def answered(answer):
    """The answer to a request, whether it came as a stream or not."""
    if answer.get("content-type") == "text/event-stream":
        return json.loads(re.findall(r"^data: (\{.*)$", answer.body.decode(), re.MULTILINE)[-1])
    return json.loads(answer.body)


class Mcp:
    """A client of one session."""

    def __init__(self, gateway, path="/", version=VERSION):
        self.gateway, self.path, self.version, self.session = gateway, path, version, None
        self.last = 100

    def fields(self, accept=BOTH, **more):
        fields = {"Accept": accept, "Content-Type": "application/json"}
        if self.session:
            fields |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.version}
        fields |= {name.replace("_", "-"): value for name, value in more.items()}
        return [(name, value) for name, value in fields.items() if value is not None]

    def post(self, message, timeout=20.0, **fields):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.gateway.request("POST", self.path, self.fields(**fields), body, timeout)

    def begin(self, **params):
        answer = self.post(rpc("initialize", 0, protocolVersion=self.version, capabilities={}, **params))
        if answer.status == 200:
            self.session = answer.get("mcp-session-id")
            self.post(rpc("notifications/initialized"))
        return answer

    def call(self, method, **params):
        self.last += 1
        answer = self.post(rpc(method, self.last, **params))
        assert answer.status == 200, answer
        return answered(answer)

    def result(self, method, **params):
        answer = self.call(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def stream(self, method="POST", message=None, timeout=20.0, **fields):
        """Opens an event stream; whoever asks for it closes it (`events.client.close()`)."""
        client = self.gateway.client(timeout)
        body = json.dumps(message).encode() if message else b""
        lines = self.fields(**fields) + [("Content-Length", str(len(body)))] * bool(message)
        client.send_head(method, self.path, lines)
        client.send(body)
        head = client.head()
        assert head.status == 200, head
        assert head.get("content-type") == "text/event-stream", head
        return Events(client, head, method)

    def end(self):
        return self.gateway.request("DELETE", self.path, self.fields())


class StdioCase(TestCase):
    gateway = None

    def serve(self, *blocks, **settings):
        """A gateway with these blocks; without any, the one that the class shares, if it does."""
        if self.gateway and not blocks:
            return self.gateway
        return self.start(Gateway(BINARY, config(*(blocks or (stdio(), route())), **settings)))

    @classmethod
    def share_default(cls):
        cls.gateway = cls.share(Gateway(BINARY, config(stdio(), route())))

    def session(self, *blocks, version=VERSION, **settings):
        client = Mcp(self.serve(*blocks, **settings), version=version)
        self.assert_status(client.begin(), 200)
        return client

    def error(self, answer, status, word):
        """An error of JSON-RPC that says this."""
        self.assert_status(answer, status)
        error = answered(answer)
        self.assertIn(word, error["error"]["message"])
        return error

    def file(self, client, name="go"):
        return client.gateway.folder / f"{name}-{self.id()}"

    def programs(self, gateway):
        """The processes of programs that run."""
        return {pid for (pid, _), line in descendants(gateway.process.pid).items()
                if "stdio_program.py" in line and " -- " not in line}


class Sessions(StdioCase):
    @classmethod
    def setUpClass(cls):
        cls.share_default()

    def test_each_session_is_a_process_of_its_own(self):
        gateway = self.serve(stdio(), route())
        one, two = Mcp(gateway), Mcp(gateway)
        answer = one.begin()
        self.assertEqual(answered(answer)["result"]["protocolVersion"], VERSION)
        self.assertEqual(answer.get("cache-control"), "no-store")
        self.assertRegex(one.session, "^[0-9a-f]{32}$")
        two.begin()
        first, second = one.result("about"), two.result("about")
        self.assertNotEqual(first["pid"], second["pid"])
        self.assertEqual((one.result("about")["calls"], first["calls"]), (2, 1))
        self.assertEqual(first["heard"], [rpc("notifications/initialized")])
        self.assertFalse({"PILOTLIGHT_SOCKET", "PILOTLIGHT_TOKEN"} & set(first["environment"]))
        self.assert_status(one.end(), 204)
        self.assert_eventually(lambda: self.programs(gateway) == {second["pid"]}, "its process has ended")
        self.error(one.post(rpc("about", 9)), 404, "the client has ended it")
        self.assertEqual(two.result("about")["calls"], 2)

    def test_what_a_client_says_reaches_the_program_as_one_line(self):
        client = self.session()
        text = json.dumps(rpc("echo", 1, text="a\nb ü \u2028"), indent=2).encode()
        answer = client.post(text)
        self.assertEqual(json.loads(answer.body)["result"]["text"], "a\nb ü \u2028")
        self.assert_status(client.post({"jsonrpc": "2.0", "id": "from-server", "result": {}}), 202)
        self.assertEqual(client.result("about")["heard"][-1]["id"], "from-server")

    def test_what_is_no_good_request(self):
        client = self.session()
        call = rpc("about", 1)
        self.error(client.post(b"{"), 400, "not JSON")
        self.error(client.post(b"{}"), 400, "not a message of JSON-RPC")
        for wrong in ({}, [1], True, None):
            error = self.error(client.post(rpc("about", 1) | {"id": wrong}), 400, "not a message of JSON-RPC")
            self.assertEqual(error["error"]["code"], -32600)
        self.error(client.post(b"[]"), 400, "a batch")
        self.error(client.post(call, Content_Type="text/plain"), 415, "application/json")
        self.error(client.post(call, accept="text/html"), 406, "accept")
        self.error(client.post(call, MCP_Protocol_Version="1999-01-01"), 400, "2025-11-25")
        self.error(client.post(call, Mcp_Session_Id=None), 400, "mcp-session-id is missing")
        self.error(client.post(call, Mcp_Session_Id="0" * 32), 404, "no such session")
        self.assert_status(client.gateway.request("PUT", "/", client.fields(), b""), 405)
        with client.gateway.client() as one:
            self.error(one.request("GET", "/", client.fields(accept="application/json")), 406, "text/event-stream")
        self.assert_status(client.post(call), 200)

    def test_a_client_that_takes_no_streams(self):
        """What comes before the answer waits for a GET."""
        client = self.session()
        steps = rpc("steps", 1, count=2, _meta={"progressToken": "t"})
        answer = client.post(steps, accept="application/json")
        self.assertEqual(json.loads(answer.body)["result"], {"done": True})
        events = client.stream("GET")
        self.assertEqual([next(events)[1]["params"]["progress"] for _ in range(2)], [0, 1])
        events.client.close()

    def test_a_batch(self):
        client = self.session(version="2025-03-26")
        events = client.stream(message=[rpc("about", 1), rpc("notifications/x"), rpc("echo", 2, a=1)])
        self.assertEqual({message["id"] for message in events.messages()}, {1, 2})

    def test_pages_of_strangers(self):
        gateway = self.serve(stdio(options={"origins": ["https://app.example"]}), route())
        client = Mcp(gateway)
        call = rpc("initialize", 0, protocolVersion=VERSION)
        for origin in ("https://evil.example", "null", "http://demo.test"):
            self.error(client.post(call, Origin=origin), 403, "stdio.origins")
        self.assertEqual(self.programs(gateway), set())
        answer = client.post(call, Origin="https://app.example")
        self.assert_status(answer, 200)
        self.assertEqual(answer.get("access-control-allow-origin"), "https://app.example")
        self.assertEqual(answer.get("access-control-expose-headers"), "mcp-session-id")
        self.assert_status(client.post(call, Origin="http://localhost:6274"), 200)
        fields = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")]
        asked = gateway.request("OPTIONS", "/", fields)
        self.assert_status(asked, 204)
        self.assertIn("mcp-session-id", asked.get("access-control-allow-headers"))


class Streams(StdioCase):
    @classmethod
    def setUpClass(cls):
        cls.share_default()

    def test_progress_comes_before_the_answer(self):
        client = self.session()
        go = self.file(client)
        steps = rpc("steps", 1, count=3, wait_at=2, file=str(go), _meta={"progressToken": "t"})
        events = client.stream(message=steps)
        self.assertEqual([next(events)[1]["params"]["progress"] for _ in range(2)], [0, 1])
        go.touch()
        rest = events.messages()
        self.assertEqual([rest[0]["params"]["progress"], rest[1]["result"]], [2, {"done": True}])

    def test_requests_at_once(self):
        """Answers find their requests, in whatever order they come."""
        client = self.session()
        go = self.file(client)

        def one(number):
            if number % 2:
                return client.post(rpc("later", f"n{number}", file=str(go)))
            answer = client.post(rpc("echo", f"n{number}", number=number))
            return answer
        def run(number):
            if number == 20:
                eventually(lambda: False, 0.2)
                go.touch()
                return None
            return one(number)
        for number, answer in enumerate(in_threads(21, run)[:20]):
            self.assert_status(answer, 200)
            self.assertIn(f'"n{number}"'.encode(), answer.body)

    def test_a_cut_stream_goes_on_where_it_was(self):
        client = self.session()
        go = self.file(client)
        steps = rpc("steps", 1, count=5, wait_at=2, file=str(go), _meta={"progressToken": "t"})
        events = client.stream(message=steps)
        seen = [next(events) for _ in range(2)]
        events.client.close()
        go.touch()
        again = client.stream("GET", Last_Event_ID=seen[0][0])
        self.assertEqual([next(again)[1]["params"]["progress"] for _ in range(4)], [1, 2, 3, 4])
        last = list(again)
        self.assertEqual([message["result"] for _, message in last], [{"done": True}])
        # All of it was sent, and can be asked for once more.
        once_more = client.stream("GET", Last_Event_ID=seen[1][0])
        self.assertEqual(len(once_more.messages()), 4)
        with client.gateway.client() as one:
            answer = one.request("GET", "/", client.fields(Last_Event_ID="7-1"))
            self.error(answer, 400, "no event that is still kept")

    def test_a_client_of_2025_11_25_can_come_back_before_the_first_message(self):
        client = self.session(version="2025-11-25")
        go = self.file(client)
        events = client.stream(message=rpc("later", 1, file=str(go)))
        place, nothing = next(events)
        self.assertIsNone(nothing)
        events.client.close()
        go.touch()
        again = client.stream("GET", Last_Event_ID=place)
        self.assertEqual(again.messages(), [{"jsonrpc": "2.0", "id": 1, "result": {"later": True}}])

    def test_messages_that_belong_to_no_request(self):
        client = self.session()
        client.result("announce", number=1)  # nobody listens yet
        events = client.stream("GET")
        self.assertEqual(next(events)[1]["params"]["number"], 1)
        client.result("announce", number=2)
        number, message = next(events)
        self.assertEqual(message["params"]["number"], 2)
        # Another GET has the stream from then on.
        second = client.stream("GET")
        self.assertEqual(list(events), [])
        client.result("announce", number=3)
        self.assertEqual(next(second)[1]["params"]["number"], 3)
        second.client.close()
        again = client.stream("GET", Last_Event_ID=number)
        self.assertEqual(next(again)[1]["params"]["number"], 3)
        again.client.close()

    def test_the_program_asks_the_client(self):
        client = self.session()
        messages = client.stream(message=rpc("ask", 1)).messages()
        self.assertEqual([message.get("method", "answer") for message in messages], ["roots/list", "answer"])

    def test_a_cancelled_request_gets_no_answer(self):
        client = self.session()
        events = client.stream(message=rpc("never", 1))
        self.assert_status(client.post(rpc("notifications/cancelled", requestId=1)), 202)
        self.assertEqual(list(events), [])
        self.assertEqual(client.result("about")["heard"][-1]["params"], {"requestId": 1})

    def test_a_client_that_goes_away_has_cancelled_nothing(self):
        client = self.session()
        go = self.file(client)
        events = client.stream(message=rpc("later", 1, file=str(go)))
        events.client.close()
        go.touch()
        self.assertEqual(client.result("about")["heard"], [rpc("notifications/initialized")])

    def test_same_id_twice(self):
        client = self.session()
        events = client.stream(message=rpc("never", 1))
        self.error(client.post(rpc("about", 1)), 400, "same id")
        events.client.close()


class Ends(StdioCase):
    def test_a_program_that_dies_answers_with_an_error(self):
        client = self.session()
        waiting = client.stream(message=rpc("never", 1))
        error = client.call("die", status=7)
        self.assertIn("the program ended (exit status: 7)", error["error"]["message"])
        self.assertEqual([message["error"]["code"] for message in waiting.messages()], [-32000])
        self.error(client.post(rpc("about", 5)), 404, "exit status: 7")
        self.assert_logged(client.gateway, "I die")
        self.assert_status(client.gateway.request("GET", "/", client.fields()), 404)
        client.session = None
        self.assert_status(client.begin(), 200)

    def test_what_is_no_message_goes_to_the_log(self):
        client = self.session()
        self.assertEqual(client.call("noise")["result"], {"noise": True})
        said = "what is no message"
        self.assert_eventually(lambda: client.gateway.output().count(said) == 2, client.gateway.output())
        self.assert_logged(client.gateway, "this is no JSON")
        self.assert_logged(client.gateway, "and this is on the standard error")

    def test_a_program_that_cannot_be_started(self):
        gateway = self.serve(service("demo", ["/bin/sh", "-c", "exit 5"], transport="stdio", dir="@FOLDER@"), route())
        self.error(Mcp(gateway).begin(), 200, "exit status: 5")

    def test_a_program_that_says_nothing(self):
        gateway = self.serve(stdio(start_timeout="500ms"), route())
        answer = Mcp(gateway).post(rpc("initialize", 0, silent=True))
        self.assert_status(answer, 200)
        self.assertIn(b"start_timeout", answer.body)

    def test_a_program_that_refuses_the_client(self):
        gateway = self.serve()
        answer = Mcp(gateway).post(rpc("initialize", 0, refuse=True))
        self.assertEqual(answered(answer)["error"]["message"], "no")
        self.assert_eventually(lambda: not self.programs(gateway), "its process has ended")

    def test_stopping_leaves_nothing(self):
        """First the end of the input, then SIGTERM, then SIGKILL; also for what a program has started."""
        left = "left"
        gateway = self.serve(stdio("demo", "session", "@FOLDER@/left", stop_grace="1500ms"), route())
        polite, stubborn = Mcp(gateway), Mcp(gateway)
        polite.begin()
        stubborn.begin()
        stubborn.result("stubborn")
        family = descendants(gateway.process.pid)
        polite.end()
        self.assert_eventually((gateway.folder / left).exists, "it had the time to say that its input was closed")
        self.assert_eventually(lambda: len(self.programs(gateway)) == 2, "the polite one has gone, the others run on")
        stubborn.end()
        self.assert_eventually(lambda: not self.programs(gateway), "both are gone")
        polite.session = None
        polite.begin()
        self.assert_status(polite.post(rpc("about", 1)), 200)
        family |= descendants(gateway.process.pid)
        gateway.signal(15)
        self.assertEqual(gateway.wait(), 0)
        self.assertEqual((gateway.folder / left).read_text().count("closed"), 2)
        self.assert_eventually(lambda: not alive(family), "no process is left")

    def test_killed_gateway_leaves_nothing(self):
        client = self.session()
        client.result("stubborn")
        family = descendants(client.gateway.process.pid)
        client.gateway.process.kill()
        self.assert_eventually(lambda: not alive(family), "no process is left", 20)

    def test_restart_ends_streams_and_finishes_requests(self):
        client = self.session(stdio(options={"max_processes": 2}), route())
        go = self.file(client)
        events = client.stream("GET")
        running = client.stream(message=rpc("later", 1, file=str(go)))
        text = (client.gateway.folder / "pilotlight.toml").read_text()
        (client.gateway.folder / "pilotlight.toml").write_text(text.replace("max_processes = 2", "max_processes = 3"))
        client.gateway.signal(1)
        self.assertEqual(list(events), [])
        go.touch()
        self.assertEqual(running.messages()[-1]["result"], {"later": True})
        self.assert_eventually(lambda: client.post(rpc("about", 3)).status == 404, "the session is gone")


class Bounds(StdioCase):
    def test_a_line_that_is_too_long(self):
        client = self.session(stdio(options={"max_line": "64KiB"}), route())
        self.assertEqual(len(client.result("long", size=60_000)["text"]), 60_000)
        self.assertEqual(client.post(rpc("echo", 9, text="x" * 70_000)).status, 413)
        error = client.call("long", size=70_000)
        self.assertIn("stdio.max_line", error["error"]["message"])
        self.error(client.post(rpc("about", 5)), 404, "65536 bytes")

    def test_idle_ones_do_not_run(self):
        """Twenty services, each used once: no process is left, neither of programs nor of adapters."""
        names = [f"s{number}" for number in range(20)]
        blocks = [stdio(name, idle_timeout="1s") + route(f"/{name}", name) for name in names]
        gateway = self.serve(*blocks)
        clients = [Mcp(gateway, f"/{name}") for name in names]
        for client in clients:
            self.assert_status(client.begin(), 200)
            client.result("about")
        self.assertTrue(self.programs(gateway))
        def left():
            return [line for line in descendants(gateway.process.pid).values() if PROGRAM.name in line]
        self.assert_eventually(lambda: not left(), "processes are left", 30)
        self.error(clients[0].post(rpc("about", 5)), 404, "session")
        clients[0].session = None
        self.assert_status(clients[0].begin(), 200)

    def test_a_session_that_listens_only_is_idle(self):
        client = self.session(stdio(idle_timeout="1s"), route())
        other = Mcp(client.gateway)
        other.begin()
        events = client.stream("GET")
        held = other.stream(message=rpc("never", 1))  # an open request is no idleness
        self.assertEqual(list(events), [])
        self.error(client.post(rpc("about", 5)), 404, "idle_timeout")
        self.assertEqual(other.result("about")["calls"], 2)
        held.client.close()

    def test_at_most_so_many(self):
        gateway = self.serve(stdio(options={"max_processes": 2}), route())
        clients = [Mcp(gateway) for _ in range(3)]
        self.assert_status(clients[0].begin(), 200)
        self.assert_status(clients[1].begin(), 200)
        held = [client.stream(message=rpc("never", 1)) for client in clients[:2]]
        answer = clients[2].begin()
        self.error(answer, 503, "2 processes run already and are busy (stdio.max_processes)")
        self.assertEqual(answer.get("retry-after"), "1")
        clients[0].end()
        self.assert_status(clients[2].begin(), 200)
        for events in held:
            events.client.close()

    def test_clients_that_never_end_their_sessions_keep_nobody_out(self):
        """The session that has been unused longest makes room; its client is told to begin anew."""
        gateway = self.serve(stdio(options={"max_processes": 2}), route())
        clients = [Mcp(gateway) for _ in range(5)]
        for client in clients:
            self.assert_status(client.begin(), 200)
        for client in clients[:3]:
            self.error(client.post(rpc("about", 5)), 404, "unused for longest")
        self.assertEqual([client.result("about")["calls"] for client in clients[3:]], [1, 1])
        self.assert_status(Mcp(gateway).begin(), 200)
        self.error(clients[3].post(rpc("about", 6)), 404, "unused for longest")

    def test_who_has_most_sessions_makes_room_first(self):
        gateway = self.serve(stdio(options={"max_processes": 3}), route(), trust_forwarded=["127.0.0.1"])
        honest, greedy = Mcp(gateway), [Mcp(gateway) for _ in range(4)]
        begin = lambda client, address: client.post(  # noqa: E731
            rpc("initialize", 0, protocolVersion=VERSION, capabilities={}), X_Forwarded_For=address
        )
        honest.session = begin(honest, "192.0.2.1").get("mcp-session-id")
        for client in greedy:
            answer = begin(client, "192.0.2.2")
            self.assert_status(answer, 200)
            client.session = answer.get("mcp-session-id")
        self.assertEqual(honest.result("about")["calls"], 1)
        self.assertEqual([client.post(rpc("about", 5)).status for client in greedy], [404, 404, 200, 200])

    def test_a_program_that_reads_nothing(self):
        client = self.session()
        client.result("deaf")
        text = "x" * 50_000
        answers = in_threads(80, lambda number: client.post(rpc("notifications/x", text=text), timeout=60))
        statuses = {answer.status for answer in answers}
        self.assertEqual(statuses, {202, 503})
        self.assertTrue(any(b"messages wait for the program to read them" in answer.body for answer in answers))

    def test_a_client_that_reads_nothing(self):
        """What it does not take is not read of the program, so nobody's memory grows."""
        client = self.session(stdio(options={"replay_buffer": "64KiB"}), route())
        size, count = 50_000, 400
        steps = rpc("steps", 1, count=count, size=size, _meta={"progressToken": "t"})
        events = client.stream(message=steps, timeout=60)
        adapter = next(pid for (pid, _), line in descendants(client.gateway.process.pid).items() if " -- " in line)
        eventually(lambda: False, 1.0)  # time in which it could take everything
        rss = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{adapter}/status").read_text())[1])
        self.assertLess(rss, 40_000)
        got = events.messages()
        self.assertEqual([message["params"]["progress"] for message in got[:-1]], list(range(count)))


class Stateless(StdioCase):
    """Requests of MCP since 2026-07-28."""

    def fields(self, method, name=None, accept=BOTH):
        fields = [("Accept", accept), ("Content-Type", "application/json"), ("MCP-Protocol-Version", NEW)]
        return fields + [("Mcp-Method", method)] + ([("Mcp-Name", name)] if name else [])

    def request(self, gateway, method, number=1, accept=BOTH, fields=None, **params):
        meta = params.pop("_meta", {}) | {"io.modelcontextprotocol/protocolVersion": NEW}
        body = json.dumps(rpc(method, number, _meta=meta, **params)).encode()
        return gateway.request("POST", "/", fields or self.fields(method, params.get("name"), accept), body)

    def test_any_process_answers(self):
        gateway = self.serve(stdio("demo", "stateless"), route())
        answers = [self.request(gateway, "about", number) for number in range(3)]
        results = [answered(answer)["result"] for answer in answers]
        self.assertEqual({result["pid"] for result in results}, self.programs(gateway))
        self.assertEqual([answered(answer)["id"] for answer in answers], [0, 1, 2])
        self.assertIsNone(answers[0].get("mcp-session-id"))
        self.assert_status(self.request(gateway, "nothing"), 404)
        self.assertEqual(json.loads(self.request(gateway, "nothing").body)["error"]["code"], -32601)

    def test_fields_and_body_have_to_agree(self):
        gateway = self.serve(stdio("demo", "stateless"), route())
        for fields in (self.fields("other"), self.fields("about")[:3], self.fields("about")[:2]):
            error = self.error(self.request(gateway, "about", fields=fields), 400, "does not say what the body says")
            self.assertEqual(error["error"]["code"], -32020)
        self.assertEqual(self.programs(gateway), set())

    def test_each_client_gets_its_own(self):
        """Requests with the same id at the same time, each with its reports of progress."""
        gateway = self.serve(stdio("demo", "stateless", options={"max_processes": 3}), route())
        def one(number):
            token = {"progressToken": f"t{number}"}
            return self.request(gateway, "steps", 1, count=3, _meta=token)
        for number, answer in enumerate(in_threads(12, one)):
            self.assert_status(answer, 200)
            events = [json.loads(part) for part in re.findall(r"data: (\{.*)", answer.body.decode())]
            self.assertEqual([event["params"]["progressToken"] for event in events[:-1]], [f"t{number}"] * 3)
            self.assertEqual(events[-1]["id"], 1)
        self.assertLessEqual(len(self.programs(gateway)), 3)

    def test_a_client_that_goes_away_has_cancelled(self):
        gateway = self.serve(stdio("demo", "stateless"), route())
        self.request(gateway, "about")
        before = self.programs(gateway)
        client = gateway.client()
        meta = {"io.modelcontextprotocol/protocolVersion": NEW}
        body = json.dumps(rpc("never", 1, _meta=meta)).encode()
        client.send_head("POST", "/", self.fields("never") + [("Content-Length", str(len(body)))])
        client.send(body)
        self.assert_status(client.head(), 200)
        self.assertEqual(self.programs(gateway), before)
        client.close()
        self.assert_eventually(lambda: not self.programs(gateway), "its process has ended")
        self.assert_status(self.request(gateway, "about"), 200)

    def test_a_program_that_dies(self):
        gateway = self.serve(stdio("demo", "stateless"), route())
        answer = self.request(gateway, "die")
        # A stream has begun if it took long to start.
        self.assertIn(answer.status, (502, 200))
        self.error(answer, answer.status, "the program ended (exit status: 3)")
        self.assert_status(self.request(gateway, "about"), 200)

    def test_a_program_with_sessions_says_so(self):
        """A client that can do both begins a session then."""
        gateway = self.serve()
        for _ in range(2):
            error = self.error(self.request(gateway, "about"), 400, "begin one with initialize")
            self.assertEqual(error["error"]["code"], -32600)
        self.assert_eventually(lambda: not self.programs(gateway), "what was asked has ended")
        self.assert_status(Mcp(gateway).begin(), 200)


class Lines(StdioCase):
    def line(self, gateway, text, accept="*/*", timeout=20.0):
        return gateway.request("POST", "/", [("Accept", accept)], text.encode(), timeout)

    def test_a_line_for_a_line(self):
        gateway = self.serve(stdio("demo", "lines"), route())
        answer = self.line(gateway, "hello world\n")
        self.assert_status(answer, 200)
        self.assertEqual(answer.get("content-type"), "text/plain; charset=utf-8")
        self.assertTrue(answer.body.endswith(b" hello world\n"))
        answer = self.line(gateway, '{"id": "x",\n "a": 1}')
        self.assertEqual(self.assert_json(answer)["got"], {"id": "x", "a": 1})
        self.assertEqual(answer.get("content-type"), "application/json")
        events = self.line(gateway, '{"id": 2}', "text/event-stream").body.decode()
        self.assertEqual([sorted(json.loads(one)) for one in re.findall(r"data: (.*)", events)],
                         [["progress"], ["got", "id", "pid"]])
        self.assert_status(self.line(gateway, '{"jsonrpc": "2.0", "method": "note"}'), 202)
        self.assert_status(self.line(gateway, "two\nlines"), 400)
        self.assert_status(self.line(gateway, "\n"), 400)
        self.assert_status(gateway.get("/"), 405)

    def test_one_at_a_time_for_each_process(self):
        gateway = self.serve(stdio("demo", "lines", options={"max_processes": 3}), route())
        answers = in_threads(30, lambda number: self.line(gateway, f"n{number}"))
        for number, answer in enumerate(answers):
            self.assertTrue(answer.body.endswith(f" n{number}\n".encode()), answer.body)
        self.assertLessEqual(len({answer.body.split()[0] for answer in answers}), 3)

    def test_its_end(self):
        gateway = self.serve(stdio("demo", "lines"), route())
        self.assert_status(self.line(gateway, "die"), 502)
        self.assert_status(self.line(gateway, "hello"), 200)
        with self.assertRaises((Cut, TimeoutError, OSError)):
            self.line(gateway, "sleep 1000", timeout=0.5)
        self.assert_eventually(lambda: not self.programs(gateway), "a client that goes away ends it", 20)
        self.assert_status(self.line(gateway, "hello"), 200)


if __name__ == "__main__":
    unittest.main()
