"""One case of the corpus, and the few ways in which most are written.

`@@` in what is sent and expected becomes a mark of its own in each run (`q17q`), by which the recorder tells requests apart.
Every request that a service may see has it in its target, its host or its body.
"""

from dataclasses import dataclass, field

OK, BAD = frozenset({200}), frozenset({400})
LENIENT = frozenset({200, 400})  # the RFC allows both: what matters is what the service sees, and what comes next
NONE = 0  # the connection ends without an answer
HOST = b"Host: a.test\r\n"


@dataclass(frozen=True)
class Saw:
    """A whole request as the service should have seen it."""

    line: bytes | tuple  # the request line, or several of which one is right
    body: bytes | None = b""  # None: any
    has: dict = field(default_factory=dict)  # field -> its only value
    lacks: tuple = ()  # fields that are not there, in the head or in trailers


@dataclass(frozen=True)
class Case:
    clause: str
    name: str
    send: bytes
    answers: tuple  # for each answer that should come: the statuses it may have
    after: str  # "open": a further request is answered; "closed"; "any": as the last answer says
    saw: tuple = ()  # for each answer: what the service saw if that is a 2xx; (): nothing, whatever the answer is
    methods: tuple = ()  # of the requests, where an answer's body depends on it
    fin: bool = False  # the client half-closes after what it sends

    def __str__(self):
        return f"{self.clause}: {self.name}"


def head(line, *fields, host=HOST):
    """A request's head: its line, Host, and further fields, each without its end."""
    return line + b"\r\n" + host + b"".join(one + b"\r\n" for one in fields) + b"\r\n"


def get(*fields, target=b"/r/@@", version=b"HTTP/1.1", host=HOST):
    return head(b"GET %b %b" % (target, version), *fields, host=host)


def post(*fields, body=b"", target=b"/r/@@"):
    return head(b"POST %b HTTP/1.1" % target, *fields) + body


def accept(clause, name, send, saw=None, after="open", status=OK, **more):
    """It is answered, and the service saw exactly this."""
    return Case(clause, name, send, (status,), after, (saw or Saw(b"GET /r/@@ HTTP/1.1"),), **more)


def refuse(clause, name, send, status=BAD, after="closed", **more):
    """It is refused, and the service saw nothing."""
    return Case(clause, name, send, (status,), after, (), **more)


def either(clause, name, send, saw=None, status=LENIENT, after="any", **more):
    """Both are right; if it is answered, then the service saw exactly this."""
    return Case(clause, name, send, (status,), after, (saw or Saw(b"GET /r/@@ HTTP/1.1"),), **more)


def shown(byte):
    """How a byte is called in a case's name."""
    return f"{chr(byte)!r}" if 0x20 < byte < 0x7F else f"0x{byte:02x}"
