"""Requests that find their service stopped by its idle timeout."""
import time

from .program import Failed, dial

IDLE_TIMEOUT = "200ms"
STOPPED_SECONDS = 10
POLL_SECONDS = 0.01
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def wait_until_stopped(gateway):
    end = time.monotonic() + STOPPED_SECONDS
    while gateway.service_pids:
        if time.monotonic() > end:
            raise Failed(f"the service still runs {STOPPED_SECONDS} s after its idle_timeout of {IDLE_TIMEOUT}")
        time.sleep(POLL_SECONDS)


def first_byte_ms(port):
    before = time.perf_counter()
    with dial(port) as connection:
        connection.sendall(REQUEST)
        status = connection.recv(12)
        elapsed = (time.perf_counter() - before) * 1000
    if not status.endswith(b" 200"):
        raise Failed(f"a cold start was answered with {status!r}")
    return elapsed
