"""The JSON Schema for editors and `pilotlight check` agree, on seeded mutations of valid files.

What a schema cannot say is named and counted: cross-field rules, ranges of times and sizes, texts with a grammar of
their own, lists that may not be empty. A file that `check` takes is never refused by the schema, whatever the class.
"""

import copy
import json
import random
import re
import subprocess
import tempfile
import tomllib
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
from harness import BINARY, ROOT, setUpModule  # noqa: F401

__all__ = ["setUpModule"]

SEED = 43
# The machine's own: programs, files and addresses that these files name are not here.
OF_THE_MACHINE = {"missing", "listen"}
CROSS_FIELD = {"conflict", "unknown-service", "duplicate", "unsafe"}
TIME = re.compile(r"^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$")
SIZE = re.compile(r"^[0-9]+ ?([KkMmGgTt][Ii]?)?[Bb]$")
WRONG_UNITS = ("5 parsecs", "10", "1.5s", "1h 1m", "2 weeks", "10 MiBs")
OTHER_TYPES = (True, 7, -1, 1.5, "none", [], [[1]], {}, {"no_such_key": 1})

RULES = """
listen = ["0.0.0.0:80", "https://0.0.0.0:8443"]
server_timing = "always"
[tls]
certificates = [{ certificate = "a.pem", key = "a.key" }]
min_version = "1.3"
client_certificates = { ca = "ca.pem", mode = "optional" }
[tls.acme]
email = "ops@example.org"
fallback = { directory = "https://acme.example/dir", eab = { kid = "k", key_file = "k.key" } }
on_demand = { ask = "http://127.0.0.1:9000/may", limit = "10/m" }
[admin]
socket = "admin.sock"
[containers]
socket = "/run/docker.sock"
discover = false
[metrics]
listen = "127.0.0.1:9090"
[traces]
sample = 0.5
[log]
path = "syslog:udp://127.0.0.1:514"
facility = "local0"
syslog_format = "rfc5424"
[service_log]
path = "services.log"
format = "json"
max_size = "1GiB"

[access_log]
path = "access.log"
format = "text"
fields = ["time", "status"]
max_size = "100MiB"
[cache.redis]
url = "redis://localhost"
lease = "none"
queue = 5
queue_memory = "1MiB"
[errors]
"5xx" = "error.html"
404 = { service = "a", path = "/error/{status}" }
intercept = true
[groups.models]
max_running = 1
memory = "8GiB"
grace = "20s"
[services.a]
command = "./a"
spill = { to = "secure", queue = 9 }
preload_at = "boot"
in_group = "models"
group_memory = "1GiB"
[services.released]
command = "./a"
releases = "srv"
keep_releases = 3
health = { path = "/healthz", host = "app.example", status = 204, timeout = "5s" }
[services.b]
url = "http://127.0.0.1:9000"
[services.php]
command = "php-cgi"
transport = "fastcgi"
concurrency = 1
cgi = { root = ".", keep_connections = 1 }
[services.function]
command = "sh"
transport = "lambda"
lambda = { memory_size = 1 }
[services.tools]
command = "sh"
transport = "stdio"
stdio = { mode = "lines", max_processes = 2, max_line = "1MiB", replay_buffer = "1MiB", origins = ["https://a.test"] }
[services.contained]
container = { image = "app:1", port = 8080, pull = "never", volumes = ["/a:/b:ro"], init = true }
[services.composed]
container = { compose = "docker-compose.yml", service = "web", port = 80 }
[services.several]
url = ["http://a.test", "http://b.test"]
balance = { max_failures = 1, retry_percent = 10, retry_per_second = 1 }
dns = { max_addresses = 4, max_ttl = "1m", family = "ipv4" }
max_connections = 100
queue = { max = 5, timeout = "1s" }
health = { path = "/up", interval = "1s", healthy = 1, unhealthy = 1 }
[services.secure]
url = "https://c.test"
proxy_protocol = "v2"
tls = { server_name = "d.test", pins = ["sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="] }
[[schedules]]
cron = "30 2 * * 1-5"
service = "a"
path = "/tasks/cleanup?all=1"
name = "cleanup"
timezone = "UTC"
method = "PUT"
host = "app.example"
jitter = "5m"
timeout = "30s"
missed = "run"
[[routes]]
path = "/files"
files.root = "dist"
files.index = "a.html"
files.fallback = "a.html"
files.listing = true
files.cache_control = { "*.js" = "no-cache" }
compress = { types = ["text/*"], min_size = "2KiB", algorithms = ["gzip"] }
hsts = "180d"
https = "allow"
[[routes]]
path = "/old"
redirect = { to = "https://new.example", status = 301, keep_path = true, keep_query = true }
[[routes]]
path = "/elsewhere"
redirect = "https://new.example{path}{query}"
[[routes]]
path = "/api"
service = "a"
rewrite = { prefix = "/api", to = "/v1" }
request_fields = { set = { "X-Env" = "prod" }, add = { "X-Two" = ["a", "b"] }, remove = ["X-Internal-*"] }
response_fields = { remove = ["Server"] }
[routes.allow]
networks = ["10.0.0.0/8"]
realm = "staff"
preflight = true
forward = { url = "http://127.0.0.1:9000/auth", fields = ["X-Mail"], cache = "30s", timeout = "5s" }
[routes.allow.jwt]
jwks = "https://id.example/jwks.json"
issuer = "https://id.example"
audience = ["shop"]
scopes = ["read"]
leeway = "5s"
expiry = "optional"
from = "cookie:session"
claims = { "X-User" = "sub" }
refresh = "10m"
algorithms = ["RS256"]
[routes.deny]
networks = ["192.0.2.0/24"]
[routes.limit]
rate = "100/s"
burst = 20
by = "client"
concurrent = 10
bandwidth = "1MiB/s"
[[routes]]
path = "/"
service = "b"
"""


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return repr(value)


def written(document):
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in document.items())


def places(value, path=()):
    """The paths of all keys, those within lists of sections included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        if isinstance(value, dict):
            yield (*path, key)
        yield from places(one, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def changed(document, path, value):
    document = copy.deepcopy(document)
    at(document, path[:-1])[path[-1]] = value
    return document


def mutations(document, rng):
    """Each as its class, the value that was put in, and the file."""
    for path in places(document):
        value = at(document, path)
        without = copy.deepcopy(document)
        del at(without, path[:-1])[path[-1]]
        yield "a key less", path, without
        other = rng.choice([one for one in OTHER_TYPES if type(one) is not type(value)])
        yield "another type", other, changed(document, path, other)
        if isinstance(value, dict):
            yield "an unknown key", 1, changed(document, (*path, "no_such_key"), 1)
        elif isinstance(value, str) and (TIME.match(value) or SIZE.match(value)):
            wrong = rng.choice(WRONG_UNITS)
            yield "a wrong unit", wrong, changed(document, path, wrong)
            for far in ("9999d", "0s") if TIME.match(value) else ("9999TiB", "0B"):
                yield "a time or size far out", far, changed(document, path, far)
        elif isinstance(value, str):
            yield "another word", "no-such-word", changed(document, path, "no-such-word")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            for far in (-1, 0, 10**15):
                yield "a number far out", far, changed(document, path, far)
    yield "an unknown key", 1, document | {"no_such_key": 1}


class SchemaCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run = subprocess.run([BINARY, "schema"], capture_output=True, check=True, timeout=30)
        cls.schema = json.loads(run.stdout)
        jsonschema.Draft7Validator.check_schema(cls.schema)
        cls.validator = jsonschema.Draft7Validator(cls.schema)
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def checked(self, name, text):
        """The codes of what `check` calls errors, but for those of this machine."""
        file = Path(self.folder.name) / f"{name}.toml"
        file.write_text(text)
        run = subprocess.run([BINARY, "check", "--json", "--config", file], capture_output=True, timeout=30)
        found = json.loads(run.stdout)["diagnostics"]
        return {one["code"] for one in found if one["severity"] == "error"} - OF_THE_MACHINE


class Schema(SchemaCase):
    def bounds(self):
        """Every number of the schema that has bounds, at and beyond each: (name, value)."""
        for part, section in {"Top": self.schema, **self.schema["definitions"]}.items():
            for name, value in section["properties"].items():
                for shape in value.get("anyOf", [value]):
                    if "maximum" in shape:
                        yield part, name, shape["minimum"], shape["maximum"]

    def test_the_shipped_file_is_what_the_command_prints(self):
        self.assertEqual(json.loads((ROOT / "crates/cli/src/config/pilotlight.schema.json").read_text()), self.schema)

    def test_every_example_of_the_reference_is_valid(self):
        text = (ROOT / "docs" / "configuration.md").read_text()
        examples = re.findall(r"```toml\n(.*?)```", text, re.S)
        self.assertGreater(len(examples), 5)
        for example in examples:
            self.validator.validate(tomllib.loads(example))

    def test_the_file_of_init_names_the_schema_and_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([BINARY, "init"], cwd=folder, check=True, capture_output=True, timeout=30)
            text = (Path(folder) / "pilotlight.toml").read_text()
        self.assertEqual(text.splitlines()[0], "#:schema ./pilotlight.schema.json")
        self.validator.validate(tomllib.loads(text))

    def test_every_number_has_the_bounds_of_check(self):
        full = tomllib.loads((ROOT / "crates" / "pilotlight" / "tests" / "it" / "config" / "full.toml").read_text())
        rules = tomllib.loads(RULES)
        places = {
            "Top": (full, ()), "Limits": (full, ("limits",)), "CacheRedis": (rules, ("cache", "redis")),
            "Group": (rules, ("groups", "models")),
            "Service": (full, ("services", "node")), "ServiceQueue": (full, ("services", "node", "queue")),
            "ServiceCgi": (rules, ("services", "php", "cgi")),
            "ServiceLambda": (rules, ("services", "function", "lambda")),
            "ServiceStdio": (rules, ("services", "tools", "stdio")),
            "ServiceContainer": (rules, ("services", "contained", "container")),
            "ServiceBalance": (rules, ("services", "several", "balance")),
            "ServiceDns": (rules, ("services", "several", "dns")),
            "ServiceSpill": (rules, ("services", "a", "spill")),
            "ServiceHealth": (rules, ("services", "several", "health")),
            ("Service", "max_connections"): (rules, ("services", "several")),
            "ServiceLimits": (full, ("services", "node", "limits")),
            "ServiceCgroup": (full, ("services", "node", "cgroup")),
            "Route": (rules, ("routes", 3)),
            ("Route", "respond"): ({"routes": [{"path": "/", "respond": 404}]}, ("routes", 0)),
            "RouteLimit": (rules, ("routes", 3, "limit")),
            "Traces": (rules, ("traces",)),
        }
        count = 0
        for part, name, least, most in self.bounds():
            document, path = places.get((part, name), places[part])
            for value, is_valid in ((least, True), (most, True), (least - 1, False), (most + 1, False)):
                with self.subTest(part=part, name=name, value=value):
                    found = self.checked(f"b{count}", written(changed(document, (*path, name), value)))
                    self.assertEqual("out-of-range" not in found and "wrong-type" not in found, is_valid, found)
                    count += 1
        self.assertGreater(count, 60)


class Mutations(SchemaCase):
    def test_it_and_check_agree_on_mutated_files(self):
        rng = random.Random(SEED)
        full = tomllib.loads((ROOT / "crates" / "pilotlight" / "tests" / "it" / "config" / "full.toml").read_text())
        files = [full, tomllib.loads(RULES)]
        for number, document in enumerate(files):
            self.validator.validate(document)
            self.assertEqual(self.checked(f"base{number}", written(document)), set())
        jobs = [(number, mutation) for number, file in enumerate(files) for mutation in mutations(file, rng)]
        with ThreadPoolExecutor(4) as pool:
            texts = (written(document) for _, (_, _, document) in jobs)
            codes = list(pool.map(lambda job: self.checked(f"m{job[0]}", job[1]), enumerate(texts)))
        agreed, excluded, wrong = Counter(), Counter(), []
        for (_, (kind, value, document)), found in zip(jobs, codes):
            errors = list(self.validator.iter_errors(document))
            if bool(errors) == bool(found):
                agreed[kind, "refused" if errors else "accepted"] += 1
            elif errors:
                wrong.append(f"the schema alone refuses {kind} {value!r}: {errors[0].message[:200]}")
            # The listeners of the file need [tls].
            elif found <= CROSS_FIELD or (found == {"missing-key"} and value == ("tls",)):
                excluded["rules between several keys"] += 1
            elif found <= CROSS_FIELD | {"out-of-range"} and kind in ("a time or size far out", "another type"):
                excluded["ranges of times and sizes"] += 1
            elif found <= CROSS_FIELD | {"bad-value"} and isinstance(value, str):
                excluded["texts with a grammar of their own"] += 1
            elif found <= CROSS_FIELD | {"bad-value", "missing-key"} and value in ([], {}):
                excluded["empty lists and sections"] += 1
            else:
                wrong.append(f"check alone refuses {kind} {value!r}: {sorted(found)}")
        print(f"agreed: {dict(agreed)}; excluded: {dict(excluded)}")
        self.assertEqual(wrong, [])
        refused = sum(count for (_, verdict), count in agreed.items() if verdict == "refused")
        self.assertGreaterEqual(refused, 200)
        self.assertGreater(refused, 2 * sum(excluded.values()))
        kinds = ("a key less", "another type", "an unknown key", "a wrong unit", "another word", "a number far out")
        for kind in kinds:
            self.assertGreater(agreed[kind, "refused"], 0, kind)


if __name__ == "__main__":
    unittest.main()
