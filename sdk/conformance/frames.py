"""Between a line of a transcript and a frame: `compile_frame` for what is sent, `match_frame` for what is expected."""

import pipe1
from notation import Mismatch, NotationError, evaluate, exchange_of, match_exchange, match_parts

MAY_UPGRADE = ("REQUEST", "RESPONSE")
REQUEST_DEFAULTS = {
    "method": b"GET", "scheme": b"http", "authority": b"demo.test", "target": b"/", "protocol": b"HTTP/1.1",
    "peer": b"127.0.0.1:40000", "id": b"request-1",
}  # fmt: skip


def compile_frame(line, variables):
    """The bytes of the frame that the line writes."""
    if line.name == "RAW":
        return evaluate(_only(line, ":bytes"), variables)
    pseudo, fields = _sort_parts(line, variables)
    exchange = exchange_of(line, variables)
    if line.name == "FRAME":
        return _any_frame(pseudo, exchange, line.flags)
    kind = pipe1.TYPES.get(line.name)
    if kind is None:
        raise NotationError(f"no frame is called {line.name}")
    payload = pseudo.pop(":raw", None)
    if payload is None:
        payload = _BUILD[line.name](pseudo, fields)
    length = int(pseudo.pop(":length", len(payload)))
    if pseudo:
        raise NotationError(f"{line.name} has no {' '.join(pseudo)}")
    return pipe1.HEADER.pack(length, kind, line.flags, exchange) + payload


def compile_message(line, variables):
    """A whole request or answer, cut into frames: a head, DATA, the last with END."""
    pseudo, fields = _sort_parts(line, variables)
    exchange = exchange_of(line, variables)
    body = pseudo.pop(":body", b"")
    kind = "RESPONSE" if ":status" in pseudo else "REQUEST"
    blocks = [body[at : at + pipe1.MAX_FRAME] for at in range(0, len(body), pipe1.MAX_FRAME)]
    frames = [pipe1.Frame(pipe1.TYPES[kind], 0 if blocks else pipe1.END, exchange, _BUILD[kind](pseudo, fields))]
    for index, block in enumerate(blocks):
        last = index + 1 == len(blocks)
        frames.append(pipe1.Frame(pipe1.TYPES["DATA"], pipe1.END if last else 0, exchange, block))
    if pseudo:
        raise NotationError(f"{kind} has no {' '.join(pseudo)}")
    return b"".join(pipe1.encode(frame) for frame in frames)


def match_frame(line, frame, variables):
    """Raises Mismatch when the frame is not what the line expects."""
    if line.name == "FINAL":
        if not is_final(frame):
            raise Mismatch(f"got {frame}, which ends nothing")
    elif frame.name != line.name:
        raise Mismatch(f"got {frame}")
    match_exchange(line, frame.exchange, variables)
    if line.name != "FINAL" and frame.end != bool(line.flags & pipe1.END):
        raise Mismatch(f"END is {'set' if frame.end else 'not set'} on {frame}")
    if line.name in MAY_UPGRADE and frame.upgrade != bool(line.flags & pipe1.UPGRADE):
        raise Mismatch(f"UPGRADE is {'set' if frame.upgrade else 'not set'} on {frame}")
    pseudo, fields = view(frame)
    match_parts(line.parts, pseudo, fields, variables)


def is_final(frame):
    return frame.end or frame.upgrade or frame.name in ("TRAILERS", "RESET")


def view(frame):
    """What a frame says: `:name` values and fields. Raises ProtocolError when it cannot be read."""
    read = _READ.get(frame.name)
    if read is None:
        return {":raw": frame.payload}, []
    if frame.upgrade and frame.name in MAY_UPGRADE:
        pseudo, fields = read(frame.payload, frozenset([b"upgrade"]))
        if [name for name, _ in fields].count(b"upgrade") != 1:
            raise pipe1.ProtocolError("P-38", f"UPGRADE without one field that says to what: {frame}")
        return pseudo, fields
    return read(frame.payload)


def check_frame(frame, from_service):
    """The rules that hold for every frame of a peer, whatever the transcript is about."""
    if frame.type not in pipe1.NAMES:
        raise pipe1.ProtocolError("P-7", f"sent a frame of the unknown type {frame.type}")
    known = pipe1.END | pipe1.IGNORABLE | (pipe1.UPGRADE if frame.name in MAY_UPGRADE else 0)
    if frame.flags & ~known:
        raise pipe1.ProtocolError("P-7", f"sent unknown flag bits {frame.flags:#04x} on {frame.name}")
    wrong_side = {"WELCOME", "REQUEST", "MORE"} if from_service else {"HELLO", "RESPONSE", "INFO", "STOP", "LOG"}
    if frame.name in wrong_side:
        raise pipe1.ProtocolError("P-11", f"sent {frame.name}, which only the other side sends")
    if frame.name in ("HELLO", "WELCOME", "PING", "PONG", "DRAIN", "MORE") and frame.exchange:
        raise pipe1.ProtocolError("P-11", f"{frame.name} names exchange {frame.exchange}")
    pseudo, _ = view(frame)
    if frame.name == "INFO" and not 100 <= int(pseudo[":status"]) < 200:
        raise pipe1.ProtocolError("P-20", f"INFO has status {pseudo[':status']!r}")
    return frame


def _sort_parts(line, variables):
    pseudo, fields = {}, []
    for part in line.parts:
        if part.op != "=":
            raise NotationError(f"{part.key}{part.op} can be expected, not sent")
        value = evaluate(part.value, variables)
        if part.key.startswith(":"):
            pseudo[part.key] = value
        else:
            fields.append((part.key.encode(), value))
    return pseudo, fields


def _only(line, key):
    for part in line.parts:
        if part.key == key:
            return part.value
    raise NotationError(f"{line.name} needs {key}=")


def _any_frame(pseudo, exchange, flags):
    payload = pseudo.get(":raw", b"")
    length = int(pseudo.get(":length", len(payload)))
    return pipe1.HEADER.pack(length, int(pseudo[":type"]), flags | int(pseudo.get(":flags", 0)), exchange) + payload


def _build_text(pseudo, fields):
    lines = [pseudo.pop(":version", b"PIPE/1")]
    return pipe1.encode_text(lines + [name + b"=" + value for name, value in fields])


def _build_request(pseudo, fields):
    strings = [pseudo.pop(":" + name, REQUEST_DEFAULTS[name]) for name in pipe1.REQUEST_STRINGS]
    deadline = int(pseudo.pop(":deadline", 0))
    return _patch(pipe1.encode_request(strings, deadline, fields, pseudo.pop(":body", b"")), pseudo)


def _build_response(pseudo, fields):
    status = int(pseudo.pop(":status", 200))
    return _patch(pipe1.encode_response(status, fields, pseudo.pop(":body", b"")), pseudo)


def _patch(payload, pseudo):
    """`:head_length=N` writes a head length that is not true; `:block=…` adds bytes to the end of a body-less head."""
    block = pseudo.pop(":block", None)
    if block is not None:
        length = int.from_bytes(payload[:4], "little") + len(block)
        payload = length.to_bytes(4, "little") + payload[4:] + block
    if ":head_length" in pseudo:
        payload = int(pseudo.pop(":head_length")).to_bytes(4, "little") + payload[4:]
    return payload


def _build_reset(pseudo, _fields):
    code = pipe1.CODES[pseudo.pop(":code").decode()]
    return pipe1.encode_reset(code, int(pseudo.pop(":retry", 0)), pseudo.pop(":text", b""))


def _build_more(pseudo, _fields):
    kind = pipe1.KINDS[pseudo.pop(":kind").decode()]
    return pipe1.encode_more(kind, int(pseudo.pop(":count", 1)), int(pseudo.pop(":worker")))


_BUILD = {
    "HELLO": _build_text,
    "WELCOME": _build_text,
    "REQUEST": _build_request,
    "RESPONSE": _build_response,
    "INFO": _build_response,
    "DATA": lambda pseudo, _: pseudo.pop(":body", b""),
    "TRAILERS": lambda pseudo, fields: pipe1.flatten(fields) + pseudo.pop(":block", b""),
    "STOP": lambda pseudo, _: b"",
    "RESET": _build_reset,
    "PING": lambda pseudo, _: pseudo.pop(":data"),
    "PONG": lambda pseudo, _: pseudo.pop(":data"),
    "DRAIN": lambda pseudo, _: int(pseudo.pop(":grace")).to_bytes(4, "little"),
    "MORE": _build_more,
    "LOG": lambda pseudo, _: bytes([int(pseudo.pop(":level", 3))]) + pseudo.pop(":text", b""),
}


def _read_text(payload):
    version, values = pipe1.decode_text(payload)
    return {":version": version}, [(key.encode(), value) for key, value in values.items()]


def _read_request(payload, crossing=frozenset()):
    strings, deadline, fields, body = pipe1.decode_request(payload, crossing)
    pseudo = {":" + name: value for name, value in strings.items()}
    return pseudo | {":deadline": b"%d" % deadline, ":body": body}, fields


def _read_response(payload, crossing=frozenset()):
    status, fields, body = pipe1.decode_response(payload, crossing)
    return {":status": b"%d" % status, ":body": body}, fields


def _read_reset(payload):
    code, retry, text = pipe1.decode_reset(payload)
    return {":code": pipe1.CODE_NAMES.get(code, str(code)).encode(), ":retry": b"%d" % retry, ":text": text}, []


def _read_more(payload):
    kind, count, worker = pipe1.decode_more(payload)
    kinds = {number: name.encode() for name, number in pipe1.KINDS.items()}
    return {":kind": kinds.get(kind, b"%d" % kind), ":count": b"%d" % count, ":worker": b"%d" % worker}, []


def _read_drain(payload):
    if len(payload) != 4:
        raise pipe1.ProtocolError("P-11", f"DRAIN has {len(payload)} bytes, needs 4")
    return {":grace": b"%d" % int.from_bytes(payload, "little")}, []


_READ = {
    "HELLO": _read_text,
    "WELCOME": _read_text,
    "REQUEST": _read_request,
    "RESPONSE": _read_response,
    "INFO": _read_response,
    "DATA": lambda payload: ({":body": payload}, []),
    "TRAILERS": lambda payload: ({}, pipe1.decode_fields(payload)),
    "RESET": _read_reset,
    "PING": lambda payload: ({":data": payload}, []),
    "PONG": lambda payload: ({":data": payload}, []),
    "DRAIN": _read_drain,
    "MORE": _read_more,
    "LOG": lambda payload: ({":level": payload[:1], ":text": payload[1:]}, []),
}
