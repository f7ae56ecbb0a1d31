"""The modules that data/commands/modules.toml describes: a trait of typed methods for each."""

from dataclasses import dataclass


@dataclass
class Module:
    group: str
    trait: str
    prefixes: tuple
    what: str
    needs: str
    # Calls for the example.
    calls: tuple

    def has(self, name):
        return name.startswith(self.prefixes)


MODULES = (
    Module(
        "json", "JsonCommands", ("JSON.",), "JSON documents",
        "the module RedisJSON (a part of Redis Stack and Redis 8) or valkey-json",
        (
            'client.json_set("user:1", "$", r#"{"born":1815}"#).await?;',
            'client.json_numincrby("user:1", "$.born", 1).await?;',
        ),
    ),
    Module(
        "search", "SearchCommands", ("FT.",), "Search and indexes of hashes and JSON documents",
        "the module RediSearch (a part of Redis Stack and Redis 8) or valkey-search",
        ('let found = client.ft_search("users", "ada").await?;', 'println!("{} documents", found.documents.len());'),
    ),
    Module(
        "time_series", "TimeSeriesCommands", ("TS.",), "Time series",
        "the module RedisTimeSeries (a part of Redis Stack and Redis 8)",
        ('client.ts_add("room:1", "*", 20.5).await?;', 'let samples = client.ts_range("room:1", "-", "+").await?;'),
    ),
    Module(
        "bloom", "BloomCommands", ("BF.", "CF.", "CMS.", "TDIGEST.", "TOPK."),
        "Bloom and cuckoo filters, count-min sketches, top-k lists and t-digests",
        "the module RedisBloom (a part of Redis Stack and Redis 8), or for Bloom filters valkey-bloom",
        ('client.bf_add("seen", "page").await?;', 'let was_seen = client.bf_exists("seen", "page").await?;'),
    ),
    Module(
        "vector_set", "VectorSetCommands", ("V",), "Vector sets", "Redis 8 or newer",
        (
            'let size = client.vcard("words").await?;',
            'let near = client.vsim("words", VectorQuery::element("cat")).await?;',
        ),
    ),
)  # fmt: skip
