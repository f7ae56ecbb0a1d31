"""Pipe/1 in bytes (docs/spec/pipe.md §3): frames, heads and fields; no sockets."""

HELLO, WELCOME, REQUEST, RESPONSE, INFO, DATA, TRAILERS, STOP, RESET, PING, PONG, DRAIN, MORE, LOG = range(1, 15)
CANCELLED, DEADLINE, REFUSED, OVERLOADED, INTERNAL, PROTOCOL, TOO_LARGE = range(1, 8)
END, UPGRADE, IGNORABLE = 0x01, 0x02, 0x80
DROPPED = frozenset("connection keep-alive proxy-connection te transfer-encoding upgrade expect host".split())  # P-9
MAX_FRAME, MAX_HELLO, MAX_TEXT = 65_536, 4_096, 1_024  # bytes; a WELCOME may allow the gateway larger frames


class Violation(ValueError):
    """A rule is broken: one of docs/spec/pipe.md by the gateway (P-10), or one of this module by its caller."""


class Layout:
    """A `struct.Struct`, loaded when it is first used: a cold start with the compiled core does without."""

    def __init__(self, text):
        self.text = text

    def __getattr__(self, name):
        from _struct import Struct

        made = Struct(self.text)
        self.size, self.pack, self.unpack_from = made.size, made.pack, made.unpack_from
        return getattr(made, name)


HEADER, REQUEST_HEAD, RESPONSE_HEAD, NUMBERS = Layout("<IBBH"), Layout("<II"), Layout("<IHH"), Layout("<HHI")


class Headers(list):
    """(name, value) pairs in the order they came, repeated ones included; names are in lower case."""

    @classmethod
    def of(cls, texts, fixed=0):
        """The fields behind `fixed` strings."""
        return cls(zip(texts[fixed::2], texts[fixed + 1 :: 2]))

    def get(self, name, default=None):
        """The first value of `name`, in whatever case."""
        return next((value for key, value in self if key == name.lower()), default)


def check(condition, rule, *facts):
    """Raises Violation with the text of the rule unless the condition holds."""
    if not condition:
        raise Violation(rule.format(*facts))


def frame(kind, flags, exchange, head=b"", data=b""):
    """A whole frame; its payload is `head` and `data`."""
    header = len(head) + len(data) | kind << 32 | flags << 40 | exchange << 48
    return b"".join((header.to_bytes(8, "little"), head, data))


def cut(text):
    """`text` in at most MAX_TEXT bytes."""
    return str(text).encode("utf-8", "replace")[:MAX_TEXT].decode("utf-8", "ignore").encode()


def reset(exchange, code, text, retry_after=0.0):
    """A RESET frame."""
    return frame(RESET, 0, exchange, NUMBERS.pack(code, 0, int(retry_after * 1000)), cut(text))


def parse(block, fixed=0):
    """The strings of a head, `fixed` ones and then name, value, name, value, ... (P-8)."""
    texts = str(block, "latin-1").split("\0")
    fit = not texts.pop() and len(texts) >= fixed and (len(texts) - fixed) % 2 == 0
    check(fit, "P-8: {} strings, which are not {} and pairs, or no zero byte behind them", len(texts), fixed)
    return texts


def fields(headers):
    """Encodes pairs or a dict, without what must not cross (P-8, P-9)."""
    pairs = list(headers.items() if isinstance(headers, dict) else headers)
    named = ",".join([value for name, value in pairs if name.lower() == "connection"])
    dropped = DROPPED.union(named.lower().replace(" ", "").split(",")) if named else DROPPED
    texts = [f"{name.lower()}\0{value}\0" for name, value in pairs if name.lower() not in dropped]
    block = "".join(texts).encode("latin-1")
    fit = block.count(0) == 2 * len(texts) and len(block.splitlines()) < 2
    check(fit, "P-8: a zero byte, CR or LF in {!r:.200}", block)
    check(len(block) <= MAX_FRAME - 8, "P-6: {} bytes of headers do not fit a frame", len(block))
    return block


def response_head(status, block):
    """The head of RESPONSE, whose fields are `block`."""
    check(200 <= status <= 999, "the status is {}, it must be 200 to 999", status)
    return RESPONSE_HEAD.pack(len(block), status, 0) + block
