"""Figure 2: the same cached answer with 100 connections that each keep 10 requests in flight."""
from . import cached

LIMIT_US = 2.5


def run(lab):
    samples = lab.run_rounds("pipelined", cached.variants(lab, connections=100, depth=10))
    lab.print_table("**Cached 200-byte JSON, 100 connections × 10 pipelined** (server on core 0, load on core 1)", samples,
                    [*cached.COLUMNS, ("× floor", lambda name: cached.ratio(samples, name, cached.FLOOR))])
    lab.figure("cached, 100 × 10 pipelined: CPU per request", LIMIT_US, " µs", samples.values(cached.OURS, "server_us"),
               errors=samples.errors(cached.OURS))
