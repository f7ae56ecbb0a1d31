"""PHP behind the gateway, by php-cgi and php-fpm as Debian has them (docs/guide/php.md)."""

import hashlib
import json
import os
import pwd
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, Gateway, TestCase, config, descendants, in_threads, limits, quote, route, service, setUpModule
from programs import find
from test_deploy import Deploying

__all__ = ["setUpModule"]

CGI = find("php-cgi")
FPM = next((str(path) for path in sorted(Path("/usr/sbin").glob("php-fpm*"))), None)
IS_ROOT = os.geteuid() == 0

INFO = """<?php
header('Content-Type: application/json');
$names = ['SCRIPT_FILENAME', 'SCRIPT_NAME', 'PATH_INFO', 'REQUEST_URI', 'QUERY_STRING', 'DOCUMENT_ROOT',
  'REQUEST_METHOD', 'HTTP_HOST', 'HTTP_PROXY', 'REMOTE_ADDR', 'HTTPS', 'SERVER_NAME'];
$server = [];
foreach ($names as $name) { $server[$name] = $_SERVER[$name] ?? null; }
echo json_encode(['file' => basename(__FILE__), 'self' => $_SERVER['PHP_SELF'], 'server' => $server,
  'get' => $_GET, 'post' => $_POST,
  'user' => posix_geteuid(), 'pid' => getmypid(), 'body' => hash('sha256', file_get_contents('php://input')),
  'files' => array_map(fn ($file) => [$file['size'], hash_file('sha256', $file['tmp_name'])], $_FILES)]);
"""

FPM_CONF = """[global]
daemonize = no
error_log = /dev/null
[www]
listen = ${PILOTLIGHT_LISTEN}
pm = static
pm.max_children = 3
clear_env = no
"""


class Php:
    """Runs with php-cgi, with php-fpm, with php-fpm of a user."""

    cgi = 'fallback = "index.php"\n'

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-php-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)
        self.root = self.folder / "public"
        self.root.mkdir()
        for name, text in {
            "index.php": INFO,
            "info.php": INFO,
            "sub/index.php": INFO,
            "style.css": "body {}",
            "uploads/file.jpg": "<?php echo 'RUN';",
            "uploads/evil.php.jpg": "<?php echo 'RUN';",
            "old.php~": "<?php secret();",
            "loud.PHP": "<?php echo 'RUN';",
            "warn.php": "<?php error_log('a warning of mine'); http_response_code(418); echo 'tea';",
            "redirect.php": "<?php header('Location: /next');",
            "stream.php": "<?php for ($i = 0; $i < 5; $i++) { echo str_repeat(\"$i\", 1000); ob_flush(); flush(); }",
            "large.php": "<?php for ($i = 0; $i < 200; $i++) { echo str_repeat('x', 10000); }",
            "send.php": "<?php header('X-Sendfile: ' . $_GET['file']); header('Content-Type: image/png'); echo 'no';",
        }.items():
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (self.root / "link.php").symlink_to("/etc/hostname")
        (self.folder / "store").mkdir()
        (self.folder / "store" / "x.bin").write_bytes(b"stored")
        self.gateway = self.start(Gateway(BINARY, self.configuration()))

    def configuration(self):
        settings = {"transport": "fastcgi", "dir": str(self.folder)} | self.settings()
        block = service("php", self.command(), **settings)
        block += f'[services.php.cgi]\nroot = "public"\n{self.cgi}sendfile = {{ "/store" = "store" }}\n'
        return config(block, route("/", "php"), limits(body_size="none"))

    def settings(self):
        return {}

    def info(self, target, **named):
        return self.assert_json(self.gateway.request(named.pop("method", "GET"), target, **named))

    def test_scripts_and_path_info(self):
        for target, file, info in [
            ("/", "index.php", None),
            ("/info.php?a=1", "info.php", None),
            ("/info.php/x/y%20z?a=1", "info.php", "/x/y z"),
            ("/sub/", "index.php", None),
            ("/pretty/url?a=1", "index.php", None),
        ]:
            with self.subTest(target):
                found = self.info(target)
                self.assertEqual(found["file"], file)
                self.assertEqual(found["server"]["PATH_INFO"], info)
                self.assertEqual(found["server"]["REQUEST_URI"], target)
                self.assertEqual(found["server"]["DOCUMENT_ROOT"], str(self.root.resolve()))
                self.assertEqual(found["get"], {"a": "1"} if "?" in target else [])
        self.assertEqual(self.info("/info.php/x")["self"], "/info.php/x")
        self.assertEqual(self.info("/sub/")["server"]["SCRIPT_NAME"], "/sub/index.php")
        self.assertEqual(self.gateway.get("/sub").status, 308)

    def explained(self, target, *more):
        command = [BINARY, "explain", f"http://demo.test{target}", "--config", self.gateway.folder / "pilotlight.toml"]
        command += more
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout

    def test_explain_names_the_script(self):
        for target in ["/", "/info.php/x/y%20z?a=1", "/sub/", "/pretty/url"]:
            with self.subTest(target):
                program = json.loads(self.explained(target, "--json"))["program"]
                found = self.info(target)["server"]
                names = ["SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_INFO"]
                self.assertEqual(program, {name: found[name] for name in names})
        self.assertIn(f"script    SCRIPT_FILENAME = {self.root.resolve()}/info.php\n", self.explained("/info.php/x"))
        self.assertIn("PATH_INFO = /x\n", self.explained("/info.php/x"))
        self.assertIn(f"file      {self.root}/style.css, which the gateway sends\n", self.explained("/style.css"))
        self.assertIn("redirect  308 to /sub/\n", self.explained("/sub"))
        found = json.loads(self.explained("/uploads/file.jpg/x.php", "--json"))["program"]
        self.assertEqual(found["SCRIPT_NAME"], "/index.php")

    def test_files_beside_them(self):
        answer = self.gateway.get("/style.css")
        self.assertEqual((answer.status, answer.body), (200, b"body {}"))
        self.assertTrue(answer.get("etag"))
        self.assert_status(self.gateway.request("POST", "/style.css", body=b"x"), 405)

    def test_nothing_runs_that_is_no_script(self):
        for target in [
            "/uploads/file.jpg/x.php",
            "/uploads/file.jpg%00.php",
            "/uploads/file.jpg%2Fx.php",
            "/uploads/file.jpg/%0a.php",
            "/uploads/evil.php.jpg",
            "/uploads/evil.php.jpg/x.php",
            "/../public/uploads/file.jpg/x.php",
            "/loud.PHP",
            "/old.php~",
            "/link.php",
            "/info.php%0a/x",
            "/info.php/%0a",
        ]:
            with self.subTest(target):
                answer = self.gateway.get(target)
                self.assertNotIn(b"RUN", answer.body)
                self.assertNotIn(b"<?php", answer.body)
                if answer.status == 200:
                    self.assertEqual(self.assert_json(answer)["file"], "index.php")  # the front controller
        upload = self.gateway.get("/uploads/file.jpg")
        self.assertEqual((upload.status, upload.get("content-type")), (200, "image/jpeg"))

    def test_forms_uploads_and_bodies(self):
        form = [("Content-Type", "application/x-www-form-urlencoded")]
        posted = self.info("/info.php", method="POST", fields=form, body=b"a=1&b=2")["post"]
        self.assertEqual(posted, {"a": "1", "b": "2"})
        body = os.urandom(1_000_000)
        self.assertEqual(self.info("/info.php", method="PUT", body=body)["body"], hashlib.sha256(body).hexdigest())
        multipart = [("Content-Type", "multipart/form-data; boundary=B")]
        head = b'--B\r\nContent-Disposition: form-data; name="f"; filename="f.bin"\r\n\r\n'
        found = self.info("/info.php", method="POST", fields=multipart, body=head + body + b"\r\n--B--\r\n")
        self.assertEqual(found["files"], {"f": [len(body), hashlib.sha256(body).hexdigest()]})

    def test_answers(self):
        answer = self.gateway.get("/warn.php")
        self.assertEqual((answer.status, answer.body), (418, b"tea"))
        self.assert_eventually(lambda: "a warning of mine" in self.gateway.output(), "error_log is not in the log")
        answer = self.gateway.get("/redirect.php")
        self.assertEqual((answer.status, answer.get("location")), (302, "/next"))
        self.assertEqual(self.gateway.get("/stream.php").body, b"".join(str(i).encode() * 1000 for i in range(5)))
        self.assertEqual(len(self.gateway.get("/large.php").body), 2_000_000)
        head = self.gateway.request("HEAD", "/large.php")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assert_status(self.gateway.get("/info.php"), 200)

    def test_httpoxy(self):
        self.assertIsNone(self.info("/info.php", fields=[("Proxy", "http://evil/")])["server"]["HTTP_PROXY"])

    def test_x_sendfile(self):
        answer = self.gateway.get(f"/send.php?file={self.folder}/store/x.bin")
        self.assertEqual((answer.status, answer.body, answer.get("content-type")), (200, b"stored", "image/png"))
        self.assertEqual(self.gateway.get("/send.php?file=/etc/passwd").status, 404)

    def test_many_at_once(self):
        answers = in_threads(12, lambda _: [self.gateway.get("/info.php").status for _ in range(5)])
        self.assertEqual({status for one in answers for status in one}, {200})


@unittest.skipUnless(CGI, "php-cgi is not installed")
class ByCgi(Php, TestCase):
    """A process for each instance, by the gateway's own scaling."""

    def command(self):
        return [CGI]

    def settings(self):
        return {"concurrency": 1, "max_instances": 3, "env": {"PHP_FCGI_MAX_REQUESTS": "0"}}

    def test_nothing_runs_before_it_is_asked_for(self):
        self.assert_status(self.gateway.get("/style.css"), 200)
        self.assertEqual(self.running(), [])
        self.assert_status(self.gateway.get("/info.php"), 200)
        self.assertEqual(len(self.running()), 1)

    def running(self):
        return [line for line in descendants(self.gateway.process.pid).values() if line.startswith(CGI)]


@unittest.skipUnless(FPM, "php-fpm is not installed")
class ByFpm(Php, TestCase):
    """Its own processes, on the one socket that it inherits."""

    def command(self):
        (self.folder / "fpm.conf").write_text(FPM_CONF + ("user = nobody\n" if IS_ROOT else ""))
        return [FPM, "-F", "-O", "-y", str(self.folder / "fpm.conf")]

    def test_it_took_the_socket_that_was_bound_for_it(self):
        self.info("/info.php")
        self.assert_eventually(lambda: "using inherited socket fd=3" in self.gateway.output(), "it bound another one")


@unittest.skipUnless(FPM, "php-fpm is not installed")
class ByKeptConnections(ByFpm):
    cgi = 'fallback = "index.php"\nkeep_connections = 1\n'

    def test_processes_are_shared(self):
        with self.gateway.client() as client:
            pids = {self.assert_json(client.request("GET", "/info.php"))["pid"] for _ in range(10)}
        self.assertEqual(len(pids), 1)


@unittest.skipUnless(FPM, "php-fpm is not installed")
@unittest.skipUnless(IS_ROOT, "not here: as root")
class ByFpmOfAUser(ByFpm):
    """`user` of the service: a pool for each site, none of which can read another one's files."""

    def command(self):
        (self.folder / "fpm.conf").write_text(FPM_CONF)
        return [FPM, "-F", "-O", "-y", str(self.folder / "fpm.conf")]

    def settings(self):
        return {"user": "nobody"}

    def test_it_runs_as_that_user(self):
        self.assertEqual(self.info("/info.php")["user"], pwd.getpwnam("nobody").pw_uid)


@unittest.skipUnless(CGI, "php-cgi is not installed")
class Released(Deploying):
    def test_a_release_is_tried_by_its_own_scripts(self):
        block = service("app", [CGI], transport="fastcgi", releases="srv", health="/health.php")
        gateway = self.begin(block + '[services.app.cgi]\nroot = "public"\n', route("/", "app"))
        serving = None
        for name, status in [("one", 200), ("broken", 500), ("two", 200)]:
            public = gateway.folder / "builds" / name / "public"
            public.mkdir(parents=True)
            (public / "health.php").write_text(f"<?php http_response_code({status});")
            (public / "index.php").write_text(f"<?php echo '{name}';")
            self.deploy(gateway, public.parent, code=0 if status == 200 else 1)
            serving = name if status == 200 else serving
            # The folder is looked at anew once a second.
            self.assert_eventually(lambda wanted=serving: gateway.get("/").body == wanted.encode(), serving)


class Configured(TestCase):
    def refused(self, block, words):
        with self.assertRaises(Exception) as raised:
            Gateway(BINARY, config(block, route("/", "php"))).start().stop()
        self.assertIn(words, str(raised.exception))

    def test_what_is_wrong_is_said(self):
        base = f"[services.php]\ncommand = [{quote('/bin/true')}]\n"
        self.refused(base + 'cgi = { root = "." }\n', "`cgi` is for services by FastCGI")
        fastcgi = base + 'transport = "fastcgi"\n'
        self.refused(fastcgi + 'cgi = { root = ".", fallback = "../x.php" }\n', "is not a path below the folder")
        self.refused(fastcgi + 'cgi = { root = ".", suffix = "php" }\n', "is not the end of a script's name")
        self.refused(fastcgi + 'cgi = { root = "no-such-folder" }\n', "does not exist")
        self.refused(fastcgi + 'cgi = { sendfile = { private = "x" } }\n', "is no path and folder")
        self.refused(fastcgi + 'cgi = { params = { "A-B" = "x" } }\n', "cannot be a variable")


if __name__ == "__main__":
    unittest.main()
