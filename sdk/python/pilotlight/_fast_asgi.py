"""Shared connections of an ASGI application whose ordinary requests the compiled core takes, from head to answer.

Everything else comes to `_loop` and `_exchange`, as it does without the core.
"""

import asyncio
import sys
from functools import partial

from . import _loop
from ._core import native
from ._scope import SPEC

BEGINS_AT_ONCE = sys.version_info >= (3, 12)  # a task of asyncio may take its first step where it is made


def equip(instance, server):
    """Has the instance make its shared connections so."""
    instance.kinds["shared"] = partial(Link, server)


class Link(_loop.Link):
    """A shared connection. What comes on it the core sees first."""

    def __init__(self, server, instance, kind, worker):
        super().__init__(instance, kind, worker)
        self.port = native.Port(self, server, SPEC)
        self.data_received, self.finish, self.flush = self.port.data_received, self.port.finish, self.port.flush

    def connection_made(self, transport):
        loop = self.instance.loop
        begin = loop.create_task
        if BEGINS_AT_ONCE and loop.get_task_factory() is None:
            begin = partial(asyncio.eager_task_factory, loop)
        self.port.connected(transport.write, loop.call_soon, begin)
        super().connection_made(transport)

    def welcomed(self):
        self.port.welcome(self.max_frame)
