"""A collector of traces: takes OTLP over HTTP, and decodes it by OpenTelemetry's own definitions (opentelemetry-proto).

`with Collector() as collector: collector.url`. `answers` says what the next requests get: (status, fields, body); an
empty list is 200. `gate` holds each answer back until it is set.
"""

import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        collector = self.server
        with collector.lock:
            collector.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, fields, answer = collector.answers.popleft() if collector.answers else (200, (), b"")
        collector.gate.wait(60)
        if status == 200:
            request = service.ExportTraceServiceRequest.FromString(body)
            with collector.lock:
                for resource_spans in request.resource_spans:
                    collector.resource = attributes(resource_spans.resource)
                    for scope_spans in resource_spans.scope_spans:
                        collector.spans += scope_spans.spans
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        for field in fields:
            self.send_header(*field)
        self.end_headers()
        self.wfile.write(answer)


class Collector(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1/traces"
        self.lock = threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        self.requests, self.spans, self.answers, self.resource = [], [], deque(), {}

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A gateway that goes away is no error here."""

    def all(self, kind=None):
        with self.lock:
            return [span for span in self.spans if kind is None or span.kind == kind]


def attributes(of):
    """Of a span or a resource, as a dictionary."""
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in of.attributes}
