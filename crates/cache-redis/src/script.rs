//! What Redis does in one step: a write that happens only if nobody has written or invalidated the target since it was
//! read, and one more of a rate.

use std::sync::LazyLock;

use pilotlight_redis::{Command, Script};

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

/// A command that writes as the tier does, under a name of its own below `prefix`, which is gone after a second. Its
/// reply is 1. For those who ask whether a user may do that, and a server does it.
#[must_use]
pub fn write_probe<'a>(prefix: &str) -> Command<'a> {
    let name = format!("{prefix}:probe:{{{:016x}}}", fastrand::u64(..));
    let call = WRITE.command().key(name.clone()).key(name.clone()).key(name.clone()).key(name);
    call.arg("").arg("probe").arg("").arg("").arg(1000).arg("").build()
}

/// Keys: the lease. Arguments: who holds it.
pub(crate) static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
});

/// One of several gateways takes the run of a schedule (docs/adr/0061). Keys: the schedule's. Arguments: the second at
/// which it was due, nothing for a run by hand; who asks; milliseconds that the run is held without being renewed;
/// milliseconds for which it is known what was dealt with. Its reply: 1, the run is theirs; 2, another has dealt with
/// that second or a later one; 3, a run is under way elsewhere, and that second is dealt with.
pub(crate) static TAKE_RUN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local now = redis.call('TIME') \
         local now_ms = now[1] * 1000 + math.floor(now[2] / 1000) \
         local known = redis.call('HMGET', KEYS[1], 'dealt', 'holder', 'until') \
         local due = tonumber(ARGV[1]) \
         if due and known[1] and tonumber(known[1]) >= due and known[2] ~= ARGV[2] then return 2 end \
         if due then redis.call('HSET', KEYS[1], 'dealt', ARGV[1]) end \
         redis.call('PEXPIRE', KEYS[1], ARGV[4]) \
         if known[3] and tonumber(known[3]) > now_ms and known[2] ~= ARGV[2] then return 3 end \
         redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'until', string.format('%.0f', now_ms + ARGV[3])) \
         redis.call('PEXPIRE', KEYS[1], ARGV[4]) \
         return 1",
    )
});

/// Keys: the schedule's. Arguments: who holds its run; milliseconds that it is held from now on, 0 at its end. Its
/// reply: 1 if it was theirs.
pub(crate) static HOLD_RUN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return 0 end \
         local now = redis.call('TIME') \
         redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2])) \
         return 1",
    )
});

/// One more of a rate, by the generic cell rate algorithm and the server's clock. Keys: what is counted together.
/// Arguments: what one costs, and how far ahead of the present all may be paid for, in nanoseconds. Its reply: 1 if it
/// is admitted, else 0; how far ahead of the present all is paid for then, in nanoseconds.
///
/// The value is the moment until which all is paid for, in seconds with nine digits behind the point. It is read and
/// written in two parts, as a double has no room for nanoseconds since 1970. A value that is further ahead than the
/// burst was written before the clock was set back; it would refuse everybody until the clock is there again.
pub(crate) static RATE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local cost, most = tonumber(ARGV[1]), tonumber(ARGV[2]) \
         local now = redis.call('TIME') \
         local seconds, ns = tonumber(now[1]), tonumber(now[2]) * 1000 \
         local ahead, is_later = 0, false \
         local paid = redis.call('GET', KEYS[1]) \
         if paid then \
           local paid_seconds, paid_ns = string.match(paid, '^(%d+)%.(%d+)$') \
           if paid_seconds then ahead = (paid_seconds - seconds) * 1e9 + (paid_ns - ns) end \
           if ahead < 0 then ahead = 0 elseif ahead > most then ahead, is_later = most, true end \
         end \
         local is_admitted = ahead + cost <= most \
         if is_admitted then ahead = ahead + cost end \
         if is_admitted or is_later then \
           local until_ns = ns + ahead \
           local more = math.floor(until_ns / 1e9) \
           local value = string.format('%.0f.%09.0f', seconds + more, until_ns - more * 1e9) \
           redis.call('SET', KEYS[1], value, 'PX', math.max(1, math.ceil(ahead / 1e6))) \
         end \
         return { is_admitted and 1 or 0, ahead }",
    )
});
