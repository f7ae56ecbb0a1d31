//! A write that happens only if nobody has written or invalidated the target since it was read.

use std::sync::LazyLock;

use pilotlight_redis::Script;

/// Keys: the target's, that of the response (the same, if it does not vary), that of a body that is apart (or the
/// target's), the lease. Arguments: the generation that was read, nothing for none; the record of the target; the
/// record of the response, nothing if that is the same; the body that is apart, nothing for none; milliseconds to keep
/// them; who holds the lease, nothing for nobody.
///
/// The target's key is never kept shorter than it was: a tombstone's time goes over to the record that takes its place,
/// and a list of fields outlives all that it leads to. R-2: the generation of a record is its bytes 5 to 12.
pub(crate) static WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local done = 0 \
         if redis.call('GETRANGE', KEYS[1], 5, 12) == ARGV[1] then \
           local keep, left = tonumber(ARGV[5]), redis.call('PTTL', KEYS[1]) \
           if ARGV[4] ~= '' then redis.call('SET', KEYS[3], ARGV[4], 'PX', keep) end \
           if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[3], 'PX', keep) end \
           if left > keep then keep = left end \
           redis.call('SET', KEYS[1], ARGV[2], 'PX', keep) \
           done = 1 \
         end \
         if ARGV[6] ~= '' and redis.call('GET', KEYS[4]) == ARGV[6] then redis.call('DEL', KEYS[4]) end \
         return done",
    )
});

/// Keys: the lease. Arguments: who holds it.
pub(crate) static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
});
