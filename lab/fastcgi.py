"""A FastCGI program started by hand, and one request to it: what PHP alone takes, without a web server."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time

BEGIN, PARAMS, STDIN = 1, 4, 5
# A responder; the program closes the connection.
RESPONDER = struct.pack(">HB5x", 1, 0)
LIMIT_SECONDS = 60
BACKLOG = 128


def record(kind, content):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def pair(name, value):
    def length(text):
        return bytes([len(text)]) if len(text) < 128 else struct.pack(">I", len(text) | 1 << 31)

    name, value = name.encode(), value.encode()
    return length(name) + length(value) + name + value


def variables(root, script, host):
    name, _, port = host.partition(":")
    return {
        "SCRIPT_FILENAME": f"{root}/{script}",
        "SCRIPT_NAME": f"/{script}",
        "DOCUMENT_ROOT": str(root),
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": "/" if script == "index.php" else f"/{script}",
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": host,
        "SERVER_NAME": name,
        "SERVER_PORT": port,
        "REMOTE_ADDR": "127.0.0.1",
        "REDIRECT_STATUS": "200",
        "GATEWAY_INTERFACE": "CGI/1.1",
    }


def first_byte(path, told):
    """When the first byte of the answer came; the rest is read."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LIMIT_SECONDS)
        client.connect(str(path))
        params = b"".join(pair(name, value) for name, value in told.items())
        client.sendall(record(BEGIN, RESPONDER) + record(PARAMS, params) + record(PARAMS, b"") + record(STDIN, b""))
        first = client.recv(65536)
        when = time.monotonic()
        rest = b"".join(iter(lambda: client.recv(65536), b""))
    if b"Status: 5" in first[:500] or len(first + rest) < 24:
        raise RuntimeError(f"no page: {first[:300]!r}")
    return when


@contextlib.contextmanager
def spawned(argv, path, env):
    """The program on a socket that it inherits as descriptor 0, and php-fpm by `FPM_SOCKETS`; killed at the end."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        path.chmod(0o666)
        told = {**os.environ, **env, "FPM_SOCKETS": f"{path}={listener.fileno()}", "PILOTLIGHT_LISTEN": str(path)}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        inherited = {"stdin": listener, "pass_fds": [listener.fileno()]}
        process = subprocess.Popen(argv, env=told, start_new_session=True, **inherited, **silent)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
