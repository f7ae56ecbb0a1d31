"""What the servers' files do not say: corrections of keys, time-outs, reply types and names. Each table is keyed by command."""

# Commands that change what their connection is; they have APIs of their own or none, and must not run on a shared one.
CONNECTION_STATE = {
    "CLIENT IMPORT-SOURCE",
    "ASKING", "AUTH", "CLIENT CACHING", "CLIENT CAPA", "CLIENT NO-EVICT", "CLIENT NO-TOUCH", "CLIENT REPLY", "CLIENT SETINFO",
    "CLIENT SETNAME", "CLIENT TRACKING", "DISCARD", "EXEC", "HELLO", "MONITOR", "MULTI", "PSUBSCRIBE", "PSYNC", "PUNSUBSCRIBE",
    "QUIT", "READONLY", "READWRITE", "REPLCONF", "RESET", "SCRIPT DEBUG", "SELECT", "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE",
    "SYNC", "UNSUBSCRIBE", "UNWATCH", "WATCH",
}  # fmt: skip

# What a server answers while a script or function keeps it busy, and that ends it or tells of it.
WHILE_BUSY = {"FUNCTION KILL", "FUNCTION STATS", "SCRIPT KILL", "SHUTDOWN"}

# They run what somebody else wrote, and may answer with any code after it has written.
RUNS_CODE = {"EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO"}

# Not for applications: no typed method. `HELP` subcommands have none either, their reply is for people.
INTERNAL = {
    "CLUSTER SYNCSLOTS",
    "DEBUG", "PFDEBUG", "PFSELFTEST", "RESTORE-ASKING", "SENTINEL CONFIG", "SENTINEL DEBUG", "SENTINEL IS-MASTER-DOWN-BY-ADDR",
    "SENTINEL IS-PRIMARY-DOWN-BY-ADDR", "SENTINEL SIMULATE-FAILURE",
}  # fmt: skip

# They change nothing, so they may be repeated; the servers flag as read-only only what reads keys.
HARMLESS = {
    "ACL CAT", "ACL DRYRUN", "ACL GENPASS", "ACL GETUSER", "ACL LIST", "ACL USERS", "ACL WHOAMI", "CLIENT GETNAME",
    "CLIENT GETREDIR", "CLIENT ID", "CLIENT INFO", "CLIENT LIST", "CLIENT TRACKINGINFO", "CLUSTER COUNT-FAILURE-REPORTS",
    "CLUSTER COUNTKEYSINSLOT", "CLUSTER GETKEYSINSLOT",
    "CLUSTER GETSLOTMIGRATIONS", "CLUSTER INFO", "CLUSTER KEYSLOT", "CLUSTER LINKS", "CLUSTER MYID",
    "CLUSTER MYSHARDID", "CLUSTER NODES", "CLUSTER REPLICAS", "CLUSTER SHARDS", "CLUSTER SLAVES", "CLUSTER SLOT-STATS",
    "CLUSTER SLOTS", "COMMAND", "COMMAND COUNT", "COMMAND DOCS", "COMMAND GETKEYS", "COMMAND GETKEYSANDFLAGS", "COMMAND INFO",
    "COMMAND LIST", "COMMANDLOG GET", "COMMANDLOG LEN",
    "CONFIG GET", "ECHO", "FUNCTION DUMP", "FUNCTION LIST", "FUNCTION STATS", "INFO", "LASTSAVE",
    "LATENCY DOCTOR", "LATENCY GRAPH", "LATENCY HISTOGRAM", "LATENCY HISTORY", "LATENCY LATEST", "MEMORY DOCTOR",
    "MEMORY MALLOC-STATS", "MEMORY STATS", "MODULE LIST", "PING", "PUBSUB CHANNELS", "PUBSUB NUMPAT", "PUBSUB NUMSUB",
    "PUBSUB SHARDCHANNELS", "PUBSUB SHARDNUMSUB", "ROLE", "SCRIPT EXISTS", "SCRIPT SHOW", "SENTINEL CKQUORUM",
    "SENTINEL GET-MASTER-ADDR-BY-NAME", "SENTINEL GET-PRIMARY-ADDR-BY-NAME", "SENTINEL INFO-CACHE", "SENTINEL MASTER",
    "SENTINEL MASTERS", "SENTINEL MYID", "SENTINEL PENDING-SCRIPTS", "SENTINEL PRIMARIES", "SENTINEL PRIMARY",
    "SENTINEL REPLICAS", "SENTINEL SENTINELS", "SENTINEL SLAVES", "SLOWLOG GET", "SLOWLOG LEN", "TIME",
}  # fmt: skip

# Where the files' key specifications are unknown or incomplete: Rust, positions after the name.
INDEX_0 = "index(0, 0, 1, 0)"
KEYS = {
    # BY and GET name patterns of keys, which only the server can resolve.
    "SORT": [INDEX_0, 'keyword("STORE", 1, 0, 1, 0)'],
    "SORT_RO": [INDEX_0],
    # With KEYS the key argument is empty.
    "MIGRATE": ['keyword("KEYS", -2, -1, 1, 0)', "unless_empty(2)"],
}
MOVABLE_KEYS = set(KEYS)

# Where a blocking command says how long it waits.
BLOCKING = {
    "BLMOVE": "Seconds(-1)", "BLMPOP": "Seconds(0)", "BLPOP": "Seconds(-1)", "BRPOP": "Seconds(-1)",
    "BRPOPLPUSH": "Seconds(-1)", "BZMPOP": "Seconds(0)", "BZPOPMAX": "Seconds(-1)", "BZPOPMIN": "Seconds(-1)",
    "WAIT": "Milliseconds(1)", "WAITAOF": "Milliseconds(2)", "XREAD": 'MillisecondsAfter("BLOCK")',
    "XREADGROUP": 'MillisecondsAfter("BLOCK")',
}  # fmt: skip

# Method names that are not the command's words.
METHODS = {"MOVE": "move_key", "TYPE": "key_type"}

# Names of parameters and options that would be Rust keywords or say too little.
NAMES = {
    "type": "key_type", "match": "matching", "where": "side", "ID": "id", "=": "exactly", "~": "approximately",
    "filters": "range", "wherefrom": "from", "whereto": "to", "options": "mode", "flush-type": "mode", "reset-type": "mode",
    "unblock-type": "mode", "overflow-block": "overflow", "subcommand": "state", "cluster-bus-port": "bus_port",
    "num-matches": "max_matches", "shardchannel": "channel",
}  # fmt: skip

# Sets of words that are a type.
ENUMS = {
    ("LEFT", "RIGHT"): ("Side", "An end of a list."),
    ("MIN", "MAX"): ("Extreme", "The members with the lowest or the highest scores."),
    ("BEFORE", "AFTER"): ("Place", "On which side of the pivot."),
    ("m", "km", "ft", "mi"): ("GeoUnit", "A unit of length."),
    ("AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE"): ("BitOperation", "An operation on all bits."),
    ("BYTE", "BIT"): ("BitUnit", "What positions count."),
    ("NX", "XX", "GT", "LT"): ("ExpireCondition", "When a time to live is set."),
    ("ASYNC", "SYNC"): ("FlushMode", "Whether memory is freed in the background."),
    ("FORCE", "TAKEOVER"): ("FailoverMode", "How a replica takes over."),
    ("HARD", "SOFT"): ("ResetMode", "How much of a node's state is forgotten."),
    ("WRITE", "ALL"): ("PauseMode", "Which commands pause."),
    ("TIMEOUT", "ERROR"): ("UnblockMode", "What a blocked client is told."),
    ("FLUSH", "APPEND", "REPLACE"): ("RestorePolicy", "What becomes of functions that exist."),
    ("SCHEDULE", "CANCEL"): ("BgsaveMode", "When to save."),
    ("YES", "NO"): ("Decision", "Yes or no."),
    ("MAXLEN", "MINID"): ("TrimStrategy", "What the threshold of a trimmed stream is: its length or its lowest id."),
    ("WRAP", "SAT", "FAIL"): ("Overflow", "What happens when a bit field overflows."),
    ("SUM", "MIN", "MAX"): ("Aggregate", "How scores of one member are combined."),
    ("KEEPREF", "DELREF", "ACKED"): ("ReferencePolicy", "What becomes of references to a deleted stream entry."),
    ("HASH", "JSON"): ("IndexOn", "What an index is of."),
    ("SEARCH", "AGGREGATE"): ("QueryKind", "What command a query is of."),
    ("COMPRESSED", "UNCOMPRESSED"): ("SeriesEncoding", "How samples are kept."),
    ("SLOW", "LARGE-REQUEST", "LARGE-REPLY"): ("CommandLog", "Why a command is logged: its time, size, or reply's size."),
    ("normal", "master", "primary", "slave", "replica", "pubsub"): ("ClientType", "A kind of connection."),
}
VARIANT_NAMES = {
    "LARGE-REQUEST": "LargeRequest", "LARGE-REPLY": "LargeReply",
    "m": "Metres", "km": "Kilometres", "ft": "Feet", "mi": "Miles",
}  # fmt: skip

# Choices of which one must be made and that are more than a word: the type, and what it is.
SELECTORS = {
    ("GEOSEARCH", "from"): ("GeoOrigin", "The centre of a search."),
    ("GEOSEARCH", "by"): ("GeoArea", "The area of a search."),
    ("CLUSTER SETSLOT", "subcommand"): ("SlotState", "What becomes of a slot."),
    ("VADD", "vector"): ("Vector", "A vector: its numbers, or their bytes (little-endian, four each)."),
    ("VSIM", "query"): ("VectorQuery", "What is searched: an element, or a vector."),
    ("CLUSTER SLOT-STATS", "filter"): ("SlotStatsFilter", "Which slots to report."),
}
SELECTORS[("GEOSEARCHSTORE", "from")] = SELECTORS[("GEOSEARCH", "from")]
SELECTORS[("GEOSEARCHSTORE", "by")] = SELECTORS[("GEOSEARCH", "by")]
SELECTOR_METHODS = {
    "ele": "element",
    "fromlonlat": "lonlat", "frommember": "member", "byradius": "radius", "bybox": "rectangle",
}  # fmt: skip

# Types of numbers, by the files' type and what the name contains: the first that fits.
NUMBERS = {
    "integer": {
        "min-idle-time": "IdleMilliseconds", "milliseconds": "Milliseconds", "seconds": "Seconds",
        "timeout": "Milliseconds", "": "Integer",
    },
    "unix-time": {"milliseconds": "UnixMilliseconds", "": "UnixSeconds"},
    "double": {"timeout": "WaitSeconds", "": "Number"},
}  # fmt: skip

# Types of parameters where the files' type is too narrow (scores take `(1` and `-inf`) or too wide.
PARAMETERS = {
    "cursor": "u64", "min-idle-time": "IdleMilliseconds", "port": "u16", "cluster-bus-port": "u16", "slot": "u16",
    ("ZINCRBY", "increment"): "Number", ("XCLAIM", "ms"): "IdleMilliseconds",
    ("REPLICAOF", "port"): "arg", ("SLAVEOF", "port"): "arg",
    ("CLUSTERSCAN", "cursor"): "arg",
    **{(command, bound): "arg" for bound in ("min", "max")
       for command in ("ZCOUNT", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZREMRANGEBYSCORE")},
    **{(command, "weight"): "arg" for command in ("ZINTER", "ZUNION", "ZINTERSTORE", "ZUNIONSTORE")},
    ("BITFIELD", "offset"): "arg", ("BITFIELD_RO", "offset"): "arg",
}  # fmt: skip
