"""A runtime client of AWS Lambda's that does what none should: what paths ask for, noted in the file NOTES as the
statuses and error types that it was answered with."""

import http.client
import json
import os
import socket
import sys
import time

API = os.environ["AWS_LAMBDA_RUNTIME_API"]
RUNTIME = "/2018-06-01/runtime"


def call(method, path, body=None, fields=None):
    connection = http.client.HTTPConnection(API, timeout=60)
    connection.request(method, path, body, fields or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text


def note(name, method, path, body=None, fields=None):
    answer, text = call(method, path, body, fields)
    kind = json.loads(text).get("errorType") if text.startswith(b"{") else None
    with open(os.environ["NOTES"], "a") as notes:
        print(f"{name} {answer.status} {kind}", file=notes)


def post(invocation, text, what="response", fields=None):
    return call("POST", f"{RUNTIME}/invocation/{invocation}/{what}", text, fields)


def stream(invocation, pieces, trailers=b""):
    """A chunked result, by hand: http.client sends no trailers."""
    host, port = API.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as to:
        head = [f"POST {RUNTIME}/invocation/{invocation}/response HTTP/1.1", f"Host: {API}"]
        head += ["Transfer-Encoding: chunked"]
        head += ["Lambda-Runtime-Function-Response-Mode: streaming"]
        head += ["Content-Type: application/vnd.awslambda.http-integration-response"]
        head += ["Trailer: Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body"]
        to.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
        for piece in pieces:
            to.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        to.sendall(b"0\r\n" + trailers + b"\r\n")
        to.recv(4096)


def endless():
    yield b'{"statusCode": 200}' + bytes(8)
    while True:
        yield b"x" * 1000
        time.sleep(0.01)


def before_the_first_event():
    note("extension", "POST", "/2020-01-01/extension/register", b"{}")
    note("restore", "GET", f"{RUNTIME}/restore/next")
    note("path", "GET", "/")
    note("method", "POST", f"{RUNTIME}/invocation/next")
    note("early", "POST", f"{RUNTIME}/invocation/none/response", b"1")


def handle(invocation, path, event):
    if path == "/other-id":
        note("other", "POST", f"{RUNTIME}/invocation/none/response", b"1")
        note("next", "GET", f"{RUNTIME}/invocation/next")
        post(invocation, b'"once"')
        note("twice", "POST", f"{RUNTIME}/invocation/{invocation}/response", b'"twice"')
        note("late init error", "POST", f"{RUNTIME}/init/error", b"{}")
    elif path == "/late":
        time.sleep(2)
        try:
            note("late", "POST", f"{RUNTIME}/invocation/{invocation}/response", b'"late"')
        except OSError:
            pass
        sys.exit(1)
    elif path == "/endless":
        stream(invocation, endless())
    elif path == "/fails":
        pieces = [b'{"statusCode": 202, "headers": {"x-a": "b"}}' + bytes(4), bytes(4) + b"begin"]
        error = [b"Lambda-Runtime-Function-Error-Type: Own.Error", b"Lambda-Runtime-Function-Error-Body: e30=", b""]
        stream(invocation, pieces, b"\r\n".join(error))
    elif path == "/broken":
        connection = http.client.HTTPConnection(API)
        connection.putrequest("POST", f"{RUNTIME}/invocation/{invocation}/response")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"begin")
        connection.close()
    elif path == "/too-much":
        stream(invocation, [b"{}" + bytes(8)] + [b"x" * 10_000] * 20)
    elif path == "/no-prelude":
        stream(invocation, [b"{}"])
    elif path == "/error":
        post(invocation, b"not JSON", "error", {"Lambda-Runtime-Function-Error-Type": "Own.Error"})
    else:
        post(invocation, json.dumps({"statusCode": 200, "body": event}))


def main():
    if os.environ.get("INIT") == "error":
        call("POST", f"{RUNTIME}/init/error", b'{"errorType": "Own.Init", "errorMessage": "no"}')
        time.sleep(60)
    before_the_first_event()
    while True:
        answer, event = call("GET", f"{RUNTIME}/invocation/next")
        invocation = answer.getheader("Lambda-Runtime-Aws-Request-Id")
        event = event.decode()
        handle(invocation, json.loads(event).get("rawPath"), event)


main()
