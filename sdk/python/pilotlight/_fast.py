"""Shared connections that the compiled core reads, and whose threads are its own.

What the core does not do itself it calls here: frames that are not ordinary requests, answers that are streamed.
Own and answer connections are those of `_pipe`.
"""

import sys
from _thread import start_new_thread

from . import _pipe, _upgrade
from ._core import native
from ._wire import END


def equip(service):
    """Gives the service the core."""
    service.core, service.kinds = Core(service), {"shared": Link}


class Core:
    """The core of a service; how many threads it has is counted in it."""

    def __init__(self, service):
        calls = getattr(service.handle, "native", None)  # what `wsgi.handler` knows of its application
        self.service, self.inner, self.begun = service, native.Core(service, Request, calls and calls()), False

    def add(self, link):
        self.inner.add(link, link.out, self.service.exchanges, self.service.threads)
        if not self.begun:
            self.begun = True
            start_new_thread(self.run, (link.reading,))

    def run(self, ready):
        with ready:
            pass
        self.inner.run()

    def leave(self):
        """The end of the service: closes the connections, so that the threads end."""
        for link in self.service.of_kind("shared"):
            link.close(ConnectionError())
        if not self.inner.stop():
            import atexit
            import os

            # A handler does not end. Its thread must not meet an interpreter that is being taken down.
            atexit.register(lambda: (sys.stdout.flush(), os._exit(self.service.ended or 0)))


class Queue:
    """The core's queue, for requests that Python has taken."""

    def __init__(self, link):
        self.link = link

    def append(self, request):
        self.link.service.core.inner.push(self.link, request._exchange, request)

    def __len__(self):
        return 0


class Link(_pipe.Link):
    """A shared connection. Its `out` is the core's."""

    def connect(self):
        self.queue = Queue(self)
        self.out = native.Wire.connect(self.service.path)

    def begin(self):
        self.send()
        self.service.core.add(self)

    def send(self, *frames):
        try:
            for one in frames:
                self.out.append(one)
            self.out.flush()
        except OSError as error:
            self.close(error)

    def send_last(self, frame):
        self.out.append_last(frame)
        self.out.flush()

    def look(self, now=False):
        self.service.core.inner.look(self.out)

    def hang_up(self):
        self.out.hang_up()

    def replace(self):
        self.service.core.inner.lend()

    def answered(self, request):
        """A request has been answered in Python, perhaps as a stream, on a connection that others may have next."""
        if request._link is not self:
            self.answers.append(request._link)
            self.service.core.inner.give_back()

    def welcomed(self):
        self.out.welcome(self.max_frame)

    def close(self, error):
        if not self.closed:
            super().close(error)
            self.service.core.inner.remove(self.out, self.service.threads)


class Request(_upgrade.Request):
    __doc__ = _upgrade.Request.__doc__

    _ended = END  # a shared connection has whole requests only (P-14)

    def __init__(self):
        """The core sets what it knows, and keeps the head as it came."""

    def __getattr__(self, name):
        """The head is taken apart when somebody asks for a part of it."""
        payload = self.__dict__.pop("_payload", None)
        if payload is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        known = dict(self.__dict__)
        super().__init__(self._source, self._exchange, END, payload)
        self.__dict__.update(known)
        return getattr(self, name)
