"""Whatever is done in whatever order under load: no wrong answer, no process left. 40 steps by default, 1,000 with SOAK=1 (`make soak`).

The seed is printed with a failure; SEED=N runs it again.
"""

import os
import random
import signal
import time
import unittest

from harness import ORIGIN, alive, descendants, route, service, setUpModule
from load import Load
from test_reload import pool
from test_upgrade import Upgrading

__all__ = ["setUpModule"]

SOAK = bool(os.environ.get("SOAK"))
STEPS = int(os.environ.get("STEPS", 1000 if SOAK else 40))
SEED = int(os.environ.get("SEED", 0)) or random.SystemRandom().randrange(1, 1 << 30)


class Cycles(Upgrading):
    def blocks(self, version):
        # Kills are failures; with the circuit open, all would be refused until one has tried.
        web = service("web", ORIGIN, transport="http", env={"V": str(version % 3)}, max_failures=100)
        settings = {"max_failures": 100} | ({"concurrency": 4, "max_instances": 2} if version % 2 else {})
        return (pool(env={"V": str(version % 5)}, **settings), route(service="pool"), web, route("/web", "web", strip_prefix=True))

    def test_cycles(self):
        chance, version, killed = random.Random(SEED), 0, 0
        gateway = self.begin(*self.blocks(0))
        seen = dict(descendants(gateway.process.pid))
        # A service that is killed cuts its answers: those are 502, or cut while they are sent, and nothing else is wrong.
        right = lambda answer: answer.status == 200 and (answer.body.isdigit() or answer.body.startswith(b"serial"))  # noqa: E731
        with Load(gateway.address, "/pid", 4, right) as load, Load(gateway.address, "/web/make", 2, right) as web:
            for step in range(STEPS):
                action = chance.choices(
                    ("reload", "settings", "restart", "stop", "start", "kill", "bad", "upgrade"), (4, 4, 3, 2, 2, 2, 1, 1)
                )[0]
                name = chance.choice(("pool", "web"))
                with self.subTest(seed=SEED, step=step, action=action, service=name):
                    if action == "kill":
                        killed += self.kill(gateway, name)
                    elif action == "bad":
                        self.reload(gateway, text="nonsense = \n", code=2)
                    elif action == "upgrade":
                        self.write(gateway, *self.blocks(version))  # it may be bad
                        self.upgrade(gateway)
                    elif action in ("reload", "settings"):
                        version += action == "settings"
                        self.reload(gateway, *self.blocks(version))
                    else:
                        self.command(gateway, action, name, "--no-wait")
                seen.update(descendants(self.status(gateway)["gateway"]["pid"]))
                time.sleep(chance.uniform(0, 0.05))  # another moment each time
        wrong = [one for one in load.errors + web.errors if not self.is_cut(one)]
        self.assertEqual(wrong, [], f"SEED={SEED}")
        # Each kill costs those that were with the instance: no more than there are clients.
        self.assertLessEqual(len(load.errors) + len(web.errors), killed * 6, f"SEED={SEED}: {load.errors[-3:]} {web.errors[-3:]}")
        self.assertGreater(load.count() + web.count(), STEPS, "there was no load")
        self.stop_all(gateway)
        self.assert_eventually(lambda: not alive(seen), f"left (SEED={SEED}): {alive(seen)}", 30)

    def is_cut(self, error):
        """What a client of a killed instance sees."""
        return isinstance(error, Exception) or error.status in (502, 503)

    def kill(self, gateway, name):
        instances = [one for one in self.service(gateway, name)["instances"] if one["pid"]]
        for one in instances:
            try:
                os.kill(one["pid"], signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(instances)

    def stop_all(self, gateway):
        self.stop_successor(gateway)
        if gateway.process.poll() is None:
            gateway.process.terminate()
            gateway.process.wait(30)


if __name__ == "__main__":
    unittest.main()
