"""redis-py through a tunnel: arguments are the mode, and the host:port of the tunnel. Prints READY, works until a line comes in, then says what it saw."""

import sys
import threading
import time

import redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

mode, address = sys.argv[1:3]
host, port = address.rsplit(":", 1)
port = int(port)
retry = Retry(ConstantBackoff(0.1), 100)


def connect(protocol):
    if mode == "pinned":
        return RedisCluster(startup_nodes=[ClusterNode(host, port)], protocol=protocol, socket_timeout=20)
    return redis.Redis(host, port, protocol=protocol, password="of another server", socket_timeout=20, retry=retry)


def check(found, expected):
    if found != expected:
        raise SystemExit(f"found {found!r}, expected {expected!r}")


def features(protocol):
    client = connect(protocol)
    big = bytes(range(256)) * (10 * 1024 * 1024 // 256)
    client.set("py:big", big)
    check(client.get("py:big"), big)
    client.hset("py:h", mapping={"a": 1, "b": 2})
    check(client.hgetall("py:h"), {b"a": b"1", b"b": b"2"})
    client.delete("{py}z")
    client.zadd("{py}z", {"x": 1.5, "y": 2})
    check(client.zrange("{py}z", 0, -1, withscores=True), [(b"x", 1.5), (b"y", 2.0)] if protocol == 2 else [[b"x", 1.5], [b"y", 2.0]])
    pipe = client.pipeline(transaction=True)
    pipe.set("{py}n", 1).incr("{py}n").get("{py}n")
    # Its cluster client does not parse the first one.
    check(pipe.execute()[1:], [2, b"2"])
    if mode == "smart":
        client.mset({f"py:{n}": n for n in range(50)})
        check(client.mget([f"py:{n}" for n in range(50)]), [str(n).encode() for n in range(50)])
        check(len(set(client.scan_iter("py:[0-9]*", count=5))), 50)
        with client.pipeline() as pipe:
            pipe.watch("{py}n")
            client.set("{py}n", 7)
            pipe.multi()
            pipe.incr("{py}n")
            try:
                pipe.execute()
                raise SystemExit("a watched key was changed")
            except redis.WatchError:
                pass
        pipe = client.pipeline(transaction=False)
        for n in range(5000):
            pipe.set(f"py:{n % 50}", "x" * 500).get(f"py:{n % 50}")
        check(pipe.execute()[1::2], [b"x" * 500] * 5000)
    client.delete("{py}q")
    threading.Timer(0.2, lambda: client.rpush("{py}q", "late")).start()
    check([bytes(part) for part in client.blpop("{py}q", 10)], [b"{py}q", b"late"])
    subscription = client.pubsub()
    subscription.subscribe("py:news")
    while subscription.get_message(timeout=10)["type"] != "subscribe":
        pass
    client.publish("py:news", "hello")
    message = subscription.get_message(timeout=10)
    check((message["type"], message["data"]), ("message", b"hello"))
    subscription.close()
    check(client.script_load("return 1") if mode == "smart" else "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")


for protocol in (2, 3):
    features(protocol)

client = connect(3)
stop = threading.Event()
counted = {}


def count(key):
    done = maybe = 0
    while not stop.is_set():
        try:
            client.incr(key)
            done += 1
        except redis.RedisError:
            maybe += 1
            time.sleep(0.02)
    counted[key] = (done, maybe)


keys = [f"py:count:{n}" for n in range(8)]
client_values = [client.set(key, 0) for key in keys]
threads = [threading.Thread(target=count, args=(key,)) for key in keys]
for thread in threads:
    thread.start()
print("READY", flush=True)
sys.stdin.readline()
stop.set()
for thread in threads:
    thread.join()
for key, (done, maybe) in counted.items():
    now = int(client.get(key))
    # A retry of redis-py's own may count twice what was in doubt.
    if not (done > 0 and done <= now and (mode == "pinned" or now <= done + maybe + 100)):
        raise SystemExit(f"{key}: {done} done, {maybe} in doubt, {now} counted")
print("DONE", {key: value for key, value in counted.items()}, flush=True)
