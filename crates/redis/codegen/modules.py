"""The modules that data/commands/modules.toml describes: a trait of typed methods for each."""

from dataclasses import dataclass


@dataclass
class Module:
    group: str
    trait: str
    prefixes: tuple
    what: str
    needs: str

    def has(self, name):
        return name.startswith(self.prefixes)


MODULES = (
    Module(
        "json", "JsonCommands", ("JSON.",), "JSON documents",
        "the module RedisJSON (a part of Redis Stack and Redis 8) or valkey-json",
    ),
    Module(
        "search", "SearchCommands", ("FT.",), "Search and indexes of hashes and JSON documents",
        "the module RediSearch (a part of Redis Stack and Redis 8) or valkey-search",
    ),
    Module(
        "time_series", "TimeSeriesCommands", ("TS.",), "Time series",
        "the module RedisTimeSeries (a part of Redis Stack and Redis 8)",
    ),
    Module(
        "bloom", "BloomCommands", ("BF.", "CF.", "CMS.", "TDIGEST.", "TOPK."),
        "Bloom and cuckoo filters, count-min sketches, top-k lists and t-digests",
        "the module RedisBloom (a part of Redis Stack and Redis 8), or for Bloom filters valkey-bloom",
    ),
    Module("vector_set", "VectorSetCommands", ("V",), "Vector sets", "Redis 8 or newer"),
)  # fmt: skip
