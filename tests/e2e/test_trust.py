"""`pilotlight trust` and `untrust`, with the programs that people have: each store is one of the test's own."""

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, setUpModule
from programs import needs, program

__all__ = ["setUpModule"]

# For a Java that runs for a second: no class is read twice, and no code is optimised.
QUICK = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def run(argv, home, **env):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)} | env
    return subprocess.run([str(word) for word in argv], env=environment, capture_output=True, text=True, timeout=120)


class Home(unittest.TestCase):
    """A home without anything."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.folder = self.home / ".local/share/pilotlight/authority"

    def pilotlight(self, *arguments, code=0, **env):
        done = run([BINARY, *arguments], self.home, **env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def nss(self, *arguments, store=".pki/nssdb"):
        return run([program("certutil"), "-d", f"sql:{self.home / store}", *arguments], self.home)


class Stores(Home):
    def test_nss_has_the_root_until_it_is_taken_out(self):
        profile = ".mozilla/firefox/abc.default"
        (self.home / profile).mkdir(parents=True)
        self.assertEqual(self.nss("-N", "--empty-password", store=profile).returncode, 0)
        said = self.pilotlight("trust", "--only", "nss").stdout
        self.assertIn("Firefox (abc.default)", said)
        self.assertIn("NODE_EXTRA_CA_CERTS=", said)
        for store in (".pki/nssdb", profile):
            listed = self.nss("-L", store=store).stdout
            self.assertRegex(listed, r"Pilotlight local authority [0-9a-f]{8} +C,,")
        self.pilotlight("trust", "--only", "nss")
        self.assertEqual(self.nss("-L").stdout.count("Pilotlight"), 1, "once, however often")
        self.pilotlight("untrust", "--only", "nss")
        for store in (".pki/nssdb", profile):
            self.assertNotIn("Pilotlight", self.nss("-L", store=store).stdout)

    def test_java_has_the_root_until_it_is_taken_out(self):
        store = self.home / "store.jks"
        keytool = [program("keytool"), *(f"-J{word}" for word in QUICK), "-list", "-keystore", store]
        keytool += ["-storepass", "changeit"]
        self.pilotlight("trust", "--only", "java", "--java-keystore", store)
        self.assertIn("pilotlight-", run(keytool, self.home).stdout)
        self.pilotlight("untrust", "--only", "java", "--java-keystore", store)
        self.assertNotIn("pilotlight-", run(keytool, self.home).stdout)

    def test_a_bundle_has_the_system_s_roots_and_this_one(self):
        bundle = self.home / "roots.pem"
        self.pilotlight("trust", "--only", "system", "--bundle", bundle)
        roots = bundle.read_text()
        self.assertIn((self.folder / "root.pem").read_text().strip(), roots)
        self.assertGreater(roots.count("BEGIN CERTIFICATE"), 50)
        self.pilotlight("untrust", "--only", "system", "--bundle", bundle)
        self.assertFalse(bundle.exists())


class Authority(Home):
    @needs("certutil")
    def test_it_is_made_once_for_its_owner(self):
        self.pilotlight("trust", "--dry-run")
        root = (self.folder / "root.pem").read_bytes()
        self.assertEqual(stat.S_IMODE(self.folder.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE((self.folder / "root.key").stat().st_mode), 0o600)
        self.pilotlight("trust", "--dry-run")
        self.assertEqual((self.folder / "root.pem").read_bytes(), root)

    @needs("certutil")
    def test_a_dry_run_changes_no_store(self):
        said = self.pilotlight("trust", "--dry-run", "--only", "nss").stdout
        self.assertIn("would do: Chromium: make the folder", said)
        self.assertFalse((self.home / ".pki").exists())

    def test_without_one_there_is_nothing_to_take_out(self):
        self.assertIn("there is no local authority", self.pilotlight("untrust").stdout)
        self.assertFalse(self.folder.exists())

    @needs("certutil")
    def test_what_others_may_read_is_refused(self):
        self.pilotlight("trust", "--dry-run")
        (self.folder / "root.key").chmod(0o644)
        said = self.pilotlight("trust", "--only", "nss", code=1).stderr
        self.assertIn("chmod 600", said)
        (self.folder / "root.key").chmod(0o600)
        self.folder.chmod(0o755)
        self.assertIn("chmod 700", self.pilotlight("trust", code=1).stderr)

    @needs("certutil")
    def test_its_folder_is_where_data_is(self):
        self.pilotlight("trust", "--dry-run", XDG_DATA_HOME=str(self.home / "data"))
        self.assertTrue((self.home / "data/pilotlight/authority/root.pem").exists())
        self.pilotlight("trust", "--dry-run", "--folder", self.home / "other")
        self.assertTrue((self.home / "other/root.pem").exists())


JAVA = """
import java.net.URI;
import javax.net.ssl.*;

public class Get {
    public static void main(String[] arguments) throws Exception {
        var plain = new java.net.Socket("127.0.0.1", Integer.parseInt(arguments[0]));
        var factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
        var socket = (SSLSocket) factory.createSocket(plain, "app.localhost", plain.getPort(), true);
        var parameters = socket.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        socket.setSSLParameters(parameters);
        var request = "GET / HTTP/1.1\\r\\nHost: app.localhost\\r\\nConnection: close\\r\\n\\r\\n";
        socket.getOutputStream().write(request.getBytes());
        System.out.print(new String(socket.getInputStream().readAllBytes()));
    }
}
"""

PYTHON = """
import http.client, socket, ssl, sys
context = ssl.create_default_context()
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection = http.client.HTTPSConnection("app.localhost", int(sys.argv[1]), context=context)
connection.sock = context.wrap_socket(plain, server_hostname="app.localhost")
connection.request("GET", "/")
print(connection.getresponse().read().decode())
"""

NODE = """
const https = require('node:https');
const [port, servername] = [process.argv[1], 'app.localhost'];
const options = { host: '127.0.0.1', port, servername, headers: { host: servername } };
https.get(options, answer => answer.pipe(process.stdout)).on('error', error => console.error(error.code));
"""


class Clients(Home):
    """Each program takes the gateway's certificate after `pilotlight trust`, and not before."""

    def setUp(self):
        super().setUp()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.url = f"https://app.localhost:{self.port}/"
        (self.home / "site").mkdir()
        (self.home / "site/index.html").write_text("<p>a local page</p>")
        config = self.home / "pilotlight.toml"
        self.write(self.url.rstrip("/"))
        self.pilotlight("check", "--config", config)
        gateway = subprocess.Popen(
            [str(BINARY), "--config", str(config)],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(gateway.stdout.close)
        self.addCleanup(gateway.wait)
        self.addCleanup(gateway.terminate)
        for line in gateway.stdout:
            if "curl -i" in line:
                self.assertEqual(line.strip(), f"curl -i {self.url}", "the name that its certificate has")
                break
        else:
            self.fail("the gateway ended")

    def write(self, *listen):
        file = self.home / "pilotlight.toml"
        file.write_text(f'listen = {json.dumps(listen)}\n[[routes]]\npath = "/"\nfiles = "site"\n')

    def test_an_address_that_a_reload_adds_has_its_certificate(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.write(self.url.rstrip("/"), f"https://added.localhost:{port}")
        self.pilotlight("reload", "--config", self.home / "pilotlight.toml")
        bundle = self.home / "roots.pem"
        self.pilotlight("trust", "--only", "system", "--bundle", bundle)
        command = [program("curl"), "-sS", f"https://added.localhost:{port}/"]
        is_shown, said = self.shows(command, CURL_CA_BUNDLE=str(bundle))
        self.assertTrue(is_shown, said)

    def shows(self, argv, **env):
        done = run(argv, self.home, **env)
        return "a local page" in done.stdout, done.stdout + done.stderr

    def check(self, argv, trust, before=None, **env):
        """`env` is what tells the program of the root."""
        is_shown, said = self.shows(before or argv)
        self.assertFalse(is_shown, said)
        self.pilotlight("trust", *trust)
        is_shown, said = self.shows(argv, **env)
        self.assertTrue(is_shown, said)

    def test_curl(self):
        bundle = self.home / "roots.pem"
        trust = ["--only", "system", "--bundle", bundle]
        self.check([program("curl"), "-sS", self.url], trust, CURL_CA_BUNDLE=str(bundle))

    def test_python(self):
        bundle = self.home / "roots.pem"
        trust = ["--only", "system", "--bundle", bundle]
        self.check([sys.executable, "-c", PYTHON, self.port], trust, SSL_CERT_FILE=str(bundle))

    @needs("certutil")
    def test_node(self):
        root = str(self.folder / "root.pem")
        self.check(["node", "-e", NODE, self.port], ["--only", "nss"], NODE_EXTRA_CA_CERTS=root)

    @needs("keytool")
    def test_java(self):
        (self.home / "Get.java").write_text(JAVA)
        store = self.home / "store.jks"
        java = [program("java"), *QUICK, self.home / "Get.java", self.port]
        of_store = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
        told = [java[0], *of_store, *java[1:]]
        self.check(told, ["--only", "java", "--java-keystore", store], before=java)

    @needs("certutil")
    def test_chromium(self):
        chromium = os.environ.get("CHROMIUM") or program("chromium", "chromium-browser", "google-chrome")
        flags = ["--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--dump-dom"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        self.check([chromium, *flags, self.url], ["--only", "nss"])
