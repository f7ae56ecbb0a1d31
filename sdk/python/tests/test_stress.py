"""Everything at once on one shared connection: each exchange gets exactly one final frame, whatever the threads do."""

import random
import selectors
import struct
import time
import unittest

from harness import CANCELLED, DATA, DRAIN, RESET, RESPONSE, GatewayCase, frame, request, reset

SERVICE = """
import random
def stream(request):
    for _ in range(3):
        yield b"x" * 10
        time.sleep(random.random() / 500)
def handle(request):
    if request.path == "/sleep":
        time.sleep(random.random() / 500)
    elif request.path == "/stream":
        return 200, (), stream(request)
    elif request.path == "/large":
        return 200, (), bytes(100_000)
    elif request.path == "/error":
        raise pilotlight.Refused
    return 200, (), "quick"
pilotlight.serve(handle, threads=4)
"""
EXCHANGES, IN_FLIGHT = 3000, 60


class Stress(GatewayCase):
    def test_each_exchange_has_one_final_frame(self):
        seed = random.randrange(1 << 32)
        chance, shared = random.Random(seed), self.serve(SERVICE)
        links, waiting, sent, finished = [shared], {}, 0, 0
        selector = selectors.DefaultSelector()
        self.addCleanup(selector.close)
        selector.register(shared.sock, selectors.EVENT_READ, shared)
        selector.register(self.listener, selectors.EVENT_READ, None)
        end = time.monotonic() + 60
        while finished < EXCHANGES:
            self.assertLess(time.monotonic(), end, f"seed {seed}: no final frame for {waiting}")
            batch = []
            for exchange in range(1, IN_FLIGHT + 1):
                if exchange not in waiting and sent < EXCHANGES:
                    path = chance.choice(("/quick", "/quick", "/sleep", "/stream", "/large", "/error"))
                    waiting[exchange], sent = path, sent + 1
                    batch.append(request(exchange, path))
                    if chance.random() < 0.1:
                        batch.append(reset(exchange, CANCELLED))
            shared.send(*batch)
            for key, _ in selector.select(1):
                if key.data is None:
                    links.append(self.accept())
                    selector.register(links[-1].sock, selectors.EVENT_READ, links[-1])
                    continue
                answer = key.data.next()
                while answer is not None:
                    self.assertIn(answer.exchange, waiting, f"seed {seed}: {answer}")
                    self.assertIn(answer.kind, (RESPONSE, DATA, RESET))
                    if answer.end or answer.kind == RESET:
                        del waiting[answer.exchange]
                        finished += 1
                    answer = key.data.next() if self.has_frame(key.data) else None
        self.assertLess(len(links), IN_FLIGHT + 2)
        shared.send(frame(DRAIN, 0, struct.pack("<I", 0)))
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.stderr(), "")

    def has_frame(self, link):
        return len(link.buffer) >= 8 and len(link.buffer) >= 8 + struct.unpack_from("<I", link.buffer)[0]


if __name__ == "__main__":
    unittest.main()
