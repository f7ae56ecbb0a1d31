"""activate.py ADDRESS:PORT PROGRAM ARGUMENT…: listens, and becomes the program when somebody comes, with the socket as its descriptor 3.

As systemd-socket-activate does it, for machines without systemd: LISTEN_FDS and LISTEN_PID as in sd_listen_fds(3).
"""
import os
import select
import socket
import sys

host, _, port = sys.argv[1].rpartition(":")
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((host, int(port)))
listener.listen(128)
select.select([listener], [], [])
os.dup2(listener.fileno(), 3) if listener.fileno() != 3 else os.set_inheritable(3, True)
os.execvpe(sys.argv[2], sys.argv[2:], {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})
