/**
 * Every key begins with KEYS[1], a hash tag, so that a cluster keeps all of them on one shard:
 * `:event:<id>` a hash, `:json:<id>` the JSON of the event, `:history:<id>` a list of its attempts (keys of their
 * own, so that the hash stays compact); sorted sets of ids: `:in:<state>` by receivedAt, `:since:<state>` by
 * updatedAt, `:due` by dueAt, `:parked:<type>` by receivedAt, `:whole` by updatedAt (done events with JSON); `:poll`
 * a hash, with the state of the poller as JSON in one field. The empty id in `:due` shows that the set was not evicted;
 * no event has it.
 *
 * For each ordering key, while an event needs it: `:holder:<key>` the id of the event that is leased, also if its lease
 * has lapsed; `:waiting:<key>` a sorted set, by created_at, of the events that wait, each id after its `order`, a fixed
 * number of digits that sorts by when it was received; `:due:<key>` the part of `:due` that has the key. An event that
 * waits is also due when the lease that it waits for lapses, so that no event depends on its place in `:waiting:<key>`.
 * Without `:holder:<key>` another event of the key can run beside the leased one, as an event can whose hash is lost.
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
local LIMIT = 1000
local function tired() return corrected >= LIMIT end

-- Removes an id from the indexes of a state in which the event is not.
local function unlist(id, state)
  corrected = corrected + 1
  redis.call('ZREM', base .. ':in:' .. state, id)
  redis.call('ZREM', base .. ':since:' .. state, id)
end

local function holderKey(key) return base .. ':holder:' .. key end
local function waitingKey(key) return base .. ':waiting:' .. key end
local function keyDueKey(key) return base .. ':due:' .. key end

-- Makes an event neither hold its key nor wait for it.
local function leaveKey(id, key)
  if redis.call('GET', holderKey(key)) == id then redis.call('DEL', holderKey(key)) end
  redis.call('ZREM', waitingKey(key), (get(id, 'order') or '') .. id)
end

local function forget(id)
  local found = redis.call('HMGET', eventKey(id), 'type', 'key')
  if found[1] then redis.call('ZREM', base .. ':parked:' .. found[1], id) end
  if found[2] then
    leaveKey(id, found[2])
    redis.call('ZREM', keyDueKey(found[2]), id)
  end
  for _, state in ipairs({ 'received', 'leased', 'failed', 'done', 'dead', 'parked' }) do unlist(id, state) end
  redis.call('ZREM', base .. ':due', id)
  redis.call('ZREM', base .. ':whole', id)
  redis.call('DEL', eventKey(id), jsonKey(id), historyKey(id))
end

-- The state, dueAt and key of an event; nil when it is unknown or forgotten. A lease holds also without the JSON.
local function known(id)
  local found = redis.call('HMGET', eventKey(id), 'state', 'dueAt', 'key')
  local state, due = found[1], tonumber(found[2]) or 0
  if not state then return nil end
  if state == 'done' or (state == 'leased' and due > now) or redis.call('EXISTS', jsonKey(id)) == 1 then
    return state, due, found[3]
  end
  forget(id)
  return nil
end

-- The same for an id of an index, which has to go if its event is unknown.
local function indexed(id)
  local state, due, key = known(id)
  if not state then forget(id) end
  return state, due, key
end

local function move(id, from, to, due)
  local key = eventKey(id)
  local at = redis.call('HMGET', key, 'receivedAt', 'type', 'key')
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
    if at[3] then redis.call('ZADD', keyDueKey(at[3]), text(due), id) end
  else
    redis.call('HDEL', key, 'dueAt')
    redis.call('ZREM', base .. ':due', id)
    if at[3] then redis.call('ZREM', keyDueKey(at[3]), id) end
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

-- Sets the ordering key of an event, or none; \`index\`: its place among those that are received in this step.
local function setKey(id, old, key, createdAt, index)
  if (old or nil) == key then return end
  if old then
    leaveKey(id, old)
    redis.call('ZREM', keyDueKey(old), id)
    redis.call('HDEL', eventKey(id), 'key', 'createdAt')
  end
  if not key then return end
  redis.call('HSET', eventKey(id), 'key', key, 'createdAt', createdAt)
  local receivedAt = tonumber(get(id, 'receivedAt'))
  local received = receivedAt == now and tonumber(time[1]) * 1000000 + tonumber(time[2]) or receivedAt * 1000
  redis.call('HSETNX', eventKey(id), 'order', string.format('%016.0f%06d', received, index))
end

-- The event that is leased with a key, and until when, also if the lease has lapsed.
local function holderOf(key)
  local id = redis.call('GET', holderKey(key))
  if not id then return nil end
  local state, due, of = known(id)
  if state == 'leased' and of == key then return id, due end
  redis.call('DEL', holderKey(key))
end

-- Makes an event wait for another of its key; its own lease, which has lapsed, is lost.
local function wait(id, state, due, key, dueAt)
  if state == 'leased' then ended(id, due, 'lapsed') end
  leaveKey(id, key)
  local place = redis.call('HMGET', eventKey(id), 'createdAt', 'order')
  redis.call('ZADD', waitingKey(key), place[1], place[2] .. id)
  redis.call('HDEL', eventKey(id), 'token')
  move(id, state, 'received', dueAt)
end

-- Makes the event due that waits for a key and was created first.
local function dueNext(key)
  while not tired() do
    local first = redis.call('ZPOPMIN', waitingKey(key))[1]
    if not first then return end
    local id = string.sub(first, 23)
    local state, _, of = known(id)
    if state == 'received' and of == key then return move(id, state, state, now) end
    corrected = corrected + 1
  end
end

-- Ends the attempt of a lease that is not lost.
local function settle(id, token, to, due, err)
  local found = redis.call('HMGET', eventKey(id), 'state', 'token', 'key')
  if found[1] ~= 'leased' or found[2] ~= token then return '[]' end
  ended(id, now, to, err)
  move(id, 'leased', to, due)
  redis.call('HDEL', eventKey(id), 'token', 'lastError')
  if err then redis.call('HSET', eventKey(id), 'lastError', err) end
  if found[3] then
    leaveKey(id, found[3])
    -- The hash of a done event is kept permanently.
    if to == 'done' then redis.call('HDEL', eventKey(id), 'createdAt', 'order') end
    dueNext(found[3])
  end
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
    'updatedAt', 'dueAt', 'lastError', 'key')
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
  /**
   * id, type, source, leaseMs, token, event, '1' if early, and with a key: key, createdAt → the state of the claim, and
   * the attempt or the ms left
   */
  claim: `
local id, leaseUntil, token, key = ARGV[1], now + tonumber(ARGV[4]), ARGV[5], ARGV[8]
local state, due, old = known(id)
if state == 'done' or state == 'dead' then return answer({ state, '0' }) end
if (state == 'leased' or (state == 'failed' and ARGV[7] ~= '1')) and due > now then
  return answer({ state, text(due - now) })
end
if not state then record(id, ARGV[2], ARGV[3], ARGV[6]) end
if old or key then setKey(id, old, key, ARGV[9], 0) end
if key then
  local holder, heldUntil = holderOf(key)
  if holder and holder ~= id then
    if heldUntil > now then
      wait(id, state, due, key, heldUntil)
      return answer({ 'waiting', text(heldUntil - now) })
    end
    wait(holder, 'leased', heldUntil, key, leaseUntil)
  end
  leaveKey(id, key)
  redis.call('SET', holderKey(key), id)
end
if state == 'leased' then ended(id, due, 'lapsed') end
move(id, state, 'leased', leaseUntil)
redis.call('HSET', eventKey(id), 'token', token)
return answer({ 'claimed', text(redis.call('HINCRBY', eventKey(id), 'attempts', 1)) })`,

  /** id, token → whether it was settled */
  complete: `
return settle(ARGV[1], ARGV[2], 'done')`,

  /** id, token, retryAfterMs or '', error → whether it was settled */
  fail: `
local retryAfterMs = tonumber(ARGV[3])
return settle(ARGV[1], ARGV[2], retryAfterMs and 'failed' or 'dead', retryAfterMs and now + retryAfterMs, ARGV[4])`,

  /** dueInMs or '', source, then id, type, event, key or '', createdAt of each → the result of each */
  record: `
local answers = {}
for index = 3, #ARGV, 5 do
  local id, key = ARGV[index], ARGV[index + 3]
  local state = known(id)
  if not state then
    record(id, ARGV[index + 1], ARGV[2], ARGV[index + 2])
    if key ~= '' then setKey(id, nil, key, ARGV[index + 4], index) end
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
-- What is taken, and what waits for it, moves at the end: until then their places in the indexes stay as they are.
local taken, passed, seen, decided, unfinished = {}, {}, {}, {}, nil

local function take(event)
  seen[event.id] = true
  taken[#taken + 1] = event
end

local function pass(event)
  seen[event.id] = true
  passed[#passed + 1] = event
  corrected = corrected + 1
end

-- Reads ids of an index: \`next\` reads some more behind those that stay in it, and \`stays\` decides on each.
local function walk(next, stays)
  local kept = 0
  while #taken < limit and not tired() do
    local ids = next(kept, limit - #taken)
    if #ids == 0 then return end
    for _, id in ipairs(ids) do
      if tired() then return end
      local event = { id = id }
      if not seen[id] then event.state, event.due, event.key = indexed(id) end
      if seen[id] or stays(event) then kept = kept + 1
      else corrected = corrected + 1 end
    end
  end
end

local function isOpen(state) return state == 'received' or state == 'leased' or state == 'failed' end

local function isEarlier(a, b)
  local left = redis.call('HMGET', eventKey(a.id), 'createdAt', 'order')
  local right = redis.call('HMGET', eventKey(b.id), 'createdAt', 'order')
  if left[1] ~= right[1] then return tonumber(left[1]) < tonumber(right[1]) end
  return before(left[2], right[2])
end

-- Takes the event that was created first of those of a key that are due, and passes over the others.
local function takeFirst(event)
  local key, room = event.key, LIMIT - corrected
  local ids = redis.call('ZRANGEBYSCORE', keyDueKey(key), '-inf', text(now), 'LIMIT', 0, room)
  local first = event
  for _, id in ipairs(ids) do
    local state, due, of = known(id)
    local rival = { id = id, state = state, due = due, key = key }
    if of ~= key or not isOpen(state) or due > now then
      corrected = corrected + 1
      if of == key and isOpen(state) then redis.call('ZADD', keyDueKey(key), text(due), id)
      else redis.call('ZREM', keyDueKey(key), id) end
    elseif id ~= event.id then
      if isEarlier(rival, first) then first, rival = rival, first end
      pass(rival)
    end
  end
  if #ids < room then return take(first) end
  -- There can be more, one of them created earlier: the next script compares them with this one, which stays due.
  unfinished, corrected = key, LIMIT
end

for index = 3, #ARGV do
  local key = base .. ':parked:' .. ARGV[index]
  walk(function (from, count) return redis.call('ZRANGE', key, from, from + count - 1) end,
    function (event)
      if event.state ~= 'parked' then redis.call('ZREM', key, event.id)
      -- With a key it takes its turn among those of the key that are due.
      elseif event.key then move(event.id, 'parked', 'received', tonumber(get(event.id, 'receivedAt')))
      else
        take(event)
        return true
      end
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
walk(function (from, count)
    return redis.call('ZRANGEBYSCORE', dueKey, '-inf', text(now), 'LIMIT', from, count)
  end,
  function (event)
    local id, state, due, key = event.id, event.state, event.due, event.key
    if not isOpen(state) then
      redis.call('ZREM', dueKey, id)
      return false
    end
    if due > now then
      redis.call('ZADD', dueKey, text(due), id)
      return false
    end
    local holder, heldUntil
    if key then holder, heldUntil = holderOf(key) end
    if holder and heldUntil > now then
      wait(id, state, due, key, heldUntil)
      return false
    end
    if not key then take(event)
    elseif decided[key] then pass(event)
    else
      decided[key] = true
      takeFirst(event)
    end
    return true
  end)

for _, event in ipairs(passed) do
  -- Were they due again before the others of the key are compared, that would not end.
  local dueAt = event.key == unfinished and math.max(visibleAt, now + 60000) or visibleAt
  wait(event.id, event.state, event.due, event.key, dueAt)
end
if #taken == 0 and tired() then return AGAIN end
local events = {}
for _, event in ipairs(taken) do
  local id = event.id
  if event.state == 'leased' then ended(id, event.due, 'lapsed') end
  if event.key then leaveKey(id, event.key) end
  move(id, event.state, 'received', visibleAt)
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
