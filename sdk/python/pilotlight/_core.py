"""The compiled core, if it is here: `native` is the module, or None. PILOTLIGHT_PURE=1 does without it."""

from posix import environ

native = None
if environ.get(b"PILOTLIGHT_PURE", b"") in (b"", b"0"):
    try:
        from . import _native as native
    except ImportError:
        pass  # not built for this Python: everything is done in Python
