"""WordPress as Debian has it, with MariaDB, behind the gateway: installed, read and logged into by HTTP. In a browser:
tests/page/wordpress.test.mjs."""

import re
import tempfile
import unittest
import urllib.parse

from harness import BINARY, Gateway, TestCase, config, route, service, setUpModule
from test_php import FPM, FPM_CONF, IS_ROOT
from wordpress import ANSWERS, CGI, FORM, IS_INSTALLED, Site

__all__ = ["setUpModule"]


@unittest.skipUnless(IS_INSTALLED and FPM, "WordPress, php-fpm or MariaDB is not installed")
@unittest.skipUnless(IS_ROOT, "not here: as root")
class WordPress(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-wp-")
        self.addCleanup(folder.cleanup)
        self.site = Site(folder.name)
        self.addCleanup(self.site.stop)
        self.site.start()
        conf = self.site.folder / "fpm.conf"
        conf.write_text(FPM_CONF + "user = nobody\n")
        command = [FPM, "-F", "-O", "-y", str(conf)]
        block = service("wp", command, transport="fastcgi", dir=str(self.site.files)) + CGI
        self.gateway = self.start(Gateway(BINARY, config(block, route("/", "wp"))))
        self.cookies = {}

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
        done = self.ask("POST", "/wp-admin/install.php?step=2", **ANSWERS)
        self.assertIn("Success", self.page(done))
        front = self.page(self.ask("GET", "/"))
        self.assertIn("Pilot site", front)
        style = re.search(r"/wp-includes/[a-z/.-]+\.(?:css|js)", front)
        self.assertIsNotNone(style, front[:2000])
        self.assertTrue(self.ask("GET", style[0]).get("etag"), "the gateway does not send it")
        self.assertIn("Hello world", self.page(self.ask("GET", "/?p=1")))
        self.assert_status(self.ask("GET", "/no/such/page"), 404)
        upload = self.site.files / "wp-content" / "uploads" / "x.php"
        upload.parent.mkdir(exist_ok=True)
        upload.write_text("<?php echo 'RUN';")
        self.assert_status(self.ask("GET", "/wp-content/uploads/x.php"), 403)
        self.assertIn("Log In", self.page(self.ask("GET", "/wp-login.php")))  # which tries whether cookies are kept
        login = self.ask("POST", "/wp-login.php", log="ada", pwd="long-enough-1", testcookie="1")
        self.assertIn("Dashboard", self.page(login))
        self.assertIn("Posts", self.page(self.ask("GET", "/wp-admin/edit.php")))


if __name__ == "__main__":
    unittest.main()
