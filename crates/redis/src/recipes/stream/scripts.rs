//! What is done in the server in one step.

use crate::client::Script;

/// The scripts of a consumer.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) keep: Script,
    pub(super) bury: Script,
    pub(super) forget: Script,
    pub(super) trim: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self { keep: Script::new(KEEP), bury: Script::new(BURY), forget: Script::new(FORGET), trim: Script::new(TRIM) }
    }
}

/// `ARGV`: group, consumer, ids. Keeps those from being idle that are the consumer's still, and answers the others.
const KEEP: &str = "
local gone = {}
for i = 3, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if #pending == 1 and pending[1][2] == ARGV[2] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
  else
    gone[#gone + 1] = ARGV[i]
  end
end
return gone
";

/// `KEYS`: the stream, that of dead letters. `ARGV`: group, consumer, id, most entries (or empty). Answers 1 if the
/// entry was the consumer's still: then it is a dead letter, and acknowledged.
const BURY: &str = "
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)
if #pending == 0 or pending[1][2] ~= ARGV[2] then return 0 end
local entry = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])[1]
if entry then
  local words = { 'XADD', KEYS[2] }
  if ARGV[4] ~= '' then
    for _, word in ipairs({ 'MAXLEN', '~', ARGV[4] }) do words[#words + 1] = word end
  end
  words[#words + 1] = '*'
  for _, word in ipairs(entry[2]) do words[#words + 1] = word end
  local more = {
    'dead-letter:stream', KEYS[1], 'dead-letter:group', ARGV[1],
    'dead-letter:id', ARGV[3], 'dead-letter:deliveries', pending[1][4],
  }
  for _, word in ipairs(more) do words[#words + 1] = word end
  redis.call(unpack(words))
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
return 1
";

/// `ARGV`: group, a consumer (or empty), time (ms). Deletes that one, and those that were not heard of for so long;
/// none that has anything pending, as that would be lost.
const FORGET: &str = "
local forgotten = 0
for _, facts in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local of = {}
  for i = 1, #facts, 2 do of[facts[i]] = facts[i + 1] end
  if of.pending == 0 and (of.name == ARGV[2] or of.idle >= tonumber(ARGV[3])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], of.name)
    forgotten = forgotten + 1
  end
end
return forgotten
";

/// `ARGV`: entries to keep, 0 for none. Deletes what lies before the first entry that some group has not acknowledged,
/// a thousand entries at a time if some are to be kept. Ids are decimal numbers of up to 64 bits: they are compared by
/// their digits, as doubles are too short.
const TRIM: &str = "
local function below(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if a_ms == b_ms then a_ms, b_ms = a_seq, b_seq end
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  return a_ms < b_ms
end
local function after(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  if #seq > 15 then return id end
  return ms .. '-' .. string.format('%.0f', seq + 1)
end
local first
for _, facts in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local of = {}
  for i = 1, #facts, 2 do of[facts[i]] = facts[i + 1] end
  local wanted = after(of['last-delivered-id'])
  if of.pending > 0 then
    local lowest = redis.call('XPENDING', KEYS[1], of.name)[2]
    if below(lowest, wanted) then wanted = lowest end
  end
  if not first or below(wanted, first) then first = wanted end
end
if not first then return 0 end
local keep = tonumber(ARGV[1])
if keep > 0 then
  local surplus = math.min(redis.call('XLEN', KEYS[1]) - keep, 1000)
  if surplus <= 0 then return 0 end
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', surplus + 1)
  local kept = oldest[#oldest][1]
  if below(kept, first) then first = kept end
end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', first)
";
