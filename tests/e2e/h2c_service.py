"""A service of HTTP/2 with prior knowledge by the package `h2` (`make test` installs it): each stream of an extended
CONNECT (RFC 8441) echoes its bytes, another request is answered with its method; knows nothing of Pilotlight.

`with Server(connects=...) as server:` listens in this process; `connects`: whether its SETTINGS allow extended CONNECT.
`server.seen` has the heads of requests, `server.resets` the streams that were reset.
"""

import socket
import threading

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.settings import SettingCodes, Settings


class Server:
    def __init__(self, connects=True, status="200"):
        self.connects, self.status, self.seen, self.resets = connects, status, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "h2c://127.0.0.1:{}".format(self.listener.getsockname()[1])

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=Connection(self, connection).run, daemon=True).start()


class Connection:
    def __init__(self, server, connection):
        self.server, self.socket = server, connection
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        settings = {SettingCodes.MAX_CONCURRENT_STREAMS: 100}
        settings |= {SettingCodes.ENABLE_CONNECT_PROTOCOL: 1} if server.connects else {}
        self.h2.local_settings = Settings(client=False, initial_values=settings)
        self.unsent, self.ended = {}, set()  # bytes that the windows have no room for; streams whose client has ended

    def run(self):
        self.h2.initiate_connection()
        with self.socket:
            while True:
                self.socket.sendall(self.h2.data_to_send())
                try:
                    data = self.socket.recv(65_536)
                except OSError:
                    return
                if not data:
                    return
                for event in self.h2.receive_data(data):
                    self.take(event)

    def take(self, event):
        if isinstance(event, RequestReceived):
            self.begin(event.stream_id, dict(event.headers))
        elif isinstance(event, DataReceived) and event.stream_id in self.unsent:
            self.unsent[event.stream_id] += event.data
            self.send(event.stream_id, event.flow_controlled_length)
        elif isinstance(event, StreamEnded) and event.stream_id in self.unsent:
            self.ended.add(event.stream_id)
            self.send(event.stream_id)
        elif isinstance(event, StreamReset):
            self.unsent.pop(event.stream_id, None)
            self.server.resets.append(event.error_code)
        elif isinstance(event, WindowUpdated):
            for stream in [event.stream_id] if event.stream_id else list(self.unsent):
                self.send(stream)

    def begin(self, stream, head):
        self.server.seen.append(head)
        if ":protocol" in head and self.server.status == "200":
            self.unsent[stream] = b""
            return self.h2.send_headers(stream, [(":status", "200"), ("sec-websocket-protocol", "a")])
        status = self.server.status if ":protocol" in head else "200"
        self.h2.send_headers(stream, [(":status", status)])
        return self.h2.send_data(stream, head[":method"].encode(), end_stream=True)

    def send(self, stream, received=0):
        """Echoes what the client's window has room for; gives it back what has been echoed."""
        data = self.unsent.get(stream)
        if data is None:
            return
        while room := min(len(data), self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size):
            self.h2.send_data(stream, data[:room])
            data = data[room:]
        self.unsent[stream] = data
        if received:
            self.h2.acknowledge_received_data(received, stream)
        if not data and stream in self.ended:
            del self.unsent[stream]
            self.h2.end_stream(stream)
