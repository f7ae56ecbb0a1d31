"""Servers that come and go while their service runs: requests that wait for one, load that goes on, what is kept."""

import collections
import socket
import subprocess
import threading

from harness import BINARY, Gateway, config, route, service, setUpModule
from load import THINK_TIME
from test_operate import ADMIN
from test_servers import Server, ServersCase

__all__ = ["setUpModule"]

WAITS = {"queue": {"max": 100, "timeout": "1m"}}


class ChangesCase(ServersCase):
    def text(self, servers, on_route=None, **settings):
        urls = [one.url for one in servers]
        return config(service(url=urls, **settings), route(**(on_route or {})), ADMIN, workers=2)

    def begin(self, servers, on_route=None, **settings):
        return self.start(Gateway(BINARY, self.text(servers, on_route, **settings)))

    def follow(self, gateway, servers, on_route=None, **settings):
        self.reload(gateway, self.text(servers, on_route, **settings))

    def waiting(self, gateway):
        return self.status(gateway)["queue"]["length"]

    def in_background(self, gateway, target, answers):
        one = threading.Thread(target=lambda: answers.append(gateway.get(target)))
        one.start()
        self.addCleanup(one.join)
        return one


class Waiting(ChangesCase):
    """Requests to a service that has no server."""

    def test_they_go_on_in_order_when_a_server_comes(self):
        [server] = self.servers("a")
        settings = WAITS | {"max_connections": 1}
        gateway, answers = self.begin([], **settings), []
        threads = []
        for number in range(6):
            threads.append(self.in_background(gateway, f"/order?{number}", answers))
            self.assert_eventually(lambda: self.waiting(gateway) == number + 1, "it waits")
        self.assertEqual(self.metric(gateway, "pilotlight_service_waiting_for_server"), {'service="demo"': 6})
        self.follow(gateway, [server], **settings)
        for one in threads:
            one.join()
        self.assertEqual([(one.status, one.body) for one in answers], [(200, b"a")] * 6)
        self.assertEqual(server.ask("/paths").decode().split(), [f"/order?{number}" for number in range(6)])
        self.assertEqual(self.metric(gateway, "pilotlight_service_servers"), {'service="demo"': 1})

    def test_they_go_on_where_other_settings_change_as_well(self):
        [server] = self.servers("a")
        gateway, answers = self.begin([], **WAITS), []
        one = self.in_background(gateway, "/", answers)
        self.assert_eventually(lambda: self.waiting(gateway) == 1, "it waits")
        self.follow(gateway, [server], queue={"max": 7, "timeout": "2m"})
        one.join()
        self.assertEqual([answer.status for answer in answers], [200])

    def test_who_waits_too_long_or_among_too_many_is_told_why(self):
        gateway = self.begin([], queue={"max": 1, "timeout": "200ms"})
        answer = gateway.get("/")
        late = self.assert_problem(answer, 503)
        self.assertIn("it has no server, and this one has waited for queue.timeout (0.2 s)", late["detail"])
        self.assertEqual(answer.get("retry-after"), "1")
        self.follow(gateway, [], queue={"max": 1, "timeout": "1m"})
        answers = []
        one = self.in_background(gateway, "/", answers)
        self.assert_eventually(lambda: self.waiting(gateway) == 1, "it waits")
        full = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("it has no server, and queue.max (1) requests wait already", full["detail"])
        [server] = self.servers("a")
        self.follow(gateway, [server], queue={"max": 1, "timeout": "1m"})
        # The end of the test would kill the server, and the request would wait for the next one.
        one.join()
        self.assertEqual([answer.status for answer in answers], [200])

    def test_the_time_of_the_route_is_over_before(self):
        gateway = self.begin([], {"timeout": "200ms"}, **WAITS)
        problem = self.assert_problem(gateway.get("/"), 504)
        self.assertIn("took no request within the route's timeout (0.2 s): it has no server", problem["detail"])

    def test_who_leaves_is_not_waited_for(self):
        [server] = self.servers("a")
        gateway = self.begin([], **WAITS)
        with socket.create_connection(gateway.address, 20) as client:
            client.sendall(b"GET /order?left HTTP/1.1\r\nhost: a\r\n\r\n")
            self.assert_eventually(lambda: self.waiting(gateway) == 1, "it waits")
        self.assert_eventually(lambda: self.waiting(gateway) == 0, "it has left")
        self.follow(gateway, [server], **WAITS)
        self.assertEqual(gateway.get("/order?stays").status, 200)
        self.assertEqual(server.ask("/paths"), b"/order?stays")

    def test_a_body_is_sent_when_there_is_a_server(self):
        [server] = self.servers("a")
        gateway, answers = self.begin([], **WAITS), []
        body = b"x" * 300_000
        one = threading.Thread(target=lambda: answers.append(gateway.request("POST", "/", body=body)))
        one.start()
        self.addCleanup(one.join)
        self.assert_eventually(lambda: self.waiting(gateway) == 1, "it waits")
        self.follow(gateway, [server], **WAITS)
        one.join()
        self.assertEqual([(answer.status, answer.body) for answer in answers], [(200, b"a")])

    def test_explain_says_that_it_waits(self):
        gateway = self.begin([], **WAITS)
        command = [str(BINARY), "explain", "/", "--socket", str(gateway.folder / "admin.sock")]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertIn("the request waits for a server to come", told)


class Kept(ChangesCase):
    """What a change leaves as it was."""

    def test_connections_and_ejections_and_counts_of_servers_that_stay(self):
        servers = self.servers("abc")
        gone, stays, comes = servers
        settings = {"balance": {"eject_time": "5m", "max_failures": 1}}
        gateway = self.begin([gone, stays], **settings)
        gone.kill()
        self.names(gateway, 20)
        self.assertEqual(self.states(gateway), {gone.address: "ejected", stays.address: "in"})
        answers = []
        busy = self.in_background(gateway, "/?slow=b&until=seen", answers)
        self.assert_eventually(lambda: self.open(gateway) == [0, 1], "a request is open")
        with gateway.client() as client:

            def connection():
                client.send_head("GET", "/connection", [])
                return client.answer("GET").body

            before = connection()
            self.follow(gateway, [stays, gone], **settings)
            self.assertEqual(connection(), before, "the kept connection is used")
            self.follow(gateway, [comes, gone, stays], **settings)
            self.assertEqual(self.states(gateway)[gone.address], "ejected")
            self.assertEqual(self.open(gateway), [0, 0, 1])
            self.assert_eventually(lambda: connection().startswith(b"c "), "the new one is asked, too")
        stays.go_on("seen")
        busy.join()
        self.assertEqual(self.open(gateway), [0, 0, 0])
        changes = self.status(gateway)["server_changes"]
        self.assertEqual(changes, {"came": 1, "went": 0})

    def test_what_is_known_stays_when_other_settings_change(self):
        gone, stays = servers = self.servers("ab")
        gateway = self.begin(servers, balance={"eject_time": "5m", "max_failures": 1})
        gone.kill()
        self.names(gateway, 20)
        self.follow(gateway, servers, balance={"eject_time": "4m", "max_failures": 1})
        self.assertEqual(self.states(gateway), {gone.address: "ejected", stays.address: "in"})

    def test_a_server_that_goes_ends_its_request(self):
        servers = self.servers("ab")
        gateway, answers = self.begin(servers), []
        threads = [self.in_background(gateway, "/?slow=a&until=gone", answers) for _ in range(4)]
        self.assert_eventually(lambda: self.open(gateway)[0] >= 1, "a has one")
        self.follow(gateway, servers[1:])
        self.assertEqual(self.names(gateway, 20), {"b": 20})
        servers[0].go_on("gone")
        for one in threads:
            one.join()
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertIn(b"a", [answer.body for answer in answers])

    def test_a_client_comes_back_by_its_cookie(self):
        servers = self.servers("abc")
        settings = {"balance": {"by": "sticky:at"}}
        gateway = self.begin(servers[:2], **settings)
        answer = gateway.get("/")
        cookie = answer.get("set-cookie").split(";")[0]
        home = next(one for one in servers if one.name.encode() == answer.body)
        self.follow(gateway, [servers[2], home], **settings)
        found = {gateway.get("/", fields=[("cookie", cookie)]).body for _ in range(20)}
        self.assertEqual(found, {answer.body})

    def test_health_requests_follow_the_list(self):
        one, other = self.servers("ab")
        settings = {"health": {"path": "/health", "interval": "100ms"}}
        gateway = self.begin([one], **settings)
        self.assert_eventually(lambda: one.ask("/asked") != b"0", "the first is asked")
        self.follow(gateway, [other], **settings)
        self.assert_eventually(lambda: other.ask("/asked") != b"0", "the new one is asked")
        other.ask("/?sick=yes")
        self.assert_eventually(lambda: self.states(gateway) == {other.address: "unhealthy"}, "and judged")
        asked = int(one.ask("/asked"))
        more = int(other.ask("/asked")) + 5
        self.assert_eventually(lambda: int(other.ask("/asked")) >= more, "the new one is asked on")
        self.assertLessEqual(int(one.ask("/asked")), asked + 1, "the other one is not")


class UnderLoad(ChangesCase):
    def load(self, gateway, threads=8):
        """Requests until the returned function is called, which gives the answers that were not 200."""
        stop, failed, answered = threading.Event(), [], collections.Counter()

        def one():
            with gateway.client() as client:
                while not stop.wait(THINK_TIME):
                    client.send_head("GET", "/", [])
                    answer = client.answer("GET")
                    answered[answer.body] += 1
                    if answer.status != 200:
                        failed.append(answer)

        all_of_them = [threading.Thread(target=one) for _ in range(threads)]
        for each in all_of_them:
            each.start()

        def end():
            stop.set()
            for each in all_of_them:
                each.join()
            return failed

        self.addCleanup(end)
        return answered, end

    def test_servers_that_go_and_come_cost_no_request(self):
        servers = self.servers("ab")
        gateway = self.begin(servers, **WAITS)
        answered, end = self.load(gateway)
        for round_ in range(6):
            fresh = Server(f"fresh{round_}")
            self.addCleanup(fresh.kill)
            old, servers = servers[0], [*servers[1:], fresh]
            self.follow(gateway, servers, **WAITS)
            self.assert_eventually(lambda: answered[fresh.name.encode()] > 20, "the new one is asked")
            old.kill()
        self.assertEqual(end(), [])
        self.assertEqual(self.status(gateway)["server_changes"], {"came": 6, "went": 6})

    def test_all_of_them_go_and_others_come(self):
        servers = self.servers("ab")
        gateway = self.begin(servers, **WAITS)
        answered, end = self.load(gateway)
        for round_ in range(3):
            self.assert_eventually(lambda: sum(answered.values()) > 100 * (round_ + 1), "there is load")
            self.follow(gateway, [], **WAITS)
            for one in servers:
                one.kill()
            self.assert_eventually(lambda: self.waiting(gateway) == 8, "all wait")
            servers = [Server(f"{name}{round_}") for name in "ab"]
            for one in servers:
                self.addCleanup(one.kill)
            self.follow(gateway, servers, **WAITS)
        self.assert_eventually(lambda: answered[b"a2"] > 20 and answered[b"b2"] > 20, "the last ones are asked")
        self.assertEqual(end(), [])

    def test_a_request_whose_last_server_is_killed_waits_for_the_next(self):
        [one] = self.servers("a")
        settings = WAITS | {"max_connections": 5}
        gateway, answers = self.begin([one], **settings), []
        thread = self.in_background(gateway, "/?slow=a&until=killed", answers)
        self.assert_eventually(lambda: self.open(gateway) == [1], "it is there")
        self.follow(gateway, [], **settings)
        one.kill()
        self.assert_eventually(lambda: self.waiting(gateway) == 1, "it waits for another one")
        [other] = self.servers("b")
        self.follow(gateway, [other], **settings)
        thread.join()
        self.assertEqual([(answer.status, answer.body) for answer in answers], [(200, b"b")])
