"""Certificates by ACME, from a real Pebble to a client of the gateway (issue 17, number 2)."""

import json
import os
import socket
import ssl
import subprocess
import time

from certificates import Authority
from harness import BINARY, Gateway, config, eventually, setUpModule
from harness import TestCase as Case
from pebble import Pebble, free_ports

__all__ = ["setUpModule"]


class Acme(Case):
    def pebble(self, **environment):
        """A Pebble, and the ports at which it validates."""
        http, tls = free_ports(2)
        pebble = Pebble(http, tls, **environment)
        self.enterContext(pebble)
        return pebble, http, tls

    def gateway(self, hosts, listen, acme, *blocks):
        routes = [f'[[routes]]\nhost = "{host}"\npath = "/"\nfiles = "site"\n' for host in hosts]
        section = "[tls.acme]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in acme.items())
        gateway = Gateway(BINARY, config(*routes, section, *blocks, listen=listen))
        (gateway.folder / "site").mkdir()
        (gateway.folder / "site/index.html").write_text("a page\n")
        return gateway

    def page(self, host, port, roots):
        """The page, and the certificate by which it came; None without one that is taken."""
        context = ssl.create_default_context(cafile=roots)
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as plain:
                with context.wrap_socket(plain, server_hostname=host) as secure:
                    secure.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                    answer = b""
                    while piece := secure.recv(65536):
                        answer += piece
                    return answer.decode(), secure.getpeercert(binary_form=True)
        except (ssl.SSLError, ConnectionError, TimeoutError):
            return None

    def eventually_page(self, host, port, roots, other_than=None):
        found = []

        def there():
            page = self.page(host, port, roots)
            if page and page[1] != other_than:
                found.append(page)
            return found

        self.assert_eventually(there, f"no page of {host}", 30.0)
        self.assertIn("a page", found[0][0])
        return found[0][1]

    def pilotlight(self, gateway, *arguments, code=0):
        argv = [str(BINARY), *map(str, arguments), "--config", str(gateway.folder / "pilotlight.toml")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def listed(self, gateway):
        return json.loads(self.pilotlight(gateway, "certificates", "--json"))


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
