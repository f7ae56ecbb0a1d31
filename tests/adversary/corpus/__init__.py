"""Requests as bytes, by clause of the RFCs, each with what must come of it. See case.py for how one is written."""

from . import chunked, connection, fields, framing, request_line, targets

CASES = request_line.CASES + targets.CASES + fields.CASES + framing.CASES + chunked.CASES + connection.CASES
