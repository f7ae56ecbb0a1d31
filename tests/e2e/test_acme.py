"""Certificates by ACME, from a real Pebble to a client of the gateway (issue 17, number 2)."""

import json
import os
import subprocess
import time

from acme import Acme
from certificates import Authority
from harness import BINARY, Gateway, eventually, in_threads, setUpModule
from ports import free_ports
from redis_servers import Server

__all__ = ["setUpModule"]


class Http01(Acme):
    def test_from_nothing_to_a_page(self):
        pebble, http, tls = self.pebble()
        roots = pebble.issued_by()
        begun = time.monotonic()
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = self.start(self.gateway(["app.example.org"], listen, pebble.settings()))
        first = self.eventually_page("app.example.org", tls, roots)
        took = time.monotonic() - begun
        print(f"from nothing to a page over HTTPS: {took:.2f} s")
        folder = gateway.folder / "acme"
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        kept = folder / "certificates/app.example.org.pem"
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)
        # A new one, when a person wants it. The old one is shown until then.
        self.pilotlight(gateway, "certificates", "renew", "app.example.org")
        second = self.eventually_page("app.example.org", tls, roots, other_than=first)
        self.assertEqual(pebble.orders(), 2)
        # The next process has it from the folder.
        config_text, site = gateway._config, kept.read_bytes()
        gateway.stop()
        again = Gateway(BINARY, config_text)
        (again.folder / "site").mkdir()
        (again.folder / "site/index.html").write_text("a page\n")
        (again.folder / "acme/certificates").mkdir(parents=True, mode=0o700)
        (again.folder / "acme").chmod(0o700)
        (again.folder / "acme/certificates/app.example.org.pem").write_bytes(site)
        self.start(again)
        self.assertEqual(self.eventually_page("app.example.org", tls, roots), second)
        self.assertEqual(pebble.orders(), 2)

    def test_the_operator_sees_names_errors_and_what_comes(self):
        pebble, http, tls = self.pebble()
        # Nobody answers at the port of HTTP-01.
        other, _ = free_ports(2)
        listen = [f"127.0.0.1:{other}", f"https://127.0.0.1:{free_ports(1)[0]}"]
        gateway = self.start(self.gateway(["app.example.org"], listen, pebble.settings()))
        status = lambda: self.listed(gateway)["acme"]["names"][0]  # noqa: E731
        self.assert_eventually(lambda: status()["last_error"], "an order fails", 30.0)
        self.assertIn("could not validate the name by HTTP-01", status()["last_error"]["text"])
        self.assertGreater(status()["next_attempt_in_seconds"], 30)
        self.assertIn("next attempt in", self.pilotlight(gateway, "certificates"))
        whole = json.loads(self.pilotlight(gateway, "status", "--json"))
        self.assertEqual(whole["acme"]["names"][0]["name"], "app.example.org")
        # A person brings one.
        authority = Authority(gateway.folder)
        certificate, key = authority.issue("app.example.org")
        self.pilotlight(gateway, "certificates", "import", "--certificate", certificate, "--key", key)
        self.eventually_page("app.example.org", int(listen[1].rsplit(":", 1)[1]), authority.certificate)
        self.assertEqual(status()["from"], "imported")
        wrong, wrong_key = authority.issue("other.example.org")
        self.pilotlight(gateway, "certificates", "import", "--certificate", wrong, "--key", wrong_key, code=2)
        self.pilotlight(gateway, "certificates", "renew", "other.example.org", code=2)

    def test_a_host_that_comes_with_a_reload(self):
        pebble, http, tls = self.pebble()
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = self.start(self.gateway(["a.example.org"], listen, pebble.settings()))
        roots = pebble.issued_by()
        self.eventually_page("a.example.org", tls, roots)
        file = gateway.folder / "pilotlight.toml"
        file.write_text(file.read_text().replace('host = "a.example.org"', 'host = "b.example.org"'))
        self.pilotlight(gateway, "reload")
        self.eventually_page("b.example.org", tls, roots)
        self.assertTrue(eventually(lambda: len(self.listed(gateway)["certificates"]) == 1))

    def test_a_service_gets_what_is_no_validation_of_ours(self):
        pebble, http, tls = self.pebble()
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = self.start(self.gateway(["app.example.org"], listen, pebble.settings()))
        self.eventually_page("app.example.org", tls, pebble.issued_by())
        unknown = gateway.get("/.well-known/acme-challenge/abc", host="app.example.org")
        self.assertEqual((unknown.status, unknown.body), (404, b""))
        # Any other path has its route, which sends its clients to the certificate.
        self.assertEqual(gateway.get("/.well-known/acme-challeng", host="app.example.org").status, 308)
        # And so has any other host.
        self.assert_problem(gateway.get("/.well-known/acme-challenge/abc", host="other.example.org"), 404)


    def test_a_storage_that_is_corrupt_is_written_anew(self):
        pebble, http, tls = self.pebble()
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = self.gateway(["app.example.org"], listen, pebble.settings())
        accounts = gateway.folder / "acme/accounts"
        certificates = gateway.folder / "acme/certificates"
        for folder in (accounts, certificates):
            folder.mkdir(parents=True)
        (gateway.folder / "acme").chmod(0o700)
        kept = certificates / "app.example.org.pem"
        kept.write_bytes(b"-----BEGIN CERTIFICATE-----\nMIIB\xff")
        self.start(gateway)
        first = self.eventually_page("app.example.org", tls, pebble.issued_by())
        self.assert_logged(gateway, "what is stored cannot be used")
        [account] = accounts.iterdir()
        whole = json.loads(account.read_text())
        config_text = gateway._config
        for text in ("{", json.dumps(whole | {"key_pkcs8": "AAAA"})):
            again = Gateway(BINARY, config_text)
            (again.folder / "site").mkdir()
            (again.folder / "site/index.html").write_text("a page\n")
            (again.folder / "acme/accounts").mkdir(parents=True)
            (again.folder / "acme").chmod(0o700)
            (again.folder / "acme/accounts" / account.name).write_text(text)
            gateway.stop()
            gateway = self.start(again)
            first = self.eventually_page("app.example.org", tls, pebble.issued_by(), other_than=first)
            self.assert_logged(gateway, "the stored ACME account is corrupt")

    def test_what_cannot_be_kept_is_used_and_not_ordered_again(self):
        pebble, http, tls = self.pebble()
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = self.start(self.gateway(["app.example.org"], listen, pebble.settings()))
        first = self.eventually_page("app.example.org", tls, pebble.issued_by())
        folder = gateway.folder / "acme/certificates"
        (folder / "app.example.org.pem").unlink()
        folder.rmdir()
        self.pilotlight(gateway, "certificates", "renew", "app.example.org")
        self.eventually_page("app.example.org", tls, pebble.issued_by(), other_than=first)
        state = lambda: self.listed(gateway)["acme"]["names"][0]  # noqa: E731
        self.assert_eventually(lambda: state()["last_error"], "it is said")
        self.assertIn("is used, but not kept for the next start", state()["last_error"]["text"])
        self.assertIn(str(folder), state()["last_error"]["text"])
        folder.mkdir(mode=0o700)
        self.assert_eventually(lambda: state()["last_error"] is None, "it is kept as soon as it can be", 30.0)
        self.assertTrue((folder / "app.example.org.pem").is_file())
        self.assertEqual(pebble.orders(), 2)


class Shared(Acme):
    def test_three_gateways_on_one_redis_place_one_order_a_name(self):
        pebble, http, tls = self.pebble()
        redis = Server()
        self.addCleanup(redis.close)
        names = [f"n{number}.example.org" for number in range(12)]
        ports, gateways = [], []
        for number in range(3):
            # The authority comes to the first; the others' validations are answered there, too.
            plain, secure = (http, tls) if number == 0 else free_ports(2)
            listen = [f"127.0.0.1:{plain}", f"https://127.0.0.1:{secure}"]
            cache = f'[cache.redis]\nurl = "{redis.url}"\n'
            gateways.append(self.gateway(names, listen, pebble.settings(storage="redis"), cache))
            ports.append(secure)
        for gateway in gateways:
            self.start(gateway)
        roots = pebble.issued_by()
        first = {name: {self.eventually_page(name, port, roots) for port in ports} for name in names}
        self.assertEqual({len(found) for found in first.values()}, {1}, "all have the same")
        self.assertEqual(pebble.orders(), len(names))
        # All want new ones at once.
        in_threads(3, lambda index: self.pilotlight(gateways[index], "certificates", "renew", "--all"))
        for name in names:
            [old] = first[name]
            new = {self.eventually_page(name, port, roots, other_than=old) for port in ports}
            self.assertEqual(len(new), 1)
        self.assertEqual(pebble.orders(), 2 * len(names))
        shares = [self.listed(gateway)["acme"]["obtained"] for gateway in gateways]
        self.assertEqual(sum(shares), 2 * len(names))
        print(f"three gateways, {len(names)} names twice: {pebble.orders()} orders, {shares} of each gateway")


class TlsAlpn01(Acme):
    def test_without_a_plain_listener(self):
        pebble, _, tls = self.pebble()
        listen = [f"https://127.0.0.1:{tls}", "unix:gateway.sock"]
        gateway = self.gateway(["app.example.org"], listen, pebble.settings())
        # The harness waits for a plain listener.
        config_file = gateway.folder / "pilotlight.toml"
        config_file.write_text(gateway._config)
        run = subprocess.Popen([str(BINARY), "--config", str(config_file)], cwd=gateway.folder, env=os.environ,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(run.wait)
        self.addCleanup(run.terminate)
        self.eventually_page("app.example.org", tls, pebble.issued_by())
        self.assertEqual(pebble.orders(), 1)
