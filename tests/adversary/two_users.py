"""Two users, and an oracle that knows what each may see: through one cache in memory, and through two gateways that share a Redis.

The service writes into each answer what it depends on; the oracle computes the same from the request alone. So an answer
to somebody else, in another language, for another origin or another scheme is seen at once, wherever it came from.
"""

import asyncio
import json
import random
import time
import zlib

from harness import BINARY, Gateway, config, route, service
from redis_servers import Server

from .recorder import Recorder, Request
from .wire import Broken, Connection

USERS = ("alice", "mallory")
LANGUAGES = ("", "de", "en", "fr;q=0.5, en")
ORIGINS = ("", "https://a.test", "https://evil.test")
THEMES = ("", "dark", "light")
OBJECTS = 4  # of each policy: few, so that users meet
CLIENTS = 8
#: How long a part goes on in which no answer has come from a cache yet.
PATIENCE_S = 30.0
PIPELINED = 4

# policy -> (fields of its answers, what its answers depend on)
POLICIES = {
    "public": (("cache-control: public, max-age=30",), ()),
    "private": (("cache-control: private, max-age=30",), ("who",)),
    "no-store": (("cache-control: no-store",), ("who", "lang")),
    "plain": (("cache-control: max-age=30",), ("auth",)),
    "heuristic": (("last-modified: Mon, 01 Jan 2024 00:00:00 GMT",), ("who",)),
    "silent": ((), ("who",)),
    "cookie": (("cache-control: max-age=30", "vary: Cookie"), ("cookie",)),
    "language": (("cache-control: max-age=30", "vary: Accept-Language"), ("lang",)),
    "origin": (("cache-control: max-age=30", "vary: Origin"), ("origin",)),
    "both": (("cache-control: max-age=30", "vary: Origin, Accept-Language"), ("origin", "lang")),
    "any": (("cache-control: max-age=30", "vary: *"), ("who", "lang")),
    "scheme": (("cache-control: max-age=30",), ("scheme",)),
    "set-cookie": (("cache-control: max-age=30",), ("who",)),
    "tag": (("cache-control: no-cache", "vary: Cookie"), ("cookie",)),
    "stale": (("cache-control: max-age=1, stale-while-revalidate=30", "vary: Cookie"), ("cookie",)),
    "themed": (("cache-control: max-age=30",), ("theme",)),
    "keyed": (("cache-control: max-age=30",), ("tenant",)),
    "no-cache-field": (("cache-control: max-age=30, no-cache=\"set-cookie\"",), ("who",)),
}  # fmt: skip
CREDENTIALS = ("authorization", "cookie")  # Connection cannot take them off
SETS_COOKIES = ("set-cookie", "no-cache-field")


def run(seed, seconds, report):
    asyncio.run(TwoUsers(seed, seconds, report).run())


def parse_cookie(value):
    return dict(part.strip().split("=", 1) for part in value.split(";") if "=" in part)


def seen_by_service(fields):
    """What answers can depend on, as the service (or the oracle in its place) reads it from a request's fields."""
    cookies = parse_cookie(fields.get("cookie", ""))
    auth = fields.get("authorization", "").removeprefix("Bearer ") or "nobody"
    cookie = cookies.get("user", "nobody")
    return {
        "auth": auth, "cookie": cookie, "who": auth if auth != "nobody" else cookie, "lang": fields.get("accept-language", ""),
        "origin": fields.get("origin", ""), "theme": cookies.get("theme", ""), "tenant": fields.get("x-tenant", ""),
        "scheme": fields.get("x-forwarded-proto", "http"),
    }  # fmt: skip


def depends(policy, seen):
    return {name: seen[name] for name in POLICIES[policy][1]}


class Service(Recorder):
    """Answers by policy: the path is /POLICY/NUMBER."""

    async def _exchange(self, reader, writer):
        first = await self._line(reader)
        if first is None:
            return False
        method, target, _ = first.split(b" ")
        request = Request(first, await self._read_fields(reader))
        await self._body(reader, request)
        fields = {name.decode().lower(): value.decode("latin-1") for name, value in request.fields}
        policy, number = target.decode().strip("/").split("?")[0].split("/")[-2:]
        seen = seen_by_service(fields)
        self.agree(fields)
        body = json.dumps({"policy": policy, "number": number, "seen": depends(policy, seen)}).encode()
        tag = b'"%08x"' % zlib.crc32(body)
        lines = [line.encode() for line in POLICIES[policy][0]] + [b"etag: " + tag]
        if policy in SETS_COOKIES:
            lines.append(b"set-cookie: session=%b" % seen["who"].encode())
        if policy in ("origin", "both") and seen["origin"]:
            lines.append(b"access-control-allow-origin: " + seen["origin"].encode())
        status = b"200 OK"
        if fields.get("if-none-match", "").encode() == tag:
            status, body = b"304 Not Modified", b""
        else:
            lines.append(b"content-length: %d" % len(body))
        if method == b"HEAD":
            body = b""
        writer.write(b"HTTP/1.1 " + status + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body)
        await writer.drain()
        return True

    def agree(self, fields):
        """`Forwarded` and `X-Forwarded-Proto` say the same scheme."""
        forwarded = fields.get("forwarded", "").split(",")[0].lower()
        proto = fields.get("x-forwarded-proto", "").split(",")[0].strip().lower()
        if f"proto={proto}" not in forwarded.replace('"', ""):
            self.breaches.append(f"Forwarded says {forwarded!r}, X-Forwarded-Proto {proto!r}")


class TwoUsers:
    def __init__(self, seed, seconds, report):
        self.chance, self.seconds, self.report = random.Random(seed), seconds, report
        self.hits = self.step = 0

    async def run(self):
        self.service = await Service().start()
        redis = Server()
        gateways = [self.gateway(None), self.gateway(redis), self.gateway(redis)]
        try:
            for gateway in gateways:
                gateway.start()
            deadline = time.monotonic() + self.seconds
            await asyncio.gather(*(self.client(gateways[number % 3].address, deadline) for number in range(CLIENTS)))
            for breach in self.service.breaches[:10]:
                self.report.wrong("wrong", "service", breach)
            if not self.hits:
                self.report.wrong("unexplained", "end", "no answer came from a cache: nothing was tried")
            self.report.note(f"{self.hits} of the answers came from a cache")
            self.report.count("cases", len(POLICIES))
        finally:
            for gateway in gateways:
                if gateway.process:
                    gateway.stop()
            redis.close()
            await self.service.stop()

    def gateway(self, redis):
        keys = (
            "[routes.cache]\nkey = { cookies = [\"theme\"] }\n",
            "[routes.cache]\nkey = { headers = [\"X-Tenant\"] }\n",
        )
        web = service("web", url=self.service.url)
        plain = route("/", "web", cache=True)
        themed = '[[routes]]\npath = "/themed"\nservice = "web"\n' + keys[0]
        keyed = '[[routes]]\npath = "/keyed"\nservice = "web"\n' + keys[1]
        silent = '[[routes]]\npath = "/silent"\nservice = "web"\ncache = "30s"\n'
        cache = '[cache]\nmax_heuristic = "30s"\n' + (f'[cache.redis]\nurl = "{redis.url}"\nbudget = "500ms"\n' if redis else "")
        return Gateway(BINARY, config(web, plain, themed, keyed, silent, cache, trust_forwarded=True, workers=2))

    def is_over(self, deadline):
        """On a busy machine not before something has been tried."""
        now = time.monotonic()
        return now > deadline and (self.hits > 0 or now > deadline + PATIENCE_S)

    async def client(self, address, deadline):
        while not self.is_over(deadline):
            try:
                async with await Connection.to(address) as connection:
                    for _ in range(self.chance.randrange(1, 12)):
                        if not await self.turn(connection) or self.is_over(deadline):
                            break
            except (Broken, TimeoutError) as error:
                self.report.wrong("wrong", self.step, f"{type(error).__name__}: {error}")

    async def turn(self, connection):
        """Some requests of different users on one connection, as a proxy in front sends them. False at its end."""
        asked = [self.ask() for _ in range(self.chance.choice((1, 1, 2, PIPELINED)))]
        await connection.send(b"".join(data for _, _, data, _ in asked))
        for policy, fields, data, tag in asked:
            answer = await connection.answer("HEAD" if data.startswith(b"HEAD") else "GET")
            self.step += 1
            self.report.count("requests")
            self.report.progress(f"{self.step} requests, {self.hits} answers from a cache")
            if answer is None:
                self.report.wrong("unexplained", self.step, f"the connection ended before the answer to {data!r}")
                return False
            self.check(policy, fields, data, tag, answer)
            if answer.closes:
                return False
        return True

    def ask(self):
        """A request: policy, the fields that reach the service, its bytes, the tag that it names."""
        chance = self.chance
        policy, number = chance.choice(list(POLICIES)), chance.randrange(OBJECTS)
        user = chance.choice(USERS)
        fields = {}
        if chance.random() < 0.5:
            fields["authorization"] = f"Bearer {user}"
        cookies = [f"user={user}"] if chance.random() < 0.6 else []
        if theme := chance.choice(THEMES):
            cookies.append(f"theme={theme}")
        if cookies:
            fields["cookie"] = "; ".join(cookies)
        for name, values in (("accept-language", LANGUAGES), ("origin", ORIGINS), ("x-tenant", ("", "one", "two"))):
            if value := chance.choice(values):
                fields[name] = value
        scheme = chance.choice(("http", "https"))
        fields["x-forwarded-proto"] = scheme
        sent = dict(fields)
        lines = []
        if fields and chance.random() < 0.25:
            named = chance.choice([name for name in fields if name != "x-forwarded-proto"] or ["x-none"])
            lines.append(f"Connection: {named}")
            if named not in CREDENTIALS:
                fields.pop(named, None)  # RFC 9110 §7.6.1: the service does not see it, so nothing may depend on it
        tag = None
        if chance.random() < 0.15:
            guessed = depends(policy, seen_by_service(fields | {"cookie": f"user={chance.choice(USERS)}"}))
            tag = '"%08x"' % zlib.crc32(json.dumps({"policy": policy, "number": str(number), "seen": guessed}).encode())
            lines.append(f"If-None-Match: {tag}")
        if chance.random() < 0.1:
            lines.append("Cache-Control: " + chance.choice(("no-cache", "max-age=0", "max-stale", "no-store")))
        names = list(sent)
        chance.shuffle(names)
        text = f"{'HEAD' if chance.random() < 0.08 else 'GET'} /{policy}/{number} HTTP/1.1\r\nHost: a.test\r\n"
        text += "".join(f"{name.title()}: {sent[name]}\r\n" for name in names) + "".join(f"{line}\r\n" for line in lines)
        return (policy, str(number)), fields, (text + "\r\n").encode(), tag

    def check(self, wanted, fields, data, tag, answer):
        policy, number = wanted
        expected = depends(policy, seen_by_service(fields))
        allowed = [expected]
        if policy == "plain":
            # RFC 9111 §3.5 keeps the answer to a request with Authorization from others; one without may be for all.
            allowed.append({"auth": "nobody"})
        if answer.status == 304:
            right = ['"%08x"' % zlib.crc32(json.dumps({"policy": policy, "number": number, "seen": one}).encode()) for one in allowed]
            if tag not in right:
                self.fault(data, answer, f"304 to {tag}, but the answer of this user is {right}")
            return
        if answer.status != 200:
            self.report.wrong("unexplained", self.step, f"{answer} to {data!r}")
            return
        came = answer.get(b"cache-status").decode()
        self.hits += "hit" in came
        if policy in ("origin", "both"):
            origin = answer.get(b"access-control-allow-origin").decode()
            if origin != expected["origin"]:
                self.fault(data, answer, f"Access-Control-Allow-Origin is {origin!r}, not {expected['origin']!r}")
        cookie = answer.get(b"set-cookie").decode()
        if cookie and cookie != "session=" + seen_by_service(fields)["who"]:
            self.fault(data, answer, f"the cookie of another user: {cookie}")
        if data.startswith(b"HEAD"):
            return
        document = json.loads(answer.body)
        if (document["policy"], document["number"]) != wanted:
            self.fault(data, answer, f"expected {wanted}")
        elif document["seen"] not in allowed:
            self.fault(data, answer, f"expected {expected}, got {document['seen']}")

    def fault(self, data, answer, text):
        self.report.wrong("wrong", self.step, f"{text}\n    to {data!r}\n    {answer}")
