"""The compiled core, if it is here: `native` is the module, or None. PILOTLIGHT_PURE=1 does without it."""

from posix import environ


def load():
    if environ.get(b"PILOTLIGHT_PURE", b"0") not in (b"", b"0"):
        return None
    try:
        from . import _native
    except ImportError:
        return None  # not built for this Python: everything is done in Python
    return _native


native = load()
