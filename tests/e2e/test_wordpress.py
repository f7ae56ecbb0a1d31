"""WordPress as Debian has it, with MariaDB, behind the gateway: installed, read and logged into by HTTP. Optional: it
runs where the packages wordpress, php-mysql, php-fpm and mariadb-server are installed."""

import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse
from pathlib import Path

from harness import BINARY, Gateway, TestCase, config, eventually, route, service, setUpModule
from test_php import FPM, FPM_CONF, IS_ROOT

__all__ = ["setUpModule"]

SOURCE = Path("/usr/share/wordpress")
MARIADB = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
INSTALL_DB = shutil.which("mariadb-install-db")
FORM = [("Content-Type", "application/x-www-form-urlencoded")]
HAS_ALL = SOURCE.exists() and FPM and INSTALL_DB and Path(MARIADB).exists()
CONFIG = """<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:%s'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
define('AUTH_KEY', 'a'); define('SECURE_AUTH_KEY', 'b'); define('LOGGED_IN_KEY', 'c'); define('NONCE_KEY', 'd');
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) { define('ABSPATH', __DIR__ . '/'); }
require_once ABSPATH . 'wp-settings.php';
"""


@unittest.skipUnless(HAS_ALL, "optional: WordPress with MariaDB")
@unittest.skipUnless(IS_ROOT, "not here: as root")
class WordPress(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-wp-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)
        self.site = self.folder / "site"
        # Debian's has links to what other packages bring.
        shutil.copytree(SOURCE, self.site, symlinks=False, ignore_dangling_symlinks=True)
        (self.site / "wp-config.php").unlink(missing_ok=True)
        (self.site / "wp-config.php").write_text(CONFIG % self.database())
        (self.folder / "fpm.conf").write_text(FPM_CONF + "user = nobody\n")
        block = service("wp", [FPM, "-F", "-O", "-y", str(self.folder / "fpm.conf")], transport="fastcgi", dir=str(self.site))
        block += '[services.wp.cgi]\nroot = "."\nfallback = "index.php"\n'
        block += 'run = ["index.php", "wp-*.php", "wp-admin/", "wp-includes/"]\n'
        self.gateway = self.start(Gateway(BINARY, config(block, route("/", "wp"))))
        self.cookies = {}

    def database(self):
        """A server of MariaDB in the folder; its socket."""
        data, socket = self.folder / "db", self.folder / "db.sock"
        user = "--user=root"
        subprocess.run(
            [INSTALL_DB, "--no-defaults", f"--datadir={data}", user, "--auth-root-authentication-method=normal"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
        server = subprocess.Popen(
            [MARIADB, "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking", user],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.terminate)
        ask = ["mariadb", "--no-defaults", "-uroot", f"--socket={socket}", "-e", "CREATE DATABASE wordpress"]
        self.assertTrue(eventually(lambda: subprocess.run(ask, capture_output=True).returncode == 0, 60))
        socket.chmod(0o777)
        return socket

    def ask(self, method, target, **form):
        """What a browser would do: cookies are kept, redirects followed."""
        body = urllib.parse.urlencode(form).encode() if form else None
        for _ in range(5):
            cookies = [("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))]
            fields = (FORM if body else []) + (cookies if self.cookies else [])
            answer = self.gateway.request(method, target, fields, body, timeout=60, host=self.host())
            for cookie in answer.all("set-cookie"):
                name, value = cookie.split(";")[0].split("=", 1)
                self.cookies[name] = value
            if answer.status not in (301, 302, 303):
                return answer
            to = urllib.parse.urljoin(f"http://{self.host()}{target}", answer.get("location"))
            method, body, target = "GET", None, to.removeprefix(f"http://{self.host()}")
        raise AssertionError(f"too many redirects, the last one to {target}")

    def host(self):
        return "{}:{}".format(*self.gateway.address)

    def page(self, answer):
        self.assert_status(answer, 200)
        return answer.body.decode()

    def test_it_is_installed_read_and_written(self):
        self.assertIn("Welcome", self.page(self.ask("GET", "/")))
        done = self.ask(
            "POST", "/wp-admin/install.php?step=2", weblog_title="Pilot site", user_name="ada", admin_email="a@b.test",
            admin_password="long-enough-1", admin_password2="long-enough-1", pw_weak="1", language="",
        )  # fmt: skip
        self.assertIn("Success", self.page(done))
        front = self.page(self.ask("GET", "/"))
        self.assertIn("Pilot site", front)
        style = re.search(r"/wp-includes/[a-z/.-]+\.(?:css|js)", front)
        self.assertIsNotNone(style, front[:2000])
        self.assertTrue(self.ask("GET", style[0]).get("etag"), "the gateway does not send it")
        self.assertIn("Hello world", self.page(self.ask("GET", "/?p=1")))
        self.assert_status(self.ask("GET", "/no/such/page"), 404)
        upload = self.site / "wp-content" / "uploads" / "x.php"
        upload.parent.mkdir(exist_ok=True)
        upload.write_text("<?php echo 'RUN';")
        self.assert_status(self.ask("GET", "/wp-content/uploads/x.php"), 403)
        self.assertIn("Log In", self.page(self.ask("GET", "/wp-login.php")))  # which tries whether cookies are kept
        login = self.ask("POST", "/wp-login.php", log="ada", pwd="long-enough-1", testcookie="1")
        self.assertIn("Dashboard", self.page(login))
        self.assertIn("Posts", self.page(self.ask("GET", "/wp-admin/edit.php")))


if __name__ == "__main__":
    unittest.main()
