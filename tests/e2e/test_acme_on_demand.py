"""Certificates on demand: a handshake for a host that no route names waits for one (issue 17, number 2)."""

import json
import re
import socket
import ssl
import threading

from acme import Acme
from harness import eventually, in_threads, setUpModule
from ports import free_ports
from redis_servers import Server

__all__ = ["setUpModule"]


class OnDemand(Acme):
    def begin(self, allows, hosts=("*.example.org",), limit="1000/s", acme=None, blocks=(), **environment):
        """A gateway that asks `allows`; what it stands on."""
        self.ca, http, self.tls = self.pebble(**environment)
        self.roots = self.ca.issued_by()
        self.asks = self.ask(allows)
        settings = self.ca.settings(on_demand={"ask": self.asks.address, "limit": limit}) | (acme or {})
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{self.tls}"]
        return self.start(self.gateway(hosts, listen, settings, *blocks))

    def counts(self, gateway):
        return self.listed(gateway)["acme"]["on_demand"]

    def test_clients_of_one_name_wait_for_one_order(self):
        gateway = self.begin(lambda name: 200)
        pages = in_threads(8, lambda _: self.page("a.example.org", self.tls, self.roots))
        self.assertTrue(all(page and "a page" in page[0] for page in pages), pages)
        self.assertEqual(len({page[1] for page in pages}), 1)
        self.assertEqual((self.ca.orders(), self.asks.asked), (1, ["a.example.org"]))
        # It is there now: nobody is asked.
        self.assertTrue(self.page("a.example.org", self.tls, self.roots))
        self.assertTrue(self.page("A.Example.ORG", self.tls, self.roots))
        self.assertEqual((self.ca.orders(), len(self.asks.asked)), (1, 1))
        [name] = self.listed(gateway)["acme"]["names"]
        self.assertEqual((name["name"], name["on_demand"], name["last_error"]), ("a.example.org", True, None))
        self.assertEqual(self.counts(gateway)["permitted"], 1)
        with gateway.client() as client:  # no host, or one that no wildcard stands for, is not looked for
            self.assert_status(client.request("GET", "/", host="a.example.org"), 308)
        self.assertIsNone(self.page("example.net", self.tls, self.roots))
        self.assertEqual(len(self.asks.asked), 1)

    def test_what_is_refused_is_remembered_and_costs_no_order(self):
        gateway = self.begin(lambda name: 404 if name.startswith("bad") else 200, hosts=(None,))
        for _ in range(3):
            self.assertIsNone(self.page("bad.example.org", self.tls, self.roots))
        self.assertEqual((self.ca.orders(), self.asks.asked), (0, ["bad.example.org"]))
        self.assertEqual(self.counts(gateway)["refused"], 1)
        self.assertTrue(self.page("good.example.net", self.tls, self.roots))
        # A redirect is no yes, and nobody follows it.
        self.asks.allows = lambda name: 302
        self.assertIsNone(self.page("other.example.org", self.tls, self.roots))
        self.assertEqual(self.ca.orders(), 1)
        # Who is refused gets what is there.
        context = ssl._create_unverified_context()
        with socket.create_connection(("127.0.0.1", self.tls), 10) as plain:
            with context.wrap_socket(plain, server_hostname="bad.example.org") as secure:
                self.assertTrue(secure.getpeercert(binary_form=True))

    def test_a_flood_of_names_orders_no_more_than_the_limit(self):
        gateway = self.begin(lambda name: 200, hosts=("*.example.org", "known.example.net"), limit="3/d")
        known = self.eventually_page("known.example.net", self.tls, self.roots)
        self.assertTrue(known)
        pages, stop = [], threading.Event()

        def watch():
            while not stop.is_set():
                pages.append(self.page("known.example.net", self.tls, self.roots))

        watching = threading.Thread(target=watch)
        watching.start()
        got = in_threads(100, lambda number: self.page(f"n{number}.example.org", self.tls, self.roots))
        stop.set()
        watching.join()
        self.assertEqual(sum(page is not None for page in got), 3)
        self.assertEqual(self.ca.orders(), 4)
        self.assertTrue(pages and all(pages), "a host that is known is served meanwhile")
        counts = self.counts(gateway)
        self.assertEqual(counts["permitted"], 3)
        self.assertLessEqual(counts["limited"], 97)
        metrics = self.pilotlight(gateway, "status", "--json")
        self.assertEqual(json.loads(metrics)["acme"]["on_demand"]["limit"], {"names": 3, "seconds": 86400})

    def test_who_says_nothing_delays_nobody_else(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def allows(name):
            if name.startswith("slow"):
                release.wait(60)
            return 500 if name.startswith("broken") else 200

        gateway = self.begin(allows)
        self.assertTrue(self.page("a.example.org", self.tls, self.roots))
        slow = threading.Thread(target=lambda: self.page("slow.example.org", self.tls, self.roots))
        slow.start()
        self.assert_eventually(lambda: "slow.example.org" in self.asks.asked, "it is asked")
        self.assertTrue(self.page("a.example.org", self.tls, self.roots))
        self.assertTrue(self.page("b.example.org", self.tls, self.roots))
        slow.join(30)
        self.assertFalse(slow.is_alive(), "a handshake is bounded")
        self.assertIsNone(self.page("broken.example.org", self.tls, self.roots))
        self.assertEqual(self.counts(gateway)["unanswered"], 2)
        self.assertEqual(self.ca.orders(), 2)

    def test_an_order_that_fails_is_not_repeated_for_each_client(self):
        # Nobody answers where the authority validates.
        gateway = self.begin(lambda name: 200)
        gateway.stop()
        listen = [f"127.0.0.1:{free_ports(1)[0]}", f"https://127.0.0.1:{free_ports(1)[0]}"]
        settings = self.ca.settings(on_demand={"ask": self.asks.address, "limit": "1000/s"})
        gateway = self.start(self.gateway(("*.example.org",), listen, settings))
        port = int(listen[1].rsplit(":", 1)[1])
        for _ in range(3):
            self.assertIsNone(self.page("a.example.org", port, self.roots))
        self.assertEqual(self.ca.orders(), 1)
        [state] = self.listed(gateway)["acme"]["names"]
        self.assertRegex(state["last_error"]["text"], "could not validate|acme:error:connection")

    def test_the_next_process_has_them_from_the_storage_and_renewal_asks_again(self):
        answers = {"status": 200}
        gateway = self.begin(lambda name: answers["status"])
        first = self.page("a.example.org", self.tls, self.roots)[1]
        kept = (gateway.folder / "acme/certificates/a.example.org.pem").read_bytes()
        text = gateway._config
        gateway.stop()
        answers["status"] = 500
        again = self.gateway((), [], {})
        again._config = text
        (again.folder / "acme/certificates").mkdir(parents=True, mode=0o700)
        (again.folder / "acme").chmod(0o700)
        (again.folder / "acme/certificates/a.example.org.pem").write_bytes(kept)
        again = self.start(again)
        self.assertEqual(self.page("a.example.org", self.tls, self.roots)[1], first)
        self.assertEqual((self.ca.orders(), len(self.asks.asked)), (1, 1))
        # A new one is ordered only if the name may still have one.
        answers["status"] = 404
        self.pilotlight(again, "certificates", "renew", "a.example.org")
        state = lambda: self.listed(again)["acme"]["names"][0]  # noqa: E731
        self.assert_eventually(lambda: state()["last_error"], "it is refused")
        self.assertIn("may have no certificate", state()["last_error"]["text"])
        self.assertEqual(self.page("a.example.org", self.tls, self.roots)[1], first)
        answers["status"] = 200
        self.pilotlight(again, "certificates", "renew", "a.example.org")
        self.eventually_page("a.example.org", self.tls, self.roots, other_than=first)
        self.assertEqual(self.ca.orders(), 2)
        self.assertTrue(eventually(lambda: state()["last_error"] is None, 10))

    def test_explain_says_what_a_client_would_get(self):
        gateway = self.begin(lambda name: 200, hosts=("*.example.org", "known.example.net"))
        self.eventually_page("known.example.net", self.tls, self.roots)
        told = self.pilotlight(gateway, "explain", "https://a.example.org/")
        self.assertIn("none is for the host", told)
        self.assertRegex(told, r"on demand: the first client waits while http://127\.0\.0\.1:\d+/may-have is asked")
        told = self.pilotlight(gateway, "explain", "https://known.example.net/")
        self.assertRegex(told, r"tls +known\.example\.net: it names the host")
        self.assertIn(f"by ACME from {self.ca.directory}, issued by", told)
        self.assertTrue(re.search(r"it is over in \d+", told) and re.search(r"ACME: renewed in \d+", told), told)
        self.assertIn("no route takes the host", self.pilotlight(gateway, "explain", "https://a.example.com/"))
        self.assertNotIn("tls ", self.pilotlight(gateway, "explain", "http://known.example.net/"))
        self.assertEqual(self.asks.asked, [], "explaining asks nobody")

    def test_gateways_on_one_redis_place_one_order(self):
        redis = Server()
        self.addCleanup(redis.close)
        cache = f'[cache.redis]\nurl = "{redis.url}"\n'
        first = self.begin(lambda name: 200, acme={"storage": "redis"}, blocks=[cache])
        text = first._config
        ports = [self.tls]
        for _ in range(2):
            http, tls = free_ports(2)
            one = self.gateway((), [], {})
            listen = f'listen = ["127.0.0.1:{http}", "https://127.0.0.1:{tls}"]'
            one._config = re.sub(r"listen = .*", listen, text, count=1)
            self.start(one)
            ports.append(tls)
        names = [f"n{number}.example.org" for number in range(6)]
        everywhere = [(name, port) for name in names for port in ports]
        pages = in_threads(len(everywhere), lambda index: self.page(*everywhere[index], self.roots))
        self.assertTrue(all(pages), pages)
        self.assertEqual(self.ca.orders(), len(names))
        self.assertEqual(len({page[1] for page in pages}), len(names))
