"""An application of Slim, as Debian packages it, behind a front controller over FastCGI (docs/guide/php.md)."""

import json
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, Gateway, TestCase, config, route, service, setUpModule
from test_php import CGI, FPM, FPM_CONF, IS_ROOT

__all__ = ["setUpModule"]

HAS_SLIM = Path("/usr/share/php/Slim/autoload.php").exists()
APP = """<?php
require 'Slim/autoload.php';
use Psr\\Http\\Message\\ResponseInterface as Response;
use Psr\\Http\\Message\\ServerRequestInterface as Request;

$app = new Slim\\App();
$app->add(function (Request $request, Response $response, callable $next) {
    return $next($request, $response)->withHeader('X-Middleware', 'passed');
});
$app->get('/', fn (Request $request, Response $response) => $response->write('front page'));
$app->get('/hello/{name}', function (Request $request, Response $response, array $args) {
    $facts = ['name' => $args['name'], 'query' => $request->getQueryParams(), 'uri' => (string) $request->getUri()];
    return $response->withJson($facts);
})->setName('hello');
$app->post('/notes', function (Request $request, Response $response) {
    $note = $request->getParsedBody();
    $made = $this->router->pathFor('hello', ['name' => $note['name']]);
    return $response->withJson($note, 201)->withHeader('Location', $made);
});
$app->map(['PUT', 'DELETE'], '/notes/{id:[0-9]+}', function (Request $request, Response $response, array $args) {
    return $response->write("{$request->getMethod()} {$args['id']} {$request->getBody()}");
});
$app->post('/files', function (Request $request, Response $response) {
    $file = $request->getUploadedFiles()['file'];
    return $response->withJson([$file->getClientFilename(), $file->getSize(), md5((string) $file->getStream())]);
});
$app->run();
"""


@unittest.skipUnless(HAS_SLIM, "php-slim is not installed")
class Slim:
    """Runs with php-cgi and with php-fpm."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-slim-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)
        public = self.folder / "public"
        public.mkdir()
        (public / "index.php").write_text(APP)
        (public / "other.php").write_text("<?php echo 'RUN';")
        (public / "app.css").write_text("body {}")
        (self.folder / "secret.php").write_text("<?php echo 'RUN';")
        settings = {"transport": "fastcgi", "dir": str(self.folder)} | self.settings()
        block = service("slim", self.command(), **settings)
        block += 'cgi = { root = "public", fallback = "index.php", run = "index.php" }\n'
        self.gateway = self.start(Gateway(BINARY, config(block, route("/", "slim"))))

    def test_routes_of_the_application(self):
        front = self.gateway.get("/")
        self.assertEqual((front.status, front.body, front.get("x-middleware")), (200, b"front page", "passed"))
        told = self.assert_json(self.gateway.get("/hello/a%20b?x=1"))
        self.assertEqual((told["name"], told["query"]), ("a b", {"x": "1"}))
        self.assertEqual(told["uri"], "http://demo.test/hello/a%20b?x=1")
        self.assertEqual(self.assert_json(self.gateway.get("/index.php/hello/ada"))["name"], "ada")
        for method in ("PUT", "DELETE"):
            answer = self.gateway.request(method, "/notes/7", body=b"text")
            self.assertEqual((answer.status, answer.body), (200, f"{method} 7 text".encode()))
        missing = self.gateway.get("/no/such/route")
        self.assertEqual((missing.status, missing.get("x-middleware")), (404, "passed"))
        self.assertEqual(self.gateway.request("PATCH", "/hello/ada").status, 405)

    def test_bodies(self):
        bodies = [("application/json", b'{"name": "ada"}'), ("application/x-www-form-urlencoded", b"name=ada")]
        for kind, body in bodies:
            answer = self.gateway.request("POST", "/notes", [("Content-Type", kind)], body)
            self.assertEqual((answer.status, answer.get("location")), (201, "/hello/ada"))
            self.assertEqual(json.loads(answer.body), {"name": "ada"})
        head = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
        body = head + b"x" * 300_000 + b"\r\n--B--\r\n"
        answer = self.gateway.request("POST", "/files", [("Content-Type", "multipart/form-data; boundary=B")], body)
        self.assertEqual(json.loads(answer.body)[:2], ["a.bin", 300_000])

    def test_what_is_beside_the_front_controller(self):
        style = self.gateway.get("/app.css")
        self.assertEqual((style.status, style.body, style.get("x-middleware")), (200, b"body {}", None))
        self.assert_status(self.gateway.get("/other.php"), 403)
        for target in ("/../secret.php", "/%2e%2e/secret.php", "/secret.php"):
            self.assertNotIn(b"RUN", self.gateway.get(target).body)


@unittest.skipUnless(CGI, "php-cgi is not installed")
class ByCgi(Slim, TestCase):
    def command(self):
        return [CGI]

    def settings(self):
        return {"concurrency": 1, "max_instances": 2, "env": {"PHP_FCGI_MAX_REQUESTS": "0"}}


@unittest.skipUnless(FPM, "php-fpm is not installed")
class ByFpm(Slim, TestCase):
    def command(self):
        (self.folder / "fpm.conf").write_text(FPM_CONF)
        return [FPM, "-F", "-O", "-y", str(self.folder / "fpm.conf")]

    def settings(self):
        return {"user": "nobody"} if IS_ROOT else {}


if __name__ == "__main__":
    unittest.main()
