"""Servers that are followed by name: addresses and SRV records of a real server of the DNS, which changes and goes."""

import subprocess
import threading

from harness import BINARY, Gateway, config, route, service, setUpModule
from name_server import Dns
from ports import free_port
from test_operate import ADMIN
from test_servers import Server, ServersCase

__all__ = ["setUpModule"]

QUEUE = {"max": 100, "timeout": "1m"}


class NamesCase(ServersCase):
    def setUp(self):
        self.dns = Dns(self)

    def at(self, *numbers, port=None):
        """Servers on one port of several addresses of this machine."""
        port, found = port or free_port(), []
        for number in numbers:
            found.append(Server(f"at{number}", port, f"127.0.0.{number}"))
            self.addCleanup(found[-1].kill)
        return port, found

    def text(self, url, queue=QUEUE, more=None, **dns):
        dns = {"servers": [self.dns.address], "min_ttl": "100ms", "timeout": "2s"} | dns
        return config(service(url=url, dns=dns, queue=queue, **(more or {})), route(), ADMIN)

    def begin(self, url, **settings):
        return self.start(Gateway(BINARY, self.text(url, **settings)))

    def name(self, gateway):
        [name] = self.status(gateway)["names"]
        return name

    def has(self, gateway, *servers):
        return set(self.states(gateway)) == {one.address for one in servers}

    def assert_has(self, gateway, *servers):
        self.assert_eventually(lambda: self.has(gateway, *servers), "the servers of the name", 20)


class Addresses(NamesCase):
    def test_the_servers_are_those_of_the_name_and_follow_it(self):
        port, (two, three, four) = self.at(2, 3, 4)
        self.dns.serve({"app.test": ["127.0.0.2", "127.0.0.3"]})
        gateway = self.begin(f"http://app.test:{port}")
        self.assert_has(gateway, two, three)
        self.assertEqual(set(self.names(gateway, 40)), {"at2", "at3"})
        stop, failed = threading.Event(), []

        def load():
            with gateway.client() as client:
                while not stop.is_set():
                    client.send_head("GET", "/", [])
                    answer = client.answer("GET")
                    if answer.status != 200:
                        failed.append(answer)

        one = threading.Thread(target=load)
        one.start()
        self.dns.serve({"app.test": ["127.0.0.4", "127.0.0.3"]})
        self.assert_has(gateway, three, four)
        two.kill()
        # The load has a request open at one of them nearly always, and the other one has none.
        self.assertLessEqual(set(self.names(gateway, 40)), {"at3", "at4"})
        stop.set()
        one.join()
        self.assertEqual(failed, [])
        self.assertEqual(set(self.names(gateway, 40)), {"at3", "at4"})
        self.assertEqual(self.status(gateway)["server_changes"], {"came": 3, "went": 1})
        self.assertEqual([each["host"] for each in self.status(gateway)["servers"]], ["app.test"] * 2)

    def test_while_the_dns_is_away_its_last_answer_counts(self):
        port, servers = self.at(2, 3)
        self.dns.serve({"app.test": ["127.0.0.2", "127.0.0.3"]})
        gateway = self.begin(f"http://app.test:{port}", timeout="300ms")
        self.assert_has(gateway, *servers)
        self.dns.stop()
        self.assert_eventually(lambda: self.name(gateway)["error"] is not None, "it is said", 20)
        self.assert_logged(gateway, "the last answer counts")
        self.assertEqual(set(self.names(gateway, 40)), {"at2", "at3"})
        command = [str(BINARY), "status", "demo", "--socket", str(gateway.folder / "admin.sock")]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertRegex(told, rf"app\.test:{port} +2 .* ago +the last answer counts: ")
        # Other settings: the answer is known yet.
        more = {"balance": {"max_failures": 9}}
        self.reload(gateway, self.text(f"http://app.test:{port}", timeout="300ms", more=more))
        self.assertEqual(set(self.names(gateway, 40)), {"at2", "at3"})
        self.dns.serve({"app.test": ["127.0.0.3"]})
        self.assert_has(gateway, servers[1])
        self.assertIsNone(self.name(gateway)["error"])
        self.assert_logged(gateway, "the DNS answers again")
        lookups = self.metric(gateway, "pilotlight_service_name_lookups_total")
        label = f'service="demo",name="app.test:{port}",outcome='
        self.assertGreater(lookups[label + '"failed"'], 0)
        self.assertGreater(lookups[label + '"answered"'], 0)

    def test_requests_wait_until_the_name_has_an_address(self):
        port, [two] = self.at(2)
        self.dns.serve()
        gateway, answers = self.begin(f"http://app.test:{port}"), []
        one = threading.Thread(target=lambda: answers.append(gateway.get("/")))
        one.start()
        self.addCleanup(one.join)
        self.assert_eventually(lambda: self.status(gateway)["queue"]["length"] == 1, "it waits")
        self.assert_eventually(lambda: "the DNS knows no server by this name" in gateway.output(), "it is said")
        self.dns.serve({"app.test": ["127.0.0.2"]})
        one.join()
        self.assertEqual([(answer.status, answer.body) for answer in answers], [(200, b"at2")])

    def test_who_waits_in_vain_is_told_what_the_dns_says(self):
        self.dns.serve()
        gateway = self.begin("http://app.test:80", queue={"max": 9, "timeout": "300ms"})
        self.assert_eventually(lambda: self.name(gateway)["answers"] > 0, "it has answered")
        problem = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("it has no server, as the DNS knows none, and this one has waited", problem["detail"])
        self.dns.stop()
        other = self.begin("http://app.test:80", queue={"max": 9, "timeout": "300ms"}, timeout="100ms")
        self.assert_eventually(lambda: self.name(other)["error"] is not None, "it has not answered")
        problem = self.assert_problem(other.get("/"), 503)
        self.assertIn("it has no server, and the DNS does not answer, and this one has waited", problem["detail"])

    def test_no_more_than_it_may(self):
        port, servers = self.at(2, 3, 4)
        self.dns.serve({"app.test": ["127.0.0.4", "127.0.0.3", "127.0.0.2"]})
        gateway = self.begin(f"http://app.test:{port}", max_addresses=2)
        self.assert_has(gateway, *servers[:2])
        self.assert_eventually(lambda: "only its first 2 servers are used" in gateway.output(), "it is said")

    def test_a_name_beside_an_address(self):
        port, (two, three) = self.at(2, 3)
        self.dns.serve({"app.test": ["127.0.0.3"]})
        urls = [f"http://127.0.0.2:{port}", f"http://app.test:{port}"]
        gateway = self.begin(urls, more={"balance": {"weights": [1, 3]}}, queue={})
        self.assert_has(gateway, two, three)
        found = self.names(gateway, 200)
        self.assertGreater(found["at3"], found["at2"])
        self.dns.serve()
        self.assert_has(gateway, two)

    def test_an_answer_counts_for_its_ttl(self):
        port, (two, three) = self.at(2, 3)
        self.dns.serve({"app.test": ["127.0.0.2"]}, ttl=3600)
        gateway = self.begin(f"http://app.test:{port}")
        self.assert_has(gateway, two)
        again = self.name(gateway)["asked_again_in_seconds"]
        self.assertTrue(100 < again <= 300, "max_ttl is 5 minutes")
        self.dns.serve({"app.test": ["127.0.0.3"]}, ttl=3600)
        self.reload(gateway, self.text(f"http://app.test:{port}", max_ttl="1s"))
        self.assert_has(gateway, three)


class Services(NamesCase):
    """SRV records: hosts, ports, priorities, weights."""

    def test_priorities_and_weights(self):
        servers = {name: Server(name) for name in "abc"}
        for one in servers.values():
            self.addCleanup(one.kill)
        ports = {name: one.port for name, one in servers.items()}
        self.dns.serve(
            {f"{name}.test": ["127.0.0.1"] for name in "abc"},
            [
                ("_web._tcp.test", "a.test", ports["a"], 10, 60),
                ("_web._tcp.test", "b.test", ports["b"], 10, 20),
                ("_web._tcp.test", "c.test", ports["c"], 20, 1),
            ],
        )
        gateway = self.begin("http+srv://_web._tcp.test", more={"balance": {"max_failures": 1, "eject_time": "1m"}})
        self.assert_has(gateway, *servers.values())
        found = self.names(gateway, 400)
        self.assertEqual(set(found), {"a", "b"})
        self.assertGreater(found["a"], 2 * found["b"], found)
        shown = {each["host"]: (each["priority"], each["weight"]) for each in self.status(gateway)["servers"]}
        self.assertEqual(shown, {"a.test": (10, 1000), "b.test": (10, 333), "c.test": (20, 1000)})
        servers["a"].kill()
        servers["b"].kill()
        self.assertEqual(self.names(gateway, 40)["c"], 40)

    def test_records_that_change(self):
        one, other = self.servers("ab")
        hosts = {"host.test": ["127.0.0.1"]}
        self.dns.serve(hosts, [("_web._tcp.test", "host.test", one.port, 0, 0)])
        gateway = self.begin("http+srv://_web._tcp.test.")
        self.assert_has(gateway, one)
        self.dns.serve(hosts, [("_web._tcp.test", "host.test", other.port, 0, 0)])
        self.assert_has(gateway, other)
        self.assertEqual(set(self.names(gateway, 10)), {"b"})
        self.dns.serve(hosts)
        self.assert_has(gateway)
