/**
 * Every key begins with KEYS[1], a hash tag, so that a cluster keeps all of them on one shard:
 * `:event:<id>` a hash, `:json:<id>` the JSON of the event, `:history:<id>` a list of its attempts (keys of their
 * own, so that the hash stays compact); sorted sets of ids: `:in:<state>` by receivedAt, `:since:<state>` by
 * updatedAt, `:due` by dueAt, `:parked:<type>` by receivedAt, `:whole` by updatedAt (done events with JSON); `:poll`
 * a hash, with the state of the poller as JSON in one field. The empty id in `:due` shows that the set was not evicted; no event has it.
 *
 * `now` is the time of the server. Only `move` writes states, so that every index follows them.
 *
 * A Redis that is a cache can evict any key at any time. An event without its hash, or not done and without its
 * JSON, is forgotten. A script therefore takes no index's word: it compares each id with the event's hash.
 */
const PRELUDE = `
local base = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function text(number) return string.format('%.0f', number) end
local function eventKey(id) return base .. ':event:' .. id end
local function jsonKey(id) return base .. ':json:' .. id end
local function historyKey(id) return base .. ':history:' .. id end
local function get(id, field) return redis.call('HGET', eventKey(id), field) end

local function answer(list)
  if #list == 0 then return '[]' end
  return cjson.encode(list)
end

-- Redis runs nothing else meanwhile: a script that has corrected so many entries answers AGAIN and is run again.
local corrected, AGAIN = 0, '["again"]'
local function tired() return corrected >= 1000 end

-- Removes an id from the indexes of a state in which the event is not.
local function unlist(id, state)
  corrected = corrected + 1
  redis.call('ZREM', base .. ':in:' .. state, id)
  redis.call('ZREM', base .. ':since:' .. state, id)
end

local function forget(id)
  local eventType = get(id, 'type')
  if eventType then redis.call('ZREM', base .. ':parked:' .. eventType, id) end
  for _, state in ipairs({ 'received', 'leased', 'failed', 'done', 'dead', 'parked' }) do unlist(id, state) end
  redis.call('ZREM', base .. ':due', id)
  redis.call('ZREM', base .. ':whole', id)
  redis.call('DEL', eventKey(id), jsonKey(id), historyKey(id))
end

-- The state and dueAt of an event; nil when it is unknown or forgotten. A lease holds also without the JSON.
local function known(id)
  local found = redis.call('HMGET', eventKey(id), 'state', 'dueAt')
  local state, due = found[1], tonumber(found[2]) or 0
  if not state then return nil end
  if state == 'done' or (state == 'leased' and due > now) or redis.call('EXISTS', jsonKey(id)) == 1 then
    return state, due
  end
  forget(id)
  return nil
end

-- The same for an id of an index, which has to go if its event is unknown.
local function indexed(id)
  local state, due = known(id)
  if not state then forget(id) end
  return state, due
end

local function move(id, from, to, due)
  local key = eventKey(id)
  local at = redis.call('HMGET', key, 'receivedAt', 'type')
  if from ~= to then
    if from then
      redis.call('ZREM', base .. ':in:' .. from, id)
      redis.call('ZREM', base .. ':since:' .. from, id)
      if from == 'parked' then redis.call('ZREM', base .. ':parked:' .. at[2], id) end
    end
    redis.call('ZADD', base .. ':in:' .. to, at[1], id)
    if to == 'parked' then redis.call('ZADD', base .. ':parked:' .. at[2], at[1], id) end
    if to == 'done' then redis.call('ZADD', base .. ':whole', text(now), id) end
  end
  redis.call('ZADD', base .. ':since:' .. to, text(now), id)
  redis.call('HSET', key, 'state', to, 'updatedAt', text(now))
  if due then
    redis.call('HSET', key, 'dueAt', text(due))
    redis.call('ZADD', base .. ':due', text(due), id)
  else
    redis.call('HDEL', key, 'dueAt')
    redis.call('ZREM', base .. ':due', id)
  end
end

local function record(id, eventType, source, event)
  redis.call('HSET', eventKey(id), 'type', eventType, 'source', source, 'attempts', '0', 'receivedAt', text(now))
  redis.call('SET', jsonKey(id), event)
  redis.call('DEL', historyKey(id))
end

-- Adds the attempt of a leased event to its history. While it is leased, updatedAt is the time of its claim.
local function ended(id, at, result, err)
  local found = redis.call('HMGET', eventKey(id), 'attempts', 'updatedAt')
  local length = redis.call('RPUSH', historyKey(id), cjson.encode({ found[1], found[2], text(at), result, err }))
  if length > 10 then redis.call('LTRIM', historyKey(id), -10, -1) end
end

-- Ends the attempt of a lease that is not lost.
local function settle(id, token, to, due, err)
  local found = redis.call('HMGET', eventKey(id), 'state', 'token')
  if found[1] ~= 'leased' or found[2] ~= token then return '[]' end
  ended(id, now, to, err)
  move(id, 'leased', to, due)
  redis.call('HDEL', eventKey(id), 'token', 'lastError')
  if err then redis.call('HSET', eventKey(id), 'lastError', err) end
  return '["1"]'
end

-- By bytes, as a sorted set orders its members; Lua's own < goes by the server's locale.
local function before(a, b)
  for index = 1, math.min(#a, #b) do
    local left, right = string.byte(a, index), string.byte(b, index)
    if left ~= right then return left < right end
  end
  return #a < #b
end

-- The state of the poller, or what a release without that field has written: since and horizon.
local function pollState()
  local found = redis.call('HMGET', base .. ':poll', 'state', 'since', 'horizon')
  return answer({ found[1] or '', found[2] or '', found[3] or '' })
end

local function read(id)
  local fields = redis.call('HMGET', eventKey(id), 'type', 'state', 'attempts', 'source', 'receivedAt',
    'updatedAt', 'dueAt', 'lastError')
  table.insert(fields, 1, id)
  fields[#fields + 1] = redis.call('GET', jsonKey(id))
  -- As text: cjson writes an empty list as an object.
  fields[#fields + 1] = '[' .. table.concat(redis.call('LRANGE', historyKey(id), 0, -1), ',') .. ']'
  return fields
end
`;

/**
 * Each script is atomic. It returns a JSON array of strings, because the client of Upstash parses other
 * replies in its own way.
 */
const BODIES = {
  /** id, type, source, leaseMs, token, event, '1' if early → the state of the claim, and the attempt or the ms left */
  claim: `
local id, token = ARGV[1], ARGV[5]
local state, due = known(id)
if state == 'done' or state == 'dead' then return answer({ state, '0' }) end
if (state == 'leased' or (state == 'failed' and ARGV[7] ~= '1')) and due > now then
  return answer({ state, text(due - now) })
end
if not state then record(id, ARGV[2], ARGV[3], ARGV[6]) end
if state == 'leased' then ended(id, due, 'lapsed') end
move(id, state, 'leased', now + tonumber(ARGV[4]))
redis.call('HSET', eventKey(id), 'token', token)
return answer({ 'claimed', text(redis.call('HINCRBY', eventKey(id), 'attempts', 1)) })`,

  /** id, token → whether it was settled */
  complete: `
return settle(ARGV[1], ARGV[2], 'done')`,

  /** id, token, retryAfterMs or '', error → whether it was settled */
  fail: `
local retryAfterMs = tonumber(ARGV[3])
return settle(ARGV[1], ARGV[2], retryAfterMs and 'failed' or 'dead', retryAfterMs and now + retryAfterMs, ARGV[4])`,

  /** dueInMs or '', source, then id, type, event of each → the result of each */
  record: `
local answers = {}
for index = 3, #ARGV, 3 do
  local id = ARGV[index]
  local state = known(id)
  if not state then
    record(id, ARGV[index + 1], ARGV[2], ARGV[index + 2])
    if ARGV[1] == '' then move(id, nil, 'parked', nil)
    else move(id, nil, 'received', now + tonumber(ARGV[1])) end
  end
  answers[#answers + 1] = state or 'new'
end
return answer(answers)`,

  /** limit, visibilityTimeoutMs, then the types → the JSON of the events */
  takeDue: `
local limit, visibleAt = tonumber(ARGV[1]), now + tonumber(ARGV[2])
local dueKey = base .. ':due'
local chosen, seen = {}, {}

-- Chooses ids of an index; \`next\` reads some more behind those that stay in it, and \`fits\` corrects it.
local function choose(next, fits)
  local kept = 0
  while #chosen < limit and not tired() do
    local ids = next(kept, limit - #chosen)
    if #ids == 0 then return end
    for _, id in ipairs(ids) do
      local state, due = indexed(id)
      if fits(id, state, due) then
        kept = kept + 1
        if not seen[id] then chosen[#chosen + 1] = { id, state, due } end
        seen[id] = true
      else
        corrected = corrected + 1
      end
    end
  end
end

for index = 3, #ARGV do
  local key = base .. ':parked:' .. ARGV[index]
  choose(function (from, count) return redis.call('ZRANGE', key, from, from + count - 1) end,
    function (id, state)
      if state ~= 'parked' then redis.call('ZREM', key, id) end
      return state == 'parked'
    end)
end

if not redis.call('ZSCORE', dueKey, '') then
  -- It is new or was evicted. Then every open event is looked at; those that are not due get their time back below.
  local received, leased, failed = base .. ':in:received', base .. ':in:leased', base .. ':in:failed'
  local open = redis.call('ZCARD', received) + redis.call('ZCARD', leased) + redis.call('ZCARD', failed)
  if redis.call('ZCARD', dueKey) < open then
    redis.call('ZUNIONSTORE', dueKey, 4, dueKey, received, leased, failed, 'AGGREGATE', 'MIN')
  end
  redis.call('ZADD', dueKey, '+inf', '')
end
choose(function (from, count)
    return redis.call('ZRANGEBYSCORE', dueKey, '-inf', text(now), 'LIMIT', from, count)
  end,
  function (id, state, due)
    local open = state == 'received' or state == 'leased' or state == 'failed'
    if not open then redis.call('ZREM', dueKey, id)
    elseif due > now then redis.call('ZADD', dueKey, text(due), id) end
    return open and due <= now
  end)

if #chosen == 0 and tired() then return AGAIN end
local events = {}
for _, each in ipairs(chosen) do
  local id, state, due = unpack(each)
  if state == 'leased' then ended(id, due, 'lapsed') end
  move(id, state, 'received', visibleAt)
  redis.call('HDEL', eventKey(id), 'token')
  events[#events + 1] = redis.call('GET', jsonKey(id))
end
return answer(events)`,

  /** holder, leaseMs → the poller's state; empty while another holder has the lease */
  acquirePoll: `
local key = base .. ':poll'
local found = redis.call('HMGET', key, 'holder', 'leaseUntil')
if found[1] and found[1] ~= ARGV[1] and tonumber(found[2]) > now then return '[]' end
redis.call('HSET', key, 'holder', ARGV[1], 'leaseUntil', text(now + tonumber(ARGV[2])))
return pollState()`,

  /** holder, leaseMs, state → whether it was saved */
  savePoll: `
local key = base .. ':poll'
if redis.call('HGET', key, 'holder') ~= ARGV[1] then return '[]' end
redis.call('HSET', key, 'leaseUntil', text(now + tonumber(ARGV[2])), 'state', ARGV[3])
redis.call('HDEL', key, 'since', 'horizon', 'largest')
return '["1"]'`,

  /** → the poller's state */
  pollState: `
return pollState()`,

  /** id → one record or none */
  find: `
if not known(ARGV[1]) then return '[]' end
return answer({ read(ARGV[1]) })`,

  /** state, limit, id to continue after or '', 'oldest' or 'newest' → records */
  list: `
local state, limit, after, newest = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == 'newest'
local key = base .. ':in:' .. state
local start = 0
if after ~= '' then start = redis.call(newest and 'ZREVRANK' or 'ZRANK', key, after) or -1 end
local at = start < 0 and get(after, 'receivedAt')
if at then
  -- It has left the state: go on from where it stood, behind those of the same time that precede it by their ids.
  if newest then start = redis.call('ZCOUNT', key, '(' .. at, '+inf') - 1
  else start = redis.call('ZCOUNT', key, '-inf', '(' .. at) - 1 end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, at, at)) do
    if id ~= after and before(id, after) ~= newest then start = start + 1 end
  end
end
if after ~= '' then start = start + 1 end
local records = {}
while #records < limit do
  local from = start + #records
  local ids = redis.call(newest and 'ZREVRANGE' or 'ZRANGE', key, from, from + limit - #records - 1)
  if #ids == 0 then break end
  for _, id in ipairs(ids) do
    if indexed(id) == state then records[#records + 1] = read(id) else unlist(id, state) end
  end
  if tired() then return AGAIN end
end
return answer(records)`,

  /** states → for each the count, and the oldest updatedAt or '' */
  count: `
local answers = {}
for _, state in ipairs(ARGV) do
  local key = base .. ':since:' .. state
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  while oldest[1] and indexed(oldest[1]) ~= state do
    unlist(oldest[1], state)
    if tired() then return AGAIN end
    oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  end
  answers[#answers + 1] = { text(redis.call('ZCARD', key)), oldest[2] and text(tonumber(oldest[2])) or '' }
end
return answer(answers)`,

  /** id → whether it was requeued */
  requeue: `
local id = ARGV[1]
local state = known(id)
if state ~= 'dead' and state ~= 'failed' then return '[]' end
move(id, state, 'received', now)
redis.call('HSET', eventKey(id), 'attempts', '0')
return '["1"]'`,

  /** olderThanMs, limit → the number of events that it looked at, and of those that it pruned */
  prune: `
local ids = redis.call('ZRANGEBYSCORE', base .. ':whole', '-inf', text(now - tonumber(ARGV[1])), 'LIMIT', 0, ARGV[2])
local pruned = 0
for _, id in ipairs(ids) do
  redis.call('ZREM', base .. ':whole', id)
  if indexed(id) == 'done' then
    pruned = pruned + redis.call('DEL', jsonKey(id))
    redis.call('DEL', historyKey(id))
  end
end
return answer({ text(#ids), text(pruned) })`,
} as const;

/** The name of a script. */
export type RedisScript = keyof typeof BODIES;

/** The complete scripts. */
export const REDIS_SCRIPTS = Object.fromEntries(
  Object.entries(BODIES).map(([name, body]) => [name, PRELUDE + body]),
) as Readonly<Record<RedisScript, string>>;
