"""A service of somebody else's that has several servers: which of them takes a request, and what happens when one is
gone, slow or ill. The servers are processes of their own."""

import collections
import json
import socket
import subprocess
import threading

from harness import BINARY, PYTHON, Gateway, TestCase, config, in_threads, route, service, setUpModule
from http1 import eventually
from test_operate import ADMIN

__all__ = ["setUpModule"]

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
name = sys.argv[1]
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ill = False
    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        query = parse_qs(urlsplit(self.path).query)
        if query.get("slow", [""])[0] == name:
            time.sleep(float(query["seconds"][0]))
        if query.get("ill", [""])[0] == name:
            Handler.ill = True
        body = name.encode()
        self.send_response(503 if Handler.ill else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 512
server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Server:
    """A process that answers with its name."""

    def __init__(self, name, port=0):
        self.name = name
        self.process = subprocess.Popen(
            [PYTHON, "-c", SERVER, name, str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.port = int(self.process.stdout.readline())

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ServersCase(TestCase):
    def servers(self, names="abc"):
        found = [Server(name) for name in names]
        for one in found:
            self.addCleanup(one.kill)
        return found

    def gateway(self, servers, **balance):
        settings = {"balance": balance} if balance else {}
        urls = [one.url for one in servers]
        return self.start(Gateway(BINARY, config(service(url=urls, **settings), route(), ADMIN)))

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
        done = subprocess.run(
            [str(BINARY), "status", "--json", "--socket", str(gateway.folder / "admin.sock")],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        [one] = json.loads(done.stdout)["services"]
        return one["servers"]

    def states(self, gateway):
        return {each["address"]: each["state"] for each in self.status(gateway)}


class Sharing(ServersCase):
    def test_all_servers_get_requests(self):
        gateway = self.gateway(self.servers())
        found = self.names(gateway, 300)
        self.assertEqual(set(found), {"a", "b", "c"})
        self.assertGreater(min(found.values()), 50, found)

    def test_weights_are_shares(self):
        gateway = self.gateway(self.servers("ab"), weights=[9, 1])
        found = self.names(gateway, 600)
        self.assertGreater(found["a"], 480, found)
        self.assertGreater(found["b"], 15, found)

    def test_a_server_that_is_busy_gets_no_more_while_the_other_is_not(self):
        gateway = self.gateway(self.servers("ab"))
        busy = [threading.Thread(target=gateway.get, args=("/?slow=a&seconds=6",)) for _ in range(8)]
        for one in busy:
            one.start()
        # What the other one got of these it has answered at once.
        self.assertTrue(eventually(lambda: self.open(gateway)[0] >= 1 and self.open(gateway)[1] == 0, 5))
        found = self.names(gateway, 60)
        for one in busy:
            one.join()
        self.assertEqual(found["a"], 0, found)

    def open(self, gateway):
        return [each["open"] for each in self.status(gateway)]

    def test_one_value_of_a_field_goes_to_one_server(self):
        gateway = self.gateway(self.servers(), by="header:x-user")
        homes = {user: self.names(gateway, 5, **{"x-user": user}) for user in map(str, range(30))}
        self.assertTrue(all(len(found) == 1 for found in homes.values()), homes)
        self.assertEqual(len({name for found in homes.values() for name in found}), 3, homes)

    def test_one_client_goes_to_one_server_and_one_cookie(self):
        servers = self.servers()
        self.assertEqual(len(self.names(self.gateway(servers, by="client"), 30)), 1)
        gateway = self.gateway(servers, by="cookie:sid")
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
        self.assertIn("left out", gateway.output())

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


class Instances(ServersCase):
    def test_many_at_once(self):
        gateway = self.gateway(self.servers())
        answers = in_threads(30, lambda _: gateway.get("/").status)
        self.assertEqual(answers, [200] * 30)
