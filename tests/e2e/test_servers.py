"""A service of somebody else's that has several servers: which of them takes a request, and what happens when one is
gone, slow or ill. The servers are processes of their own."""

import collections
import contextlib
import json
import socket
import subprocess
import tempfile
import threading
import urllib.request
from pathlib import Path

from h2c_service import Server as H2cServer
from harness import BINARY, HERE, PYTHON, Gateway, TestCase, config, in_threads, route, service, setUpModule
from http1 import eventually
from test_operate import ADMIN, Unix

__all__ = ["setUpModule"]

SERVER = """
import collections, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
name = sys.argv[1]
gates = collections.defaultdict(threading.Event)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # head and body in one packet: the second of two would wait 40 ms for the ACK of the first
    ill = False
    sick = False
    asked = 0
    paths = []
    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        query = parse_qs(urlsplit(self.path).query)
        if query.get("slow", [""])[0] == name:
            gates[query["until"][0]].wait(30)
        if self.path.startswith("/open"):
            gates[query["gate"][0]].set()
        if query.get("ill", [""])[0] == name:
            Handler.ill = True
        if "sick" in query:
            Handler.sick = query["sick"] == ["yes"]
        body = name.encode()
        is_ill = Handler.ill
        if self.path == "/health":
            Handler.asked += 1
            is_ill = Handler.sick
        if self.path.startswith("/order"):
            Handler.paths.append(self.path)
        if self.path == "/connection":
            body = b"%s %d" % (body, self.client_address[1])
        if self.path == "/paths":
            body = " ".join(Handler.paths).encode()
        if self.path == "/asked":
            body = str(Handler.asked).encode()
        self.send_response(503 if is_ill else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 512
server = Server((sys.argv[3], int(sys.argv[2])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Server:
    """A process that answers with its name."""

    def __init__(self, name, port=0, host="127.0.0.1"):
        self.name, self.host = name, host
        self.process = subprocess.Popen(
            [PYTHON, "-S", "-c", SERVER, name, str(port), host], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.port = int(self.process.stdout.readline())

    @property
    def url(self):
        return f"http://{self.address}"

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def ask(self, path):
        """Without the gateway."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read()

    def go_on(self, gate):
        """Ends requests to `/?slow=NAME&until=GATE`."""
        self.ask(f"/open?gate={gate}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ServersCase(TestCase):
    shared = {}

    @classmethod
    def share_servers(cls, names):
        """Starts servers for all tests of the class, which find them by name in `cls.shared`."""
        cls.shared = {name: Server(name) for name in names}
        for one in cls.shared.values():
            cls.addClassCleanup(one.kill)

    def servers(self, names="abc"):
        found = [Server(name) for name in names]
        for one in found:
            self.addCleanup(one.kill)
        return found

    def gateway(self, servers, health=None, more=None, **balance):
        settings = {"balance": balance} if balance else {}
        settings |= {"health": health} if health else {}
        settings |= more or {}
        urls = [one.url for one in servers]
        return self.start(Gateway(BINARY, config(service(url=urls, **settings), route(), ADMIN)))

    def reload(self, gateway, text):
        (gateway.folder / "pilotlight.toml").write_text(text.replace("@FOLDER@", str(gateway.folder)))
        command = [str(BINARY), "reload", "--socket", str(gateway.folder / "admin.sock")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def names(self, gateway, count, target="/", **fields):
        """Who answered, and how often."""
        found = collections.Counter()
        with gateway.client() as client:
            for _ in range(count):
                client.send_head("GET", target, list(fields.items()))
                answer = client.answer("GET")
                self.assertEqual(answer.status, 200, answer)
                found[answer.body.decode()] += 1
        return found

    def status(self, gateway):
        with contextlib.closing(Unix(gateway.folder / "admin.sock")) as connection:
            connection.request("GET", "/status")
            [one] = json.loads(connection.getresponse().read())["services"]
        return one

    def states(self, gateway):
        return {each["address"]: each["state"] for each in self.status(gateway)["servers"]}

    def open(self, gateway):
        return [each["open"] for each in self.status(gateway)["servers"]]

    def metric(self, gateway, name):
        """The samples of a metric, by what is in its braces."""
        connection = Unix(gateway.folder / "admin.sock")
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        samples = [line[len(name) + 1 :].rsplit("} ", 1) for line in lines if line.startswith(name + "{")]
        return {labels: float(value) for labels, value in samples}


class Sharing(ServersCase):
    @classmethod
    def setUpClass(cls):
        cls.share_servers("abc")
        cls.all, cls.two = [*cls.shared.values()], [*cls.shared.values()][:2]

    def test_all_servers_get_requests(self):
        gateway = self.gateway(self.all)
        found = self.names(gateway, 300)
        self.assertEqual(set(found), {"a", "b", "c"})
        self.assertGreater(min(found.values()), 50, found)

    def test_weights_are_shares(self):
        gateway = self.gateway(self.two, weights=[9, 1])
        found = self.names(gateway, 600)
        self.assertGreater(found["a"], 480, found)
        self.assertGreater(found["b"], 15, found)

    def test_a_server_that_is_busy_gets_no_more_while_the_other_is_not(self):
        gateway = self.gateway(self.two)
        busy = [threading.Thread(target=gateway.get, args=("/?slow=a&until=shared",)) for _ in range(8)]
        for one in busy:
            one.start()
        # What the other one got of these it has answered at once.
        self.assertTrue(eventually(lambda: self.open(gateway)[0] >= 1 and self.open(gateway)[1] == 0, 5))
        found = self.names(gateway, 60)
        self.two[0].go_on("shared")
        for one in busy:
            one.join()
        self.assertEqual(found["a"], 0, found)

    def test_one_value_of_a_field_goes_to_one_server(self):
        gateway = self.gateway(self.all, by="header:x-user")
        homes = {user: self.names(gateway, 5, **{"x-user": user}) for user in map(str, range(30))}
        self.assertTrue(all(len(found) == 1 for found in homes.values()), homes)
        self.assertEqual(len({name for found in homes.values() for name in found}), 3, homes)

    def test_one_client_goes_to_one_server_and_one_cookie(self):
        self.assertEqual(len(self.names(self.gateway(self.all, by="client"), 30)), 1)
        gateway = self.gateway(self.all, by="cookie:sid")
        homes = [self.names(gateway, 3, cookie=f"x=1; sid={number}") for number in range(30)]
        self.assertTrue(all(len(found) == 1 for found in homes), homes)
        self.assertEqual(len({name for found in homes for name in found}), 3, homes)


class Failing(ServersCase):
    def test_a_server_that_is_killed_costs_no_request(self):
        servers = self.servers()
        gateway = self.gateway(servers, eject_time="1m")
        stop, failed, answered = threading.Event(), [], collections.Counter()

        def load(_):
            with gateway.client() as client:
                while not stop.is_set():
                    client.send_head("GET", "/", [])
                    answer = client.answer("GET")
                    answered[answer.body] += 1
                    if answer.status != 200:
                        failed.append(answer)

        threads = [threading.Thread(target=load, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        self.assertTrue(eventually(lambda: sum(answered.values()) > 500, 30))
        servers[0].kill()
        gone = f"127.0.0.1:{servers[0].port}"
        self.assertTrue(eventually(lambda: self.states(gateway)[gone] == "ejected", 10), self.states(gateway))
        before = sum(answered.values())
        self.assertTrue(eventually(lambda: sum(answered.values()) > before + 500, 30))
        stop.set()
        for one in threads:
            one.join()
        self.assertEqual(failed, [])
        self.assert_logged(gateway, "left out")

    def test_it_comes_back(self):
        servers = self.servers("ab")
        gateway = self.gateway(servers, eject_time="200ms", max_failures=1)
        port = servers[0].port
        servers[0].kill()
        self.assertEqual(set(self.names(gateway, 20)), {"b"})
        again = Server("again", port)
        self.addCleanup(again.kill)
        self.assertTrue(eventually(lambda: "again" in self.names(gateway, 10), 10))
        self.assertTrue(eventually(lambda: "answers again" in gateway.output(), 5))

    def test_a_post_that_was_not_delivered_goes_to_another_one(self):
        servers = self.servers("ab")
        gateway = self.gateway(servers)
        servers[0].kill()
        for _ in range(20):
            answer = gateway.request("POST", "/", body=b"order")
            self.assertEqual((answer.status, answer.body), (200, b"b"), answer)

    def test_one_that_answers_503_is_left_out(self):
        gateway = self.gateway(self.servers("ab"), eject_time="1m")

        def ask():
            return gateway.get("/?ill=a").status

        statuses = [ask() for _ in range(40)]
        self.assertEqual(statuses.count(503), 3, statuses)
        self.assertEqual(statuses[-10:], [200] * 10)

    def test_with_all_of_them_gone_there_is_an_answer(self):
        servers = self.servers("ab")
        gateway = self.gateway(servers)
        for one in servers:
            one.kill()
        for _ in range(10):
            self.assert_problem(gateway.get("/"), 502)
        back = Server("back", servers[1].port)
        self.addCleanup(back.kill)
        self.assertTrue(eventually(lambda: gateway.get("/").status == 200, 10))

    def test_an_address_that_answers_nothing_is_given_up(self):
        # A backlog that is full: further connections are not accepted, nor refused.
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            fillers = []
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(silent.getsockname())
                fillers.append(filler)
            [good] = self.servers("a")
            urls = [f"http://127.0.0.1:{silent.getsockname()[1]}", good.url]
            balance = {"connect_timeout": "100ms", "max_failures": 1}
            gateway = self.start(Gateway(BINARY, config(service(url=urls, balance=balance), route(), ADMIN)))
            self.assertEqual(set(self.names(gateway, 20)), {"a"})
            for filler in fillers:
                filler.close()

    def test_a_reload_keeps_what_is_known(self):
        servers = self.servers("ab")
        gateway = self.gateway(servers, eject_time="1m", max_failures=1)
        servers[0].kill()
        self.names(gateway, 20)
        gone = f"127.0.0.1:{servers[0].port}"
        self.assertEqual(self.states(gateway)[gone], "ejected")
        gateway.signal(1)
        self.assertTrue(eventually(lambda: "reload" in gateway.output(), 10), gateway.output())
        self.assertEqual(self.states(gateway)[gone], "ejected")


class HealthRequests(ServersCase):
    HEALTH = {"path": "/health", "interval": "100ms", "timeout": "2s"}

    def state(self, gateway, server):
        return self.states(gateway)[server.address]

    def test_one_that_is_sick_gets_nothing_before_a_request_meets_it(self):
        sick, well = servers = self.servers("ab")
        gateway = self.gateway(servers, self.HEALTH)
        self.assertEqual(set(self.names(gateway, 40)), {"a", "b"})
        sick.ask("/?sick=yes")
        self.assertTrue(eventually(lambda: self.state(gateway, sick) == "unhealthy", 20))
        self.assertEqual(set(self.names(gateway, 40)), {"b"})
        self.assert_logged(gateway, "not healthy: it answered GET /health with status 503")
        sick.ask("/?sick=no")
        self.assertTrue(eventually(lambda: self.state(gateway, sick) == "in", 20))
        self.assertEqual(set(self.names(gateway, 40)), {"a", "b"})
        self.assert_logged(gateway, "gets requests again")

    def test_one_that_is_gone_is_found_and_found_again(self):
        gone, _ = servers = self.servers("ab")
        gateway = self.gateway(servers, self.HEALTH)
        gone.kill()
        self.assertTrue(eventually(lambda: self.state(gateway, gone) == "unhealthy", 20))
        again = Server("again", gone.port)
        self.addCleanup(again.kill)
        self.assertTrue(eventually(lambda: self.state(gateway, again) == "in", 20))
        self.assertIn("again", self.names(gateway, 40))

    def test_an_ejection_ends_as_soon_as_it_is_well(self):
        gone, _ = servers = self.servers("ab")
        gateway = self.gateway(servers, self.HEALTH | {"unhealthy": 100}, eject_time="5m", max_failures=1)
        gone.kill()
        self.names(gateway, 20)
        self.assertEqual(self.state(gateway, gone), "ejected")
        line = [str(BINARY), "explain", "/", "--socket", str(gateway.folder / "admin.sock")]
        told = subprocess.run(line, capture_output=True, check=True, timeout=20, text=True).stdout
        self.assertRegex(told, rf"127.0.0.1:{gone.port}: left out for another [0-9.]+ s")
        self.assertRegex(told, r"127.0.0.1:[0-9]+: 0 open")
        again = Server("again", gone.port)
        self.addCleanup(again.kill)
        self.assertTrue(eventually(lambda: "again" in self.names(gateway, 10), 20))

    def test_one_task_asks_for_all_workers(self):
        [server] = self.servers("a")
        health = {"path": "/health", "interval": "1h"}
        gateway = self.start(Gateway(BINARY, config(service(url=server.url, health=health), route(), ADMIN, workers=4)))
        self.assertTrue(eventually(lambda: server.ask("/asked") != b"0", 20))
        self.names(gateway, 20)
        self.assertEqual(server.ask("/asked"), b"1")

    def test_a_reload_begins_and_ends_them(self):
        [server] = self.servers("a")
        plain = config(service(url=server.url), route(), ADMIN)
        asking = config(service(url=server.url, health=self.HEALTH), route(), ADMIN)
        gateway = self.start(Gateway(BINARY, plain))

        def asked():
            return int(server.ask("/asked"))

        self.reload(gateway, asking)
        self.assertTrue(eventually(lambda: asked() >= 3, 20))
        self.reload(gateway, plain)
        self.assertEqual(self.status(gateway)["servers"], None)


class Limits(ServersCase):
    """`max_connections`: what is beyond it waits in order, and not for ever."""

    @classmethod
    def setUpClass(cls):
        cls.share_servers("ab")
        cls.server = cls.shared["a"]

    def busy(self, gateway, count):
        """Requests that keep server a busy until `self.go_on()`, at the latest the end of the test."""
        target = f"/?slow=a&until={self.id()}"
        threads = [threading.Thread(target=gateway.get, args=(target,)) for _ in range(count)]
        for one in threads:
            one.start()
            self.addCleanup(one.join)
        self.addCleanup(self.go_on)
        return threads

    def go_on(self):
        self.server.go_on(self.id())

    def test_a_server_has_no_more_than_it_may(self):
        text = service(url=self.server.url, max_connections=2, queue={"max": 100, "timeout": "1m"})
        gateway = self.start(Gateway(BINARY, config(text, route(), ADMIN)))
        threads = self.busy(gateway, 5)
        self.assertTrue(eventually(lambda: self.status(gateway)["queue"]["length"] == 3, 20))
        self.assertEqual(self.open(gateway), [2])
        self.assertEqual(self.metric(gateway, "pilotlight_service_waiting_for_server"), {'service="demo"': 3})
        self.go_on()
        for one in threads:
            one.join()
        self.assertEqual(self.open(gateway), [0])
        self.assertEqual(self.status(gateway)["queue"]["refused"], {"full": 0, "timeout": 0, "circuit": 0})

    def test_who_comes_first_is_served_first(self):
        text = service(url=self.server.url, max_connections=1, queue={"max": 100, "timeout": "1m"})
        gateway = self.start(Gateway(BINARY, config(text, route(), ADMIN)))
        self.busy(gateway, 1)
        self.assertTrue(eventually(lambda: self.open(gateway) == [1], 20))
        for number in range(4):
            one = threading.Thread(target=gateway.get, args=(f"/order?{number}",))
            one.start()
            self.addCleanup(one.join)
            self.assertTrue(eventually(lambda: self.status(gateway)["queue"]["length"] == number + 1, 20))
        self.go_on()
        self.assertTrue(eventually(lambda: self.status(gateway)["queue"]["length"] == 0, 20))
        self.assertTrue(eventually(lambda: self.server.ask("/paths").decode().count("order") == 4, 20))
        self.assertEqual(self.server.ask("/paths").decode().split(), [f"/order?{number}" for number in range(4)])

    def test_a_line_that_is_full_and_one_that_is_too_slow(self):
        text = service(url=self.server.url, max_connections=1, queue={"max": 1, "timeout": "100ms"})
        gateway = self.start(Gateway(BINARY, config(text, route(), ADMIN)))
        self.busy(gateway, 1)
        self.assertTrue(eventually(lambda: self.open(gateway) == [1], 20))
        late = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("max_connections requests open", late["detail"])
        self.assertIn("this one has waited for queue.timeout (0.1 s)", late["detail"])
        text = service(url=self.server.url, max_connections=1, queue={"max": 1, "timeout": "1m"})
        other = self.start(Gateway(BINARY, config(text, route(), ADMIN)))
        self.busy(other, 2)
        self.assertTrue(eventually(lambda: self.status(other)["queue"]["length"] == 1, 20))
        answer = other.get("/")
        full = self.assert_problem(answer, 503)
        self.assertIn("queue.max (1) requests wait already", full["detail"])
        self.assertEqual(answer.get("retry-after"), "1")

    def test_the_other_one_takes_what_is_beyond(self):
        servers = [*self.shared.values()]
        gateway = self.gateway(servers, more={"max_connections": 4}, by="header:x-user", weights=[1000, 1])
        self.busy(gateway, 4)
        answers = in_threads(4, lambda _: gateway.get("/").status)
        self.assertEqual(answers, [200] * 4)


class Sticky(ServersCase):
    """`by = "sticky:NAME"`: a cookie of the gateway's says to which server a client comes back."""

    @classmethod
    def setUpClass(cls):
        cls.share_servers("ab")
        cls.two = [*cls.shared.values()]

    def ask(self, gateway, cookie=None):
        """Who answered, and what the client is told."""
        answer = gateway.get("/", fields=[("cookie", cookie)] if cookie else [])
        self.assertEqual(answer.status, 200, answer)
        return answer.body.decode(), answer.get("set-cookie")

    def clients(self, gateway):
        """A cookie of each server."""
        found = {}
        while len(found) < 2:
            name, told = self.ask(gateway)
            self.assertRegex(told, r"^at=[0-9a-f]{16}; Path=/; HttpOnly; SameSite=Lax$")
            found[name] = told.split(";")[0]
        return found

    def test_a_client_comes_back_and_is_told_once(self):
        gateway = self.gateway(self.two, by="sticky:at")
        for name, cookie in self.clients(gateway).items():
            for _ in range(10):
                self.assertEqual(self.ask(gateway, f"x=1; {cookie}"), (name, None))

    def test_what_is_no_server_is_replaced(self):
        gateway = self.gateway(self.two, by="sticky:at")
        for cookie in ("at=0123456789abcdef", "at=", "at=127.0.0.1", "other=1"):
            self.assertIsNotNone(self.ask(gateway, cookie)[1], cookie)

    def test_a_server_that_is_gone_sends_its_clients_to_another_one(self):
        gone, other = servers = self.servers("ab")
        gateway = self.gateway(servers, by="sticky:at", max_failures=1, eject_time="1m")
        cookies = self.clients(gateway)
        gone.kill()
        name, told = self.ask(gateway, cookies["a"])
        self.assertEqual((name, told.split(";")[0]), ("b", cookies["b"]))
        self.assertEqual(self.ask(gateway, cookies["b"]), ("b", None))

    def test_it_is_the_same_in_every_gateway_with_the_same_secret(self):
        servers = self.two
        with tempfile.TemporaryDirectory() as folder:
            secret = Path(folder) / "secret"
            secret.write_text("of all gateways")
            first = self.clients(self.gateway(servers, by="sticky:at", sticky_key=str(secret)))
            other = self.gateway(servers[::-1], by="sticky:at", sticky_key=str(secret))
            self.assertEqual({name: self.ask(other, cookie) for name, cookie in first.items()},
                             {name: (name, None) for name in first})  # fmt: skip
            self.assertNotEqual(first, self.clients(self.gateway(servers, by="sticky:at")))

    def test_a_stored_response_gives_nobody_the_cookie_of_another(self):
        urls = [one.url for one in self.two]
        text = config(service(url=urls, balance={"by": "sticky:at"}), route(cache="1h"), ADMIN)
        gateway = self.start(Gateway(BINARY, text))
        self.assertIsNotNone(gateway.get("/kept").get("set-cookie"))
        hit = gateway.get("/kept")
        self.assertIn("hit", hit.get("cache-status"))
        self.assertIsNone(hit.get("set-cookie"))


class OtherProtocols(ServersCase):
    """Lists of servers that speak something else than HTTP/1.1."""

    def test_h2c(self):
        with H2cServer() as one, H2cServer() as other:
            gateway = self.start(Gateway(BINARY, config(service(url=[one.url, other.url]), route(), ADMIN)))
            for _ in range(40):
                self.assertEqual(gateway.get("/").status, 200)
            self.assertTrue(one.seen and other.seen)
            self.assertEqual(len(one.seen) + len(other.seen), 40)
            one.listener.close()
            self.assertEqual(self.open(gateway), [0, 0])

    def test_h2c_with_one_that_is_gone(self):
        with socket.socket() as nobody, H2cServer() as server:
            nobody.bind(("127.0.0.1", 0))
            urls = [f"h2c://127.0.0.1:{nobody.getsockname()[1]}", server.url]
            gateway = self.start(Gateway(BINARY, config(service(url=urls), route(), ADMIN)))
            self.assertEqual({gateway.get("/").status for _ in range(30)}, {200})
            self.assertEqual(self.states(gateway)[urls[0].removeprefix("h2c://")], "ejected")

    def programs(self, protocol, count=2):
        """Programs that answer with their process, and their addresses."""
        found = []
        for _ in range(count):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                command = [PYTHON, "-B", str(HERE / "cgi_service.py"), protocol, str(listener.fileno())]
                process = subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)
                found.append((process, f"{protocol}://127.0.0.1:{listener.getsockname()[1]}"))
            self.addCleanup(lambda process=process: (process.kill(), process.wait()))
        return found

    def test_fastcgi_scgi_and_uwsgi(self):
        for protocol in ("fastcgi", "scgi", "uwsgi"):
            with self.subTest(protocol):
                programs = self.programs(protocol)
                urls = [url for _, url in programs]
                balance = {"max_failures": 1, "eject_time": "1m"}
                text = config(service(url=urls, balance=balance, health={"path": "/env"}), route(), ADMIN)
                gateway = self.start(Gateway(BINARY, text))
                self.assertEqual({gateway.get("/env").status for _ in range(20)}, {200})
                gone, url = programs[0]
                gone.kill()
                gone.wait()
                self.assertEqual({gateway.get("/env").status for _ in range(20)}, {200})
                self.assertNotEqual(self.states(gateway)[url.split("://")[1]], "in")

    def echo(self):
        """A server that switches to a protocol in which it says what it hears."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        heard = []

        def talk(client):
            with client:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += client.recv(4096)
                heard.append(head)
                client.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
                )
                while data := client.recv(4096):
                    client.sendall(data)

        def accept():
            while True:
                try:
                    client = listener.accept()[0]
                except OSError:
                    return
                threading.Thread(target=talk, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}", heard

    def test_websockets_are_shared_and_hold_their_place(self):
        (one, heard), (other, heard_too) = self.echo(), self.echo()
        gateway = self.start(Gateway(BINARY, config(service(url=[one, other]), route(), ADMIN)))
        clients = []
        for number in range(6):
            client = socket.create_connection(gateway.address, 20)
            self.addCleanup(client.close)
            client.sendall(
                b"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.assertIn(b" 101 ", head)
            clients.append(client)
            # Each goes to the one with fewer open ones.
            self.assertEqual(sorted(self.open(gateway)), [(number + 1) // 2, (number + 2) // 2])
        for client in clients:
            client.sendall(b"hello")
            self.assertEqual(client.recv(100), b"hello")
        self.assertEqual((len(heard), len(heard_too)), (3, 3))
        for client in clients:
            client.close()
        self.assertTrue(eventually(lambda: self.open(gateway) == [0, 0], 20))


class Budget(ServersCase):
    def test_beyond_the_budget_nothing_is_sent_again(self):
        gone, _ = servers = self.servers("ab")
        balance = {"retry_percent": 0, "retry_per_second": 0, "max_failures": 1000}
        gateway = self.gateway(servers, **balance)
        gone.kill()
        answers = collections.Counter(gateway.get("/").status for _ in range(60))
        self.assertEqual(set(answers), {200, 502}, answers)
        retries = self.status(gateway)["retries"]
        self.assertEqual(retries, {"sent": 0, "refused": answers[502]})
        labels = ['service="demo",outcome="sent"', 'service="demo",outcome="refused"']
        expected = dict(zip(labels, (0, answers[502])))
        self.assertEqual(self.metric(gateway, "pilotlight_service_retries_total"), expected)

    def test_within_it_all_is(self):
        gone, _ = servers = self.servers("ab")
        gateway = self.gateway(servers, max_failures=1000)
        gone.kill()
        self.assertEqual(set(self.names(gateway, 60)), {"b"})
        retries = self.status(gateway)["retries"]
        self.assertGreater(retries["sent"], 0)
        self.assertEqual(retries["refused"], 0)

    def test_servers_have_metrics(self):
        gone, other = servers = self.servers("ab")
        gateway = self.gateway(servers, max_failures=1, eject_time="1m")
        gone.kill()
        self.names(gateway, 20)
        up = {f'service="demo",server="{one.address}"': number for one, number in ((gone, 0), (other, 1))}
        self.assertEqual(self.metric(gateway, "pilotlight_server_up"), up)
        self.assertEqual(set(self.metric(gateway, "pilotlight_server_requests_open").values()), {0})
        command = [str(BINARY), "status", "demo", "--socket", str(gateway.folder / "admin.sock")]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertRegex(told, rf"{gone.address} +ejected, .* left +0\n")
        self.assertRegex(told, rf"{other.address} +in +0\n")


class Instances(ServersCase):
    def test_many_at_once(self):
        gateway = self.gateway(self.servers())
        answers = in_threads(30, lambda _: gateway.get("/").status)
        self.assertEqual(answers, [200] * 30)
