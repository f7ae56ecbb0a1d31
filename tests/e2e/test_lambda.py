"""Functions of AWS Lambda (docs/guide/lambda.md), unmodified, with their vendor's runtime clients: what they are told
of requests, what becomes of their results, deadlines, failures, several at once. The functions are in tests/lambda."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from harness import BINARY, HERE, ROOT, Cut, Gateway, config, in_threads, route, service, setUpModule
from programs import installed, program
from test_operate import ADMIN, Operated

__all__ = ["setUpModule"]

CLIENTS = Path(os.environ.get("PILOTLIGHT_LAMBDA_CLIENTS", ROOT / "target" / "lambda"))
FUNCTIONS = ROOT / "tests" / "lambda"


def client(path):
    """A runtime client of the vendor's, or a function built with one: scripts/lambda-clients.sh makes them."""
    return installed(path, "the runtime client of AWS Lambda")


def function(name="app", language="python", handler=None, env=None, way=None, folder=None, **settings):
    """The configuration of one function."""
    env = dict(env or {})
    if language == "python":
        env["PYTHONPATH"] = str(client(CLIENTS / "python"))
        argv = [sys.executable, "-m", "awslambdaric", handler or "app.handler"]
    elif language == "node":
        module = client(CLIENTS / "node" / "node_modules" / "aws-lambda-ric" / "index.mjs")
        argv = ["node", str(module), handler or "app.handler"]
    elif language == "java":
        jars = CLIENTS / "java" / "jars"
        own = client(CLIENTS / "java" / "target" / "classes")
        classes = ":".join(str(path) for path in [own, *jars.glob("*.jar")])
        main = "com.amazonaws.services.lambda.runtime.api.client.AWSLambda"
        argv = [program("java"), "-cp", classes, main, handler or "example.App::handleRequest"]
    else:
        programs = {
            "go": CLIENTS / "go-function",
            "rust": CLIENTS / "rust" / "debug" / "function",
            "bootstrap": FUNCTIONS / "bootstrap" / "bootstrap",
        }
        argv = [str(client(programs[language]))]
    settings = {"start_timeout": "60s"} | settings
    folder = folder or FUNCTIONS / language
    block = service(name, argv, transport="lambda", dir=str(folder), env=env, **settings)
    return block + route("/", name, **(way or {}))


class LambdaCase(Operated):
    def serve(self, *args, top=None, more=(), **settings):
        return self.start(Gateway(BINARY, config(function(*args, **settings), ADMIN, *more, **(top or {}))))

    def told(self, answer, status=200):
        return self.assert_json(answer, status)


class Events(LambdaCase):
    """Python, with awslambdaric."""

    def test_a_request_as_an_event_of_version_2(self):
        gateway = self.serve()
        fields = [("X-Two", "a"), ("X-Two", "b"), ("Cookie", "a=1; b=2"), ("Content-Type", "text/plain")]
        answer = gateway.request("POST", "/a%20b/c?q=%C3%A9&q=2&x", fields, b"body", host="site.test:81")
        told = self.told(answer)
        event = told["event"]
        self.assertEqual((event["version"], event["rawPath"]), ("2.0", "/a%20b/c"))
        self.assertEqual(event["rawQueryString"], "q=%C3%A9&q=2&x")
        self.assertEqual(event["queryStringParameters"], {"q": "é,2", "x": ""})
        self.assertEqual((event["cookies"], event["headers"]["x-two"]), (["a=1", "b=2"], "a,b"))
        self.assertEqual((event["body"], event["isBase64Encoded"]), ("body", False))
        self.assertEqual((event["headers"]["host"], event["headers"]["x-forwarded-port"]), ("site.test:81", "81"))
        self.assertEqual(event["headers"]["x-forwarded-for"], "127.0.0.1")
        context = event["requestContext"]
        self.assertEqual(context["http"]["method"], "POST")
        self.assertEqual((context["http"]["sourceIp"], context["domainName"]), ("127.0.0.1", "site.test"))
        self.assertEqual(context["requestId"], answer.get("x-request-id"))

    def test_the_example(self):
        gateway = self.serve(folder=ROOT / "examples" / "lambda-python")
        self.assertRegex(gateway.get("/hello?name=you").body.decode(), r"^Hello, you! \d+ ms are left.\n$")

    def test_what_a_function_knows_of_itself(self):
        gateway = self.serve(env={"OWN": "1"}, **{"lambda": {"memory_size": 256, "region": "eu-central-1"}})
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
        told = self.told(gateway.get("/", [("X-Amzn-Trace-Id", trace)]))
        self.assertEqual((told["name"], told["memory"]), ("app", "256"))
        self.assertEqual(told["arn"], "arn:aws:lambda:eu-central-1:000000000000:function:app")
        self.assertEqual((told["log_group"], told["log_stream"]), ("/aws/lambda/app", "app/1"))
        self.assertRegex(told["request_id"], r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertTrue(50_000 < told["remaining_ms"] <= 60_000, told["remaining_ms"])
        self.assertEqual(told["trace"], trace)
        env = told["env"]
        self.assertEqual((env["_HANDLER"], env["AWS_REGION"]), ("app.handler", "eu-central-1"))
        self.assertEqual(env["AWS_LAMBDA_FUNCTION_VERSION"], "$LATEST")
        self.assertEqual(env["LAMBDA_TASK_ROOT"], str(FUNCTIONS / "python"))
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        told = self.told(gateway.get("/", [("traceparent", parent)]))
        self.assertEqual(told["trace"], "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1")
        self.assertEqual(told["count"], 2)

    def test_events_of_the_other_kinds(self):
        gateway = self.serve(**{"lambda": {"events": "v1"}})
        event = self.told(gateway.get("/a/b?x=1&x=2", [("X-Two", "a"), ("X-Two", "b")]))["event"]
        self.assertEqual((event["path"], event["pathParameters"]), ("/a/b", {"proxy": "a/b"}))
        self.assertEqual(event["multiValueQueryStringParameters"], {"x": ["1", "2"]})
        self.assertEqual((event["headers"]["X-Two"], event["multiValueHeaders"]["X-Two"]), ("b", ["a", "b"]))
        gateway = self.serve(**{"lambda": {"events": "alb"}})
        event = self.told(gateway.get("/a?x=%20", [("X-Two", "a")]))["event"]
        self.assertEqual((event["queryStringParameters"], event["headers"]["x-two"]), ({"x": "%20"}, "a"))
        self.assertIn("targetGroupArn", event["requestContext"]["elb"])
        gateway = self.serve(**{"lambda": {"events": "alb-multi-value"}})
        event = self.told(gateway.get("/a?x=1&x=2", [("X-Two", "a"), ("X-Two", "b")]))["event"]
        self.assertEqual(event["multiValueQueryStringParameters"], {"x": ["1", "2"]})
        self.assertEqual(event["multiValueHeaders"]["x-two"], ["a", "b"])

    def test_bodies_cookies_and_plain_results(self):
        gateway = self.serve()
        body = bytes(range(256)) * 1000
        fields = [("Content-Type", "application/octet-stream")]
        answer = gateway.request("POST", "/binary", fields, body)
        self.assertEqual((answer.status, answer.body == body[::-1]), (200, True))
        self.assertEqual(answer.get("content-type"), "application/octet-stream")
        answer = gateway.get("/cookies")
        self.assertEqual((answer.all("set-cookie"), answer.get("x-one")), (["a=1; Path=/", "b=2"], "1"))
        answer = gateway.get("/plain")
        self.assertEqual((answer.status, answer.get("content-type")), (200, "application/json"))
        self.assertEqual(json.loads(answer.body), {"hello": "world"})
        answer = gateway.request("HEAD", "/plain")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertEqual(answer.get("content-length"), str(len('{"hello": "world"}')))

    def test_limits_of_payloads(self):
        gateway = self.serve(**{"lambda": {"max_payload": "100KiB"}})
        self.assertEqual(len(gateway.get("/large?bytes=90000").body), 90_000)
        problem = self.assert_problem(gateway.get("/large?bytes=110000"), 502)
        self.assertIn("lambda.max_payload", problem["detail"])
        fields = [("Content-Type", "text/plain")]
        for size in [99_000, 110_000]:
            problem = self.assert_problem(gateway.request("POST", "/", fields, b"\\" * size), 413)
            self.assertIn("lambda.max_payload", problem["detail"])
        self.told(gateway.request("POST", "/", fields, b"x" * 50_000))


class Failures(LambdaCase):
    def test_an_error_of_the_function(self):
        gateway = self.serve(top={"dev": False})
        problem = self.assert_problem(gateway.get("/error"), 502)
        self.assertNotIn("not today", json.dumps(problem))
        self.assert_eventually(lambda: "ValueError: not today" in gateway.output(), gateway.output())
        self.told(gateway.get("/"))
        status = self.service(gateway, "app")
        self.assertEqual(status["function_errors"]["count"], 1)
        self.assertEqual(status["function_errors"]["last"]["error"], "ValueError: not today")

    def test_developers_are_told_more(self):
        gateway = self.serve(top={"dev": True})
        problem = self.assert_problem(gateway.get("/error"), 502)
        self.assertIn("ValueError: not today", problem["output"])
        page = gateway.get("/error", [("Accept", "text/html")])
        self.assertIn(b"not today", page.body)

    def test_a_result_that_is_no_response(self):
        problem = self.assert_problem(self.serve().get("/bad"), 502)
        self.assertIn("statusCode", problem["detail"])

    def test_an_initialisation_that_fails(self):
        gateway = self.serve(handler="broken.handler", top={"dev": True})
        problem = self.assert_problem(gateway.get("/"), 502)
        self.assertEqual(problem["phase"], "init")
        self.assertIn("no table for this function", "\n".join(problem["output"]))

    def test_a_program_that_is_no_function(self):
        block = service("app", ["sleep", "60"], transport="lambda", start_timeout="300ms")
        gateway = self.start(Gateway(BINARY, config(block, route("/", "app"), ADMIN)))
        problem = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("AWS_LAMBDA_RUNTIME_API", problem["detail"])

    def test_an_instance_that_ends(self):
        gateway = self.serve(scale_up_after="10s")
        first = self.told(gateway.get("/"))["pid"]
        self.assert_problem(gateway.request("POST", "/exit"), 502)
        self.assertNotEqual(self.told(gateway.get("/"))["pid"], first)

    def test_a_deadline(self):
        gateway = self.serve(max_request_time="1s", stop_grace="1s", max_instances=1)
        first = self.told(gateway.get("/"))
        self.assertLessEqual(first["remaining_ms"], 1000)
        problem = self.assert_problem(gateway.get("/sleep?s=30"), 504)
        self.assertIn("max_request_time", problem["detail"])
        self.assertNotEqual(self.told(gateway.get("/"))["pid"], first["pid"])

    def test_a_deadline_of_the_route(self):
        gateway = self.serve(way={"timeout": "1s"}, stop_grace="1s")
        first = self.told(gateway.get("/"))
        self.assert_problem(gateway.get("/sleep?s=30"), 504)
        self.assertNotEqual(self.told(gateway.get("/"))["pid"], first["pid"])


class Concurrency(LambdaCase):
    def test_one_invocation_at_a_time_for_each_instance(self):
        gateway = self.serve(max_instances=4, scale_up_after="1ms")
        answers = in_threads(4, lambda _: gateway.get("/sleep?s=0.7"))
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual(len({answer.body for answer in answers}), 4)
        begun = time.monotonic()
        in_threads(8, lambda _: gateway.get("/sleep?s=0.2"))
        self.assertGreaterEqual(time.monotonic() - begun, 0.4)

    def test_a_client_that_goes_ends_no_invocation(self):
        gateway = self.serve(max_instances=1)
        first = self.told(gateway.get("/"))
        with gateway.client() as client:
            client.send_head("GET", "/sleep?s=1")
            self.assert_eventually(lambda: self.service(gateway, "app")["in_flight"] == 1, "not begun")
        told = self.told(gateway.get("/"))
        self.assertEqual((told["pid"], told["count"]), (first["pid"], first["count"] + 2))


class Languages(LambdaCase):
    """The vendor's runtime clients of other languages."""

    def test_node(self):
        gateway = self.serve(language="node")
        answer = gateway.request("POST", "/a?x=1", [("Content-Type", "application/json")], b"{}")
        told = self.told(answer, 201)
        self.assertEqual((told["event"]["body"], answer.all("set-cookie")), ("{}", ["a=1"]))
        self.assertGreater(told["left"], 50_000)
        self.assert_problem(gateway.get("/error"), 502)
        self.assert_eventually(lambda: "TypeError: not today" in gateway.output(), gateway.output())
        self.assertEqual(self.told(gateway.get("/"), 201)["pid"], told["pid"])

    def test_node_streams(self):
        gateway = self.serve(language="node", handler="app.stream")
        with gateway.client() as client:
            client.send_head("GET", "/")
            answer = client.head()
            self.assertEqual((answer.status, answer.get("x-streamed"), answer.all("set-cookie")), (202, "yes", ["s=1"]))
            self.assertEqual(answer.get("transfer-encoding"), "chunked")
            self.assertEqual(b"".join(client.body(answer)), b"part 0\npart 1\npart 2\n")
        answer = gateway.get("/raw")
        self.assertEqual((answer.status, answer.body), (200, b"raw"))
        with self.assertRaises(Cut):
            gateway.get("/fails")
        self.assert_eventually(lambda: "in the middle" in gateway.output(), gateway.output())
        self.assertEqual(gateway.get("/raw").status, 200)

    def test_a_client_of_a_stream_that_goes(self):
        """The stream is read to its end, or to its limit, and the instance goes on."""
        gateway = self.serve(language="node", handler="app.stream", max_request_time="2s", stop_grace="1s")
        with gateway.client() as client:
            client.send_head("GET", "/endless")
            self.assertEqual(client.head().status, 202)
        self.assertEqual(gateway.get("/raw").status, 200)

    def test_go(self):
        gateway = self.serve(language="go")
        told = self.told(gateway.request("POST", "/a?x=1", [("Content-Type", "text/plain")], b"body"), 201)
        self.assertEqual((told["event"]["rawPath"], told["event"]["body"]), ("/a", "body"))
        answer = gateway.get("/stream")
        self.assertEqual((answer.status, answer.get("x-streamed"), answer.body), (202, "yes", b"from go"))
        self.assert_problem(gateway.get("/error"), 502)
        self.assertEqual(self.told(gateway.get("/"), 201)["pid"], told["pid"])

    def test_rust(self):
        gateway = self.serve(language="rust")
        answer = gateway.request("POST", "/a%20b?x=1&x=2", [("Content-Type", "text/plain")], b"body")
        told = self.told(answer, 201)
        self.assertEqual((told["method"], told["body"], answer.all("set-cookie")), ("POST", "body", ["a=1", "b=2"]))
        self.assert_problem(gateway.get("/error"), 502)
        self.assertEqual(self.told(gateway.get("/"), 201)["pid"], told["pid"])

    def test_java(self):
        gateway = self.serve(language="java")
        answer = gateway.request("POST", "/a", [("Content-Type", "text/plain")], b"body", timeout=60)
        self.assertEqual((answer.status, answer.body.decode().split()[:2]), (201, ["/a", "body"]))
        self.assert_problem(gateway.get("/error"), 502)
        self.assert_eventually(lambda: "IllegalStateException: not today" in gateway.output(), gateway.output())
        self.assertEqual(gateway.get("/").status, 201)

    def test_a_shell_script(self):
        gateway = self.serve(language="bootstrap")
        event = self.told(gateway.request("POST", "/a", [("Content-Type", "text/plain")], b"body"))
        self.assertEqual((event["rawPath"], event["body"]), ("/a", "body"))
        self.assert_problem(gateway.get("/error"), 502)
        self.assert_eventually(lambda: "Shell.NotToday: not today" in gateway.output(), gateway.output())
        self.told(gateway.get("/"))


class Strange(LambdaCase):
    """A runtime client that does what none should."""

    def strange(self, env=None, **settings):
        argv = [sys.executable, "-B", str(HERE / "lambda_client.py")]
        env = {"NOTES": "@FOLDER@/notes"} | (env or {})
        block = service("app", argv, transport="lambda", env=env, stop_grace="1s", **settings)
        return self.start(Gateway(BINARY, config(block, route("/", "app"), ADMIN)))

    def noted(self, gateway):
        return (gateway.folder / "notes").read_text().splitlines()

    def test_calls_that_are_refused(self):
        gateway = self.strange()
        answer = gateway.get("/other-id")
        self.assertEqual((answer.status, answer.body), (200, b'"once"'))
        self.told(gateway.get("/"))
        expected = [
            "extension 501 ExtensionsNotSupported",
            "restore 501 RestoreNotSupported",
            "path 404 InvalidPath",
            "method 405 InvalidMethod",
            "early 400 InvalidRequestID",
            "other 400 InvalidRequestID",
            "next 403 InvalidStateTransition",
            "twice 400 InvalidRequestID",
            "late init error 403 InvalidStateTransition",
        ]
        self.assertEqual(self.noted(gateway), expected)

    def test_a_result_behind_the_deadline(self):
        gateway = self.strange(max_request_time="500ms", max_instances=1)
        self.assert_problem(gateway.get("/late"), 504)
        self.told(gateway.get("/"))
        self.assertEqual(self.service(gateway, "app")["stuck"], 1)

    def test_a_stream_that_never_ends(self):
        gateway = self.strange(max_request_time="1s", max_instances=1)
        with gateway.client() as client, self.assertRaises(Cut):
            client.request("GET", "/endless")
        self.told(gateway.get("/"))

    def test_results_that_break_off(self):
        gateway = self.strange(**{"lambda": {"max_stream": "64KiB"}})
        for path in ["/fails", "/too-much"]:
            with gateway.client() as client:
                client.send_head("GET", path)
                answer = client.head()
                self.assertIn(answer.status, [200, 202])
                with self.assertRaises(Cut):
                    b"".join(client.body(answer))
        self.assert_problem(gateway.request("POST", "/broken"), 502)
        problem = self.assert_problem(gateway.get("/no-prelude"), 502)
        self.assertIn("eight zero bytes", problem["detail"])
        self.assert_problem(gateway.get("/error"), 502)
        self.assert_eventually(lambda: "Own.Error: not JSON" in gateway.output(), gateway.output())
        self.told(gateway.get("/"))

    def test_an_error_of_the_initialisation_without_an_end(self):
        gateway = self.strange({"INIT": "error"})
        problem = self.assert_problem(gateway.get("/"), 502)
        self.assertEqual(problem["phase"], "init")
        self.assertNotIn("output", problem)
        self.assertEqual(self.service(gateway, "app")["last_error"]["output"][-1], "Own.Init: no")


class Apart(LambdaCase):
    @unittest.skipUnless(os.geteuid() == 0, "not here: only root can be somebody else")
    def test_another_user_gets_nothing(self):
        gateway = self.serve()
        api = self.told(gateway.get("/"))["env"]["AWS_LAMBDA_RUNTIME_API"]
        call = [program("curl"), "--silent", "--max-time", "20", f"http://{api}/2018-06-01/runtime/init/error"]
        self.assertEqual(subprocess.run(call, capture_output=True).returncode, 0)
        done = subprocess.run(call, capture_output=True, user=65534, group=65534)
        self.assertIn(done.returncode, [52, 56], "neither an empty reply nor a reset")
        self.assert_eventually(lambda: "is not of user id 0" in gateway.output(), gateway.output())
        self.assertEqual(self.told(gateway.get("/"))["count"], 2)


class Invoked(LambdaCase):
    def test_other_events(self):
        gateway = self.serve(more=[service("other")])
        event = gateway.folder / "event.json"
        event.write_text('{"Records": [{"id": 7}]}')
        told = json.loads(self.cli(gateway, "invoke", "app", str(event)))
        self.assertEqual((told["event"], told["count"]), ({"Records": [{"id": 7}]}, 1))
        self.assertEqual(json.loads(self.cli(gateway, "invoke", "app"))["event"], {})
        answer = json.loads(self.cli(gateway, "invoke", "app", str(event), "--json"))
        self.assertEqual((answer["service"], answer["instance"], answer["result"]["count"]), ("app", 1, 3))
        event.write_text('{"rawPath": "/error"}')
        self.assertIn("ValueError: not today", self.cli(gateway, "invoke", "app", str(event), code=1))
        event.write_text("{")
        self.assertIn("not JSON", self.cli(gateway, "invoke", "app", str(event), code=2))
        self.assertIn("no function", self.cli(gateway, "invoke", "other", code=1))
        self.assertIn("no service", self.cli(gateway, "invoke", "none", code=2))
        shown = self.cli(gateway, "status", "app")
        self.assertIn("ValueError: not today", shown)
        self.assertIn("lambda", shown)
        self.assertIn("lambda.max_payload", self.cli(gateway, "explain", "/"))

    def test_a_schedule_with_an_event(self):
        lines = ['[[schedules]]', 'cron = "0 0 1 1 *"', 'service = "app"', 'name = "NAME"', "event = 'EVENT'", ""]
        block = "\n".join(lines)
        event = '{"rawPath": "/sleep", "queryStringParameters": {"s": "0"}}'
        good = block.replace("NAME", "good").replace("EVENT", event)
        bad = block.replace("NAME", "bad").replace("EVENT", '{"rawPath": "/error"}')
        gateway = self.serve(more=[good, bad])
        self.assertIn("ok", self.cli(gateway, "schedules", "--run", "good"))
        self.assertEqual(self.service(gateway, "app")["function_errors"]["count"], 0)
        self.cli(gateway, "schedules", "--run", "bad", code=1)
        self.assertEqual(self.service(gateway, "app")["function_errors"]["last"]["error"], "ValueError: not today")


class Checked(LambdaCase):
    def test_settings_that_cannot_be(self):
        def check(expected, **settings):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            file = Path(folder.name) / "pilotlight.toml"
            file.write_text(config(service("app", ["sh"], **settings), route("/", "app")))
            done = subprocess.run([BINARY, "check", "--config", file], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(expected, done.stdout + done.stderr)

        check("has one invocation at a time", transport="lambda", concurrency=2)
        check("asks for its invocations itself", transport="lambda", socket="tcp")
        check("asks for its invocations on one", transport="lambda", sandbox="strict")
        check("this service is none", transport="http", **{"lambda": {"events": "v1"}})
        check("AWS_LAMBDA_RUNTIME_API", transport="lambda", env={"AWS_LAMBDA_RUNTIME_API": "x"})
        check("alb-multi-value", transport="lambda", **{"lambda": {"events": "v3"}})
        check("12 digits", transport="lambda", **{"lambda": {"account": "1"}})
        check("max_payload", transport="lambda", **{"lambda": {"max_payload": "1B"}})
