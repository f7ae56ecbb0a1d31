"""Heads as ASGI has them: the scope of a request, the fields of an answer."""

from time import monotonic

from ._app import host_and_port, unquote
from ._core import native
from ._wire import DROPPED, MAX_FRAME, REQUEST_HEAD, check

SPEC = {"version": "3.0", "spec_version": "2.5"}
DROPPED_BYTES = frozenset(name.encode() for name in DROPPED)
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def split(payload):
    """The strings of a request's head, its deadline in milliseconds, and the body behind it (P-8)."""
    size, deadline_ms = REQUEST_HEAD.unpack_from(payload)
    end = REQUEST_HEAD.size + size
    check(end <= len(payload), "P-8: head_length is {} in a payload of {} bytes", size, len(payload))
    texts = payload[REQUEST_HEAD.size : end].split(b"\0")
    fit = not texts.pop() and len(texts) >= 7 and len(texts) % 2
    check(fit, "P-8: {} strings, which are not 7 and pairs, or no zero byte behind them", len(texts))
    return texts, deadline_ms, payload[end:]


def request(payload, root_path, state):
    """The scope of an HTTP request, and the first part of its body."""
    if native:
        made = native.request(payload, root_path, state, SPEC)
        if made:
            return made
    texts, deadline_ms, body = split(payload)
    method, scheme, authority, target, protocol, peer, name = (str(text, "latin-1") for text in texts[:7])
    raw_path, _, query = texts[3].partition(b"?")
    path = target.partition("?")[0]
    headers = list(zip(texts[7::2], texts[8::2]))
    if authority:
        headers.insert(0, (b"host", texts[2]))
    scope = {
        "type": "http",
        "asgi": SPEC,
        "http_version": protocol.partition("/")[2] or "1.1",
        "method": method,
        "scheme": scheme,
        "path": unquote(path).encode("latin-1").decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": root_path,
        "headers": headers,
        "client": address(peer, 0) if peer else None,
        "server": address(authority, PORTS.get(scheme)) if authority else None,
        "state": state.copy(),
        "extensions": {
            "http.response.trailers": {},
            "http.response.early_hint": {},
            "pilotlight": {"id": name, "deadline": monotonic() + deadline_ms / 1000 if deadline_ms else None},
        },
    }
    return scope, body


def as_websocket(scope):
    """The same scope for a handshake, which its connection has become."""
    offered = b",".join(value for name, value in scope["headers"] if name == b"sec-websocket-protocol")
    scope.update(
        type="websocket",
        scheme={"http": "ws", "https": "wss"}.get(scope["scheme"], "ws"),
        subprotocols=[name.strip() for name in offered.decode("latin-1").split(",") if name.strip()],
        extensions={"websocket.http.response": {}, "pilotlight": scope["extensions"]["pilotlight"]},
    )
    del scope["method"]
    return scope


def address(text, port):
    host, number = host_and_port(text)
    return host, int(number) if number else port


def fields(headers):
    """Encodes pairs of bytes, without what must not cross (P-8, P-9)."""
    pairs = [(bytes(name).lower(), bytes(value)) for name, value in headers]
    named = b",".join([value for name, value in pairs if name == b"connection"])
    dropped = DROPPED_BYTES.union(named.lower().replace(b" ", b"").split(b",")) if named else DROPPED_BYTES
    texts = [text for pair in pairs if pair[0] not in dropped for text in pair]
    texts.append(b"")
    block = b"\0".join(texts)
    fit = block.count(0) == len(texts) - 1 and len(block.splitlines()) < 2
    check(fit, "P-8: a zero byte, CR or LF in {!r:.200}", block)
    check(len(block) <= MAX_FRAME - 8, "P-6: {} bytes of headers do not fit a frame", len(block))
    return block


def fields_and_length(headers):
    """The encoded fields, and what content-length says, or None."""
    headers = headers if isinstance(headers, (list, tuple)) else list(headers)
    found = native.fields(headers) if native else None
    return found or (fields(headers), content_length(headers))


def content_length(headers):
    """What the field says, or None."""
    for name, value in headers:
        if len(name) == 14 and name.lower() == b"content-length":
            return int(value)
    return None
