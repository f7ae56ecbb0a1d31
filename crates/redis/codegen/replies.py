"""Reply types: those that the reply schema cannot tell, and the methods of commands whose options change the type.

A command's methods: "" is the plain one, "with" takes all other options, "x" is the plain one with option x given, "x_with" both.
"""

SCORED = "Vec<(Bytes, f64)>"
POPPED = "Option<(Bytes, Vec<Bytes>)>"
POPPED_SCORED = "Option<ScoredPop>"
ENTRIES = "Vec<StreamEntry>"
STREAMS = "Option<Vec<StreamEntries>>"
FACTS = "Facts"
TEXTS = "HashMap<Bytes, Bytes>"

REPLIES = {
    "ACL CAT": "Vec<String>", "ACL DRYRUN": "Bytes", "ACL GENPASS": "String", "ACL LIST": "Vec<String>", "ACL USERS": "Vec<String>",
    "CLIENT GETNAME": "Option<String>", "FUNCTION LOAD": "String", "ACL GETUSER": f"Option<{FACTS}>", "ACL WHOAMI": "String", "BGREWRITEAOF": "String", "BGSAVE": "String",
    "BLPOP": "Option<(Bytes, Bytes)>", "BRPOP": "Option<(Bytes, Bytes)>", "BLMPOP": POPPED, "LMPOP": POPPED,
    "BZPOPMAX": "Option<(Bytes, Bytes, f64)>", "BZPOPMIN": "Option<(Bytes, Bytes, f64)>", "BZMPOP": POPPED_SCORED,
    "ZMPOP": POPPED_SCORED, "ZPOPMAX": SCORED, "ZPOPMIN": SCORED,
    "CLIENT INFO": "String", "CLIENT LIST": "String", "CLUSTER INFO": "String", "CLUSTER MYID": "String",
    "CLUSTER MYSHARDID": "String", "CLUSTER NODES": "String", "CLUSTER REPLICAS": "Vec<String>", "CLUSTER SLAVES": "Vec<String>",
    "CLUSTER BUMPEPOCH": "String", "CLUSTER SLOT-STATS": f"Vec<(i64, {FACTS})>",
    "CLUSTER CANCELSLOTMIGRATIONS": "()", "CLUSTER FLUSHSLOT": "()", "CLUSTER GETSLOTMIGRATIONS": f"Vec<{FACTS}>",
    "CLUSTER MIGRATESLOTS": "()", "CLUSTERSCAN": "(Bytes, Vec<Bytes>)", "COMMANDLOG GET": "Vec<Vec<Value>>",
    "COMMANDLOG LEN": "i64", "COMMANDLOG RESET": "()",
    "COMMAND": "Vec<Value>", "COMMAND DOCS": FACTS, "COMMAND GETKEYSANDFLAGS": "Vec<(Bytes, HashSet<Bytes>)>",
    "COMMAND INFO": "Vec<Option<Vec<Value>>>", "COMMAND LIST": "Vec<String>",
    "GEODIST": "Option<f64>", "GEOHASH": "Vec<Option<Bytes>>", "GEOPOS": "Vec<Option<GeoPosition>>",
    "HINCRBYFLOAT": "f64", "INCRBYFLOAT": "f64", "INFO": "String", "LMOVE": "Option<Bytes>",
    "LATENCY DOCTOR": "String", "LATENCY GRAPH": "String", "LATENCY HISTOGRAM": FACTS, "LATENCY HISTORY": "Vec<(i64, i64)>",
    "LATENCY LATEST": "Vec<(Bytes, i64, i64, i64)>", "LOLWUT": "String", "MEMORY DOCTOR": "String", "MEMORY MALLOC-STATS": "String",
    "MEMORY USAGE": "Option<i64>", "MIGRATE": "String", "OBJECT ENCODING": "Option<String>", "OBJECT FREQ": "Option<i64>",
    "OBJECT IDLETIME": "Option<i64>", "OBJECT REFCOUNT": "Option<i64>", "PING": "Bytes", "PUBSUB NUMSUB": "HashMap<Bytes, i64>",
    "PUBSUB SHARDNUMSUB": "HashMap<Bytes, i64>", "REPLICAOF": "String", "ROLE": "Vec<Value>", "SCAN": "ScanReply<Bytes>",
    "SCRIPT LOAD": "String", "SENTINEL CKQUORUM": "String", "SENTINEL GET-MASTER-ADDR-BY-NAME": "Option<(String, u16)>",
    "SENTINEL GET-PRIMARY-ADDR-BY-NAME": "Option<(String, u16)>", "SENTINEL MYID": "String", "SLAVEOF": "String",
    "SLOWLOG GET": "Vec<Vec<Value>>", "SSCAN": "ScanReply<Bytes>", "TIME": "(i64, i64)", "TYPE": "String", "WAITAOF": "(i64, i64)",
    "XRANGE": ENTRIES, "XREVRANGE": ENTRIES, "XREAD": STREAMS, "XREADGROUP": STREAMS, "XINFO STREAM": FACTS,
    "ZMSCORE": "Vec<Option<f64>>",
    **{name: "Value" for name in ("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO")},
}  # fmt: skip


def plain_and_with(plain, rich=None):
    return {"": plain, "with": rich or plain}


def with_word(word, plain, rich):
    """All four methods: the word `word` changes the reply from `plain` to `rich`."""
    return {"": plain, "with": plain, word: rich, f"{word}_with": rich}


def count_of(one, many):
    return {"": one, "count": many}


METHODS = {
    "ACL LOG": {"": f"Vec<{FACTS}>", "count": f"Vec<{FACTS}>", "reset": "()"},
    "BITFIELD": {"with": "Vec<Option<i64>>"},
    "BITFIELD_RO": {"with": "Vec<i64>"},
    "CLIENT KILL": {"with": "i64"},
    "GEORADIUS": {**plain_and_with("Vec<Bytes>", "Vec<GeoFound>"), "store": "i64", "storedist": "i64"},
    "GEORADIUSBYMEMBER": {**plain_and_with("Vec<Bytes>", "Vec<GeoFound>"), "store": "i64", "storedist": "i64"},
    "GEORADIUSBYMEMBER_RO": plain_and_with("Vec<Bytes>", "Vec<GeoFound>"),
    "GEORADIUS_RO": plain_and_with("Vec<Bytes>", "Vec<GeoFound>"),
    "GEOSEARCH": plain_and_with("Vec<Bytes>", "Vec<GeoFound>"),
    "HRANDFIELD": {"": "Option<Bytes>", "count": "Vec<Bytes>", "count_withvalues": "Vec<(Bytes, Bytes)>"},
    "HSCAN": with_word("novalues", "ScanReply<(Bytes, Bytes)>", "ScanReply<Bytes>"),
    "LCS": {"": "Bytes", "len": "i64", "idx_with": FACTS},
    "LPOP": count_of("Option<Bytes>", "Option<Vec<Bytes>>"),
    "LPOS": with_word("count", "Option<i64>", "Vec<i64>"),
    "RPOP": count_of("Option<Bytes>", "Option<Vec<Bytes>>"),
    "SET": {"": "()", "with": "bool", "get": "Option<Bytes>", "get_with": "Option<Bytes>"},
    "SORT": {**plain_and_with("Vec<Option<Bytes>>"), "store": "i64", "store_with": "i64"},
    "SPOP": count_of("Option<Bytes>", "HashSet<Bytes>"),
    "SRANDMEMBER": count_of("Option<Bytes>", "Vec<Bytes>"),
    "SHUTDOWN": {"": "()", "with": "()"},
    "XADD": plain_and_with("Bytes", "Option<Bytes>"),
    "XAUTOCLAIM": with_word("justid", "AutoClaimed<StreamEntry>", "AutoClaimed<Bytes>"),
    "XCLAIM": with_word("justid", ENTRIES, "Vec<Bytes>"),
    "XPENDING": plain_and_with("PendingSummary", "Vec<PendingEntry>"),
    "ZADD": {**plain_and_with("i64"), "incr": "Option<f64>", "incr_with": "Option<f64>"},
    "ZDIFF": {"": "Vec<Bytes>", "withscores": SCORED},
    "ZINTER": with_word("withscores", "Vec<Bytes>", SCORED),
    "ZRANDMEMBER": {"": "Option<Bytes>", "count": "Vec<Bytes>", "count_withscores": SCORED},
    "ZRANGE": with_word("withscores", "Vec<Bytes>", SCORED),
    "ZRANGEBYSCORE": with_word("withscores", "Vec<Bytes>", SCORED),
    "ZRANK": {"": "Option<i64>", "withscore": "Option<(i64, f64)>"},
    "ZREVRANGE": {"": "Vec<Bytes>", "withscores": SCORED},
    "ZREVRANGEBYSCORE": with_word("withscores", "Vec<Bytes>", SCORED),
    "ZREVRANK": {"": "Option<i64>", "withscore": "Option<(i64, f64)>"},
    "ZSCAN": with_word("noscores", "ScanReply<(Bytes, f64)>", "ScanReply<Bytes>"),
    "ZUNION": with_word("withscores", "Vec<Bytes>", SCORED),
}


def reply_of(name, schema):
    """The Rust type of a command's reply."""
    return REPLIES.get(name) or of_schema(schema or {})


def of_schema(schema):
    forms = schema.get("anyOf") or schema.get("oneOf") or [schema]
    kinds = {of_form(form) for form in forms}
    optional = "null" in kinds
    kinds.discard("null")
    if kinds <= {"0", "1"} and kinds:
        kind = "bool"
    elif kinds <= {"0", "1", "i64"}:
        kind = "i64"
    elif len(kinds) == 1:
        kind = kinds.pop()
    else:
        kind = "Value"
    return f"Option<{kind}>" if optional and kind != "Value" else kind


def of_form(form):
    if "anyOf" in form or "oneOf" in form:
        return of_schema(form)
    if "const" in form:
        const = form["const"]
        return "()" if isinstance(const, str) else str(const) if const in (0, 1) else "i64"
    if form.get("type") == "array":
        items = form.get("items")
        if not isinstance(items, dict):
            return "Value"
        item = of_schema(items)
        return "Vec<Value>" if item == "()" else f"Vec<{item}>"
    if form.get("type") == "object":
        extra = form.get("additionalProperties")
        return TEXTS if isinstance(extra, dict) and extra.get("type") == "string" else FACTS
    return {"null": "null", "integer": "i64", "string": "Bytes", "number": "f64"}.get(form.get("type"), "Value")
