"""The compiled core, if it is here: `native` is the module, or None. PILOTLIGHT_PURE=1 does without it."""

from posix import environ
from sys import implementation, version_info


def load():
    if environ.get(b"PILOTLIGHT_PURE", b"0") not in (b"", b"0") or version_info < (3, 10):
        return None
    try:
        if "musl" in getattr(implementation, "_multiarch", ""):
            from ._musl import _native
        else:
            from . import _native
    except ImportError:
        return None  # not built for this Python: everything is done in Python
    return _native


native = load()
