"""Load that notices everything: clients that keep their connection and clients that do not, and every answer that is not right."""

import threading
from collections import Counter

from harness import Client, Cut

__all__ = ["Clients", "Load"]


class Clients:
    """Threads that run `_run(number)` from the beginning of the block until its end, when `_stop` is set."""

    def __init__(self, count):
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number):
        raise NotImplementedError


class Load(Clients):
    """Clients that ask without pause until the end of the block. `answers` counts (status, body), `errors` has what was not 200.

    Half of them keep their connection until they are told that it is closed, the others open one for each request.
    """

    def __init__(self, address, target="/pid", clients=6, is_right=lambda answer: answer.status == 200):
        self.address, self.target, self.is_right = address, target, is_right
        self.answers, self.errors = Counter(), []
        super().__init__(clients)

    def _run(self, number):
        keeps, client = number % 2 == 0, None
        while not self._stop.is_set():
            try:
                client = client or Client(self.address, 20.0)
                answer = client.request("GET", self.target)
                self.answers[answer.status, answer.body.decode()] += 1
                if not self.is_right(answer):
                    self.errors.append(answer)
                if not keeps or (answer.get("connection") or "").lower() == "close":
                    client.close()
                    client = None
            except (OSError, Cut) as error:
                self.errors.append(error)
                if client:
                    client.close()
                client = None
        if client:
            client.close()

    def count(self):
        return sum(list(self.answers.values()))

    def bodies(self):
        return {body for _, body in list(self.answers)}
