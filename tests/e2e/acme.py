"""What the tests of certificates by ACME share: a Pebble, gateways that ask it, clients that verify."""

import json
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from harness import BINARY, Gateway, config
from harness import TestCase as Case
from pebble import Pebble
from ports import free_ports

PAGE = "a page\n"


class Ask:
    """Says whether names may have certificates: `allows(name)` gives the status. Knows who was asked about."""

    def __init__(self, allows):
        self.allows, self.asked = allows, []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = parse_qs(urlsplit(self.path).query)["domain"][0]
                owner.asked.append(name)
                status = owner.allows(name)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}/may-have"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Acme(Case):
    def pebble(self, **environment):
        """A Pebble, and the ports at which it validates."""
        http, tls = free_ports(2)
        pebble = Pebble(http, tls, **environment)
        self.enterContext(pebble)
        return pebble, http, tls

    def ask(self, allows):
        ask = Ask(allows)
        self.addCleanup(ask.close)
        return ask

    def gateway(self, hosts, listen, acme, *blocks):
        """`hosts` are those of the routes; `None` is a route without."""
        named = lambda host: f"host = {json.dumps(host)}\n" if host else ""  # noqa: E731
        one = lambda host: f'[[routes]]\n{named(host)}path = "/"\nfiles = "site"\n'  # noqa: E731
        section = lambda name, values: f"[{name}]\n" + "".join(  # noqa: E731
            f"{key} = {json.dumps(value)}\n" for key, value in values.items() if not isinstance(value, dict)
        )
        tables = [section("tls.acme", acme)]
        tables += [section(f"tls.acme.{key}", value) for key, value in acme.items() if isinstance(value, dict)]
        gateway = Gateway(BINARY, config(*map(one, hosts), *tables, *blocks, listen=listen))
        (gateway.folder / "site").mkdir()
        (gateway.folder / "site/index.html").write_text(PAGE)
        return gateway

    def page(self, host, port, roots, limit=30.0):
        """The page, and the certificate by which it came; None without one that is taken."""
        context = ssl.create_default_context(cafile=roots)
        try:
            with socket.create_connection(("127.0.0.1", port), limit) as plain:
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
