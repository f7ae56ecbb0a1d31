"""A service of gRPC by `grpcio` (`make test` installs it), whose messages are bytes; knows nothing of Pilotlight.

As a program it listens on PORT; in tests it also runs in the test's process (`with Server() as server`).

    Once     unary: the message in capitals, with what metadata it got as trailers
    Down     as many messages as the request says
    Up       how many messages and bytes came
    Talk     each message as it comes
    Fail     NOT_FOUND with a message and trailers, after as many messages as the request says
    Wait     until the client's deadline, or its end; `waits` and `gone` count them
"""

import os
import sys
import threading
import time
from concurrent import futures

import grpc


class Handler(grpc.GenericRpcHandler):
    def __init__(self, server):
        self.server = server

    def service(self, details):
        metadata = dict(details.invocation_metadata)

        def once(request, context):
            self.server.deadlines.append(context.time_remaining())
            context.send_initial_metadata((("initial", "first"),))
            context.set_trailing_metadata((("told", metadata.get("tell", "")), ("bytes-bin", b"\x00\xff")))
            return request.upper()

        def down(request, _):
            return (b"message %d" % number for number in range(int(request)))

        def up(requests, _):
            sizes = [len(request) for request in requests]
            return b"%d %d" % (len(sizes), sum(sizes))

        def fail(request, context):
            for number in range(int(request)):
                yield b"%d" % number
            context.set_trailing_metadata((("why", "because"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "nothing é here")

        def wait(_, context):
            self.server.waits += 1
            ended = threading.Event()
            context.add_callback(ended.set)
            ended.wait(20)
            self.server.gone += 1
            return b""

        return {
            "/t.Test/Once": grpc.unary_unary_rpc_method_handler(once),
            "/t.Test/Down": grpc.unary_stream_rpc_method_handler(down),
            "/t.Test/Up": grpc.stream_unary_rpc_method_handler(up),
            "/t.Test/Talk": grpc.stream_stream_rpc_method_handler(lambda requests, _: iter(requests)),
            "/t.Test/Fail": grpc.unary_stream_rpc_method_handler(fail),
            "/t.Test/Wait": grpc.unary_unary_rpc_method_handler(wait),
        }.get(details.method)


class Server:
    def __init__(self, port=0):
        self.deadlines, self.waits, self.gone = [], 0, 0
        options = [("grpc.so_reuseport", 0)]
        self.server = grpc.server(futures.ThreadPoolExecutor(32), handlers=[Handler(self)], options=options)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()


if __name__ == "__main__":
    with Server(int(os.environ["PORT"])) as server:
        print("ready", file=sys.stderr)
        while True:
            time.sleep(60)
