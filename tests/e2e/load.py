"""Load that notices everything: clients that keep their connection and clients that do not, and every answer that is not right."""

import threading
from collections import Counter

from harness import IS_LONG, Client, Cut

__all__ = ["THINK_TIME", "Clients", "Load"]

# Seconds between the requests of a client: none in the long form.
THINK_TIME = 0.0 if IS_LONG else 0.01


class Clients:
    """Threads that run `_run(number)` from the beginning of the block until its end, when `_stop` is set.

    `think_time` is how many seconds a client lets pass between a response and its next request: without it, the clients
    keep all processors busy.
    """

    def __init__(self, count, think_time=0.0):
        self._stop, self._think_time = threading.Event(), think_time
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

    def _think(self):
        if self._think_time:
            self._stop.wait(self._think_time)


class Load(Clients):
    """Clients that send requests until the end of the block.

    `answers` counts (status, body), `errors` has what was not 200.
    Half of them keep their connection until they are told that it is closed, the others open one for each request.
    """

    def __init__(self, address, target="/pid", clients=6, is_right=lambda answer: answer.status == 200, think_time=0.0):
        self.address, self.target, self.is_right = address, target, is_right
        self.answers, self.errors = Counter(), []
        super().__init__(clients, think_time)

    def _run(self, number):
        keeps, client = number % 2 == 0, None
        while not self._stop.is_set():
            self._think()
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
