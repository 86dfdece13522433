import { AHEAD_MS } from './selection.js';
import { VALUES, VERSION } from './server-inbox.js';

/**
 * Every key begins with the hash tag KEYS[1], so a cluster keeps all keys on one shard:
 *
 * - `:event:<id>` is a hash with the fields of an event. `:json:<id>` is the event's JSON, and `:history:<id>` is a list of
 *   its attempts. Separate keys keep the hash compact.
 * - `:steps:<id>` is a hash of the event's steps by name. A step consists of the attempt, the time in microseconds, the id
 *   of the call that stored the step, and `=` with the result, or `-` if there is no result.
 * - Sorted sets contain ids: `:in:<state>` by receivedAt, `:since:<state>` by updatedAt, and `:due:<type>` by dueAt, with
 *   parked events first. `:whole` contains the done events that have JSON, by updatedAt.
 * - `:note:<name>` is a hash with the text of a note and its lease. `:version` is the version of the keys.
 *
 * An ordering key has two more keys while an event needs them. `:holder:<key>` is the id of the leased event, even if its
 * lease has expired. `:waiting:<key>` is a sorted set of the waiting events. Each member is the event's `turn` and then its
 * id. A `turn` consists of digits that sort by created_at, and then by when the event was received. A waiting event also
 * becomes due when the lease of the leased event expires.
 *
 * `now` is the server's time. Only `move` writes states, so the sorted sets always match the states.
 */
const PRELUDE = `
local base = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function text(number) return string.format('%.0f', number) end
local NOW = text(now)
local function eventKey(id) return base .. ':event:' .. id end
local function jsonKey(id) return base .. ':json:' .. id end
local function historyKey(id) return base .. ':history:' .. id end
local function stepsKey(id) return base .. ':steps:' .. id end

local function answer(list)
  if #list == 0 then return '[]' end
  return cjson.encode(list)
end

local function holderKey(key) return base .. ':holder:' .. key end
local function waitingKey(key) return base .. ':waiting:' .. key end
local function dueKey(eventType) return base .. ':due:' .. eventType end
-- Returns an event's member in the set of waiting events.
local function place(event) return event.turn .. ':' .. event.id end

-- Removes an event from the keys that belong to its ordering key.
local function leaveKey(event)
  if event.state == 'leased' then
    if redis.call('GET', holderKey(event.key)) == event.id then redis.call('DEL', holderKey(event.key)) end
  elseif event.state == 'received' or event.state == 'failed' or event.state == 'parked' then
    redis.call('ZREM', waitingKey(event.key), place(event))
  end
end

-- Returns nil if the event has no hash.
local function load(id)
  local found = redis.call('HMGET', eventKey(id), 'state', 'dueAt', 'type', 'receivedAt', 'updatedAt', 'attempts',
    'token', 'key', 'turn')
  if not found[1] then return nil end
  return { id = id, state = found[1], due = tonumber(found[2]) or 0, type = found[3], receivedAt = found[4],
    updatedAt = found[5], attempts = found[6], token = found[7], key = found[8] or nil, turn = found[9] }
end

-- Writes the state of an event, and further fields, to its hash.
local function move(event, to, due, ...)
  local id, from, key = event.id, event.state, event.key
  if from ~= to then
    if from then
      redis.call('ZREM', base .. ':in:' .. from, id)
      redis.call('ZREM', base .. ':since:' .. from, id)
    end
    redis.call('ZADD', base .. ':in:' .. to, event.receivedAt, id)
    if to == 'done' then redis.call('ZADD', base .. ':whole', NOW, id) end
  end
  redis.call('ZADD', base .. ':since:' .. to, NOW, id)
  if key then leaveKey(event) end
  redis.call('HSET', eventKey(id), 'state', to, 'updatedAt', NOW, ...)
  if due then redis.call('HSET', eventKey(id), 'dueAt', text(due)) end
  -- Parked events are always due, in the order in which they were received.
  local dueAt = due and text(due) or to == 'parked' and text(event.receivedAt - 1e15)
  if dueAt then redis.call('ZADD', dueKey(event.type), dueAt, id)
  else redis.call('ZREM', dueKey(event.type), id) end
  if to == 'leased' then
    if key then redis.call('SET', holderKey(key), id) end
  elseif to == 'done' then
    -- The hash of a done event is kept permanently.
    redis.call('HDEL', eventKey(id), 'dueAt', 'token', 'lastError', 'turn')
  elseif to == 'dead' then redis.call('HDEL', eventKey(id), 'dueAt', 'token')
  elseif from == 'leased' then redis.call('HDEL', eventKey(id), 'token') end
end

-- Adds the attempt at a leased event to its history. While an event is leased, updatedAt is when it was claimed.
local function ended(event, at, result, err, more)
  local attempt = more or {}
  attempt.attempt, attempt.startedAt, attempt.endedAt = tonumber(event.attempts), tonumber(event.updatedAt), tonumber(at)
  attempt.result, attempt.error = result, err or cjson.null
  attempt = cjson.encode(attempt)
  local length = redis.call('RPUSH', historyKey(event.id), attempt)
  if length <= 10 then return end
  -- If the lease of the oldest attempt expired, its effect may have happened, so that attempt stays.
  local first = redis.call('LINDEX', historyKey(event.id), 0)
  if cjson.decode(first).result == 'lapsed' then redis.call('LSET', historyKey(event.id), 1, first) end
  redis.call('LTRIM', historyKey(event.id), -10, -1)
end

-- Events with the same key are sorted by created_at, and then by when they were received. \`index\` keeps the
-- events of one call in order.
local function turnOf(receivedAt, created, index)
  local micros = receivedAt == NOW and tonumber(time[2]) % 1000 or 0
  -- Digits that sort by created_at: the ms since the year -1200.
  local since = string.format('%015.0f', tonumber(created) + 1e14)
  return since .. receivedAt .. string.format('%03d%06d', micros, index)
end

local function record(id, eventType, source, json, key, created, index)
  local event = { id = id, type = eventType, receivedAt = NOW, attempts = 0, key = key }
  if key then event.turn = turnOf(NOW, created, index) end
  redis.call('HSET', eventKey(id), 'type', eventType, 'source', source, 'attempts', '0', 'receivedAt', NOW,
    unpack(key and { 'key', key, 'turn', event.turn } or {}))
  redis.call('SET', jsonKey(id), json)
  redis.call('SETNX', base .. ':version', '${VERSION}')
  return event
end

-- Returns the leased event with this key, even if its lease has expired.
local function holderOf(key)
  local id = redis.call('GET', holderKey(key))
  return id and load(id)
end

-- Makes an event wait for another event with the same key. If the waiting event has a lease, that lease has expired.
local function wait(event, due)
  if event.state == 'leased' then ended(event, text(event.due), 'lapsed') end
  move(event, 'received', due)
  redis.call('ZADD', waitingKey(event.key), 0, place(event))
end

-- Reads the values of the call in order. The length of a list comes before its items.
local position = 0
local function take()
  position = position + 1
  return ARGV[position]
end
local function takeList()
  local items = {}
  for index = 1, tonumber(take()) do items[index] = take() end
  return items
end
local function orNil(text) return text ~= '' and text or nil end

local function jsonOf(id, withEvent)
  if withEvent then return redis.call('GET', jsonKey(id)) or cjson.null end
  return redis.call('EXISTS', jsonKey(id)) == 1 and '' or cjson.null
end

-- Returns a record for operators. If \`withEvent\` is false, the event's JSON is empty.
local function read(id, withEvent)
  local found = redis.call('HMGET', eventKey(id), 'type', 'state', 'attempts', 'source', 'receivedAt', 'updatedAt',
    'dueAt', 'lastError', 'key')
  if not found[2] then return nil end
  return { id = id, type = found[1], state = found[2], attempts = tonumber(found[3]), source = found[4],
    received = tonumber(found[5]), updated = tonumber(found[6]), due = tonumber(found[7]) or cjson.null,
    error = found[8] or cjson.null, key = found[9] or cjson.null,
    json = jsonOf(id, withEvent),
    history = '[' .. table.concat(redis.call('LRANGE', historyKey(id), 0, -1), ',') .. ']' }
end
`;

export const SCRIPT_VALUES = {
  ...VALUES,
  /** `call`: the id of the call. A client that lost the reply sends the same call again. */
  finish: [...VALUES.finish, 'call'],
  saveStep: [...VALUES.saveStep, 'call'],
  /** `events`: for each event, its id, type, JSON, key and time of creation. */
  record: ['state', 'dueInMs', 'origin', 'events'],
  findAll: ['ids', 'withEvents'],
  /** `after`: the id of the event after which the list continues. */
  list: ['state', 'limit', 'after', 'order', 'withEvents'],
  count: ['states'],
  /** `versions`: for each event, its id and the time of its last change. */
  change: ['result', 'by', 'reason', 'versions'],
  /** `kind`: `ahead` for leases from the future, `expired` or `any` for leases of events in `ids`. */
  endLeases: ['kind', 'held', 'ids', 'limit'],
  /** Returns the server's `maxmemory-policy`, or '' if the server doesn't report one, and the version of the keys. */
  check: [],
} as const;

const LISTS: ReadonlySet<string> = new Set([
  'ids',
  'held',
  'types',
  'done',
  'again',
  'events',
  'states',
  'versions',
]);

/** Each script is atomic, and returns JSON, because Upstash parses other replies. */
const BODIES: Readonly<Record<RedisScript, string>> = {
  claim: `
local leaseUntil = now + tonumber(leaseMs)
key = orNil(key)
local event = load(id)
local state = event and event.state
if state == 'done' or state == 'dead' then return answer({ { result = state } }) end
local function claimed(attempt)
  return answer({ { result = 'claimed', attempts = attempt } })
end
-- A client that lost the reply sends the same claim again.
if state == 'leased' and event.token == token then return claimed(event.attempts) end
if (state == 'leased' or (state == 'failed' and early == '')) and event.due > now then
  return answer({ { result = state, wait = event.due - now } })
end
if not event then event = record(id, type, origin, json, key, createdMs, 0)
elseif event.key ~= key then
  if event.key then leaveKey(event) end
  event.key, event.turn = key, event.turn or key and turnOf(event.receivedAt, createdMs, 0)
  if key then redis.call('HSET', eventKey(id), 'key', key, 'turn', event.turn)
  else redis.call('HDEL', eventKey(id), 'key') end
end
local holder = key and holderOf(key)
if holder and holder.id ~= id then
  if holder.due > now then
    wait(event, holder.due)
    return answer({ { result = 'waiting', wait = holder.due - now } })
  end
  wait(holder, leaseUntil)
end
if state == 'leased' then ended(event, text(event.due), 'lapsed') end
local attempt = text(event.attempts + 1)
move(event, 'leased', leaseUntil, 'token', token, 'attempts', attempt)
return claimed(attempt)`,

  finish: `
retryAfterMs, maxAgeMs = tonumber(retryAfterMs), tonumber(maxAgeMs)
local event = load(id)
if not event or event.state ~= 'leased' or event.token ~= token then
  if event and redis.call('HGET', eventKey(id), 'call') == call then return answer({ { ended = event.state } }) end
  return '[]'
end
if maxAgeMs and tonumber(event.receivedAt) <= now - maxAgeMs then result, retryAfterMs = 'dead', nil end
local err = result ~= 'done' and error or nil
ended(event, NOW, result, err)
local fields = err and { 'lastError', err } or {}
local to = result
if result == 'later' then
  to = 'received'
  fields[3], fields[4] = 'attempts', text(event.attempts - 1)
end
move(event, to, retryAfterMs and now + retryAfterMs, 'call', call, unpack(fields))
-- Of the events that wait for the same key, the event that was created first becomes due.
local first = event.key and redis.call('ZPOPMIN', waitingKey(event.key))[1]
if first then move(load(string.match(first, ':(.*)')), 'received', now) end
return answer({ { ended = result } })`,

  record: `
dueInMs = tonumber(dueInMs)
local answers = {}
for index = 1, #events, 5 do
  local id, type, json, key, createdMs = unpack(events, index, index + 4)
  local event = load(id)
  answers[#answers + 1] = { id = id, result = event and event.state or 'new' }
  if not event then
    event = record(id, type, origin, json, orNil(key), createdMs, index)
    move(event, state, dueInMs and now + dueInMs)
  end
end
return answer(answers)`,

  takeDue: `
local visibleAt = now + tonumber(visibilityTimeoutMs)
-- Reads the longest due events of each type. The events to take are among them.
local due = {}
for _, type in ipairs(types) do
  local found = redis.call('ZRANGEBYSCORE', dueKey(type), '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, limit)
  for at = 1, #found, 2 do due[#due + 1] = { id = found[at], at = tonumber(found[at + 1]) } end
end
table.sort(due, function(one, other)
  if one.at ~= other.at then return one.at < other.at end
  return one.id < other.id
end)
local events = {}
for index = 1, math.min(#due, tonumber(limit)) do
  local event = load(due[index].id)
  if event.state == 'leased' then ended(event, text(event.due), 'lapsed') end
  move(event, 'received', visibleAt)
  if event.state == 'received' then
    redis.call('HSET', eventKey(event.id), 'updatedAt', event.updatedAt)
    redis.call('ZADD', base .. ':since:received', event.updatedAt, event.id)
  end
  events[#events + 1] = { id = event.id, json = redis.call('GET', jsonKey(event.id)) or cjson.null }
end
return answer(events)`,

  writeNote: `
local key = base .. ':note:' .. name
if holder ~= '' and redis.call('HGET', key, 'holder') ~= holder then return '[]' end
redis.call('HSET', key, 'text', note)
return '["1"]'`,

  readNote: `
return answer({ { text = redis.call('HGET', base .. ':note:' .. name, 'text') or cjson.null } })`,

  leaseNote: `
local key = base .. ':note:' .. name
local found = redis.call('HMGET', key, 'holder', 'leaseUntil', 'leasedAt')
local isHeld = found[1] and tonumber(found[2]) > now and tonumber(found[3]) <= now + ${AHEAD_MS}
if isHeld and found[1] ~= holder then return '[]' end
redis.call('HSET', key, 'holder', holder, 'leaseUntil', text(now + tonumber(leaseMs)), 'leasedAt', NOW)
return '["1"]'`,

  find: `
return answer({ read(id, true) })`,

  findAll: `
local records = {}
for _, id in ipairs(ids) do
  records[#records + 1] = read(id, withEvents ~= '')
end
return answer(records)`,

  list: `
local newest = order == 'newest'
local key = base .. ':in:' .. state
local start = 0
if after ~= '' then
  local receivedAt = redis.call('HGET', eventKey(after), 'receivedAt')
  if not receivedAt then return '[]' end
  -- An event that has left the state is added for a moment, so that the list continues from its place.
  local isAdded = redis.call('ZADD', key, 'NX', receivedAt, after) == 1
  start = redis.call(newest and 'ZREVRANK' or 'ZRANK', key, after) + 1
  if isAdded then
    redis.call('ZREM', key, after)
    start = start - 1
  end
end
local records = {}
for _, id in ipairs(redis.call(newest and 'ZREVRANGE' or 'ZRANGE', key, start, start + tonumber(limit) - 1)) do
  records[#records + 1] = read(id, withEvents ~= '')
end
return answer(records)`,

  count: `
local answers = {}
for _, state in ipairs(states) do
  local key = base .. ':since:' .. state
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  answers[#answers + 1] = { state = state, count = redis.call('ZCARD', key), oldest = tonumber(oldest[2]) or cjson.null }
end
return answer(answers)`,

  /** Returns one row without a name if the event has no steps. */
  steps: `
local event = load(id)
if not event or (token ~= '' and (event.state ~= 'leased' or event.token ~= token)) then return '[]' end
local found = redis.call('HGETALL', stepsKey(id))
local steps = {}
for index = 1, #found, 2 do
  local attempt, micros, result = string.match(found[index + 1], '^(%d+) (%d+) %S+ (.*)$')
  steps[#steps + 1] = { name = found[index], attempt = attempt, at = string.sub(micros, 1, -4), micros = micros,
    result = string.sub(result, 1, 1) == '=' and string.sub(result, 2) or cjson.null }
end
table.sort(steps, function(one, other) return tonumber(one.micros) < tonumber(other.micros) end)
if #steps == 0 then steps[1] = { name = cjson.null } end
return answer(steps)`,

  saveStep: `
local event = load(id)
if not event or event.state ~= 'leased' or event.token ~= token then return '[]' end
local found = redis.call('HGET', stepsKey(id), name)
local foundCall, foundResult
if found then foundCall, foundResult = string.match(found, '^%d+ %d+ (%S+) (.)') end
-- A client that lost the reply sends the same call again.
if foundCall == call then return '["1"]' end
if what == 'forgets' then
  if foundResult ~= '-' then return '[]' end
  redis.call('HDEL', stepsKey(id), name)
  return '["1"]'
end
if foundResult == '=' or (foundResult == '-' and what == 'begins') then return '[]' end
local step = what == 'begins' and '-' or '=' .. value
local micros = NOW .. string.format('%03d', tonumber(time[2]) % 1000)
redis.call('HSET', stepsKey(id), name, event.attempts .. ' ' .. micros .. ' ' .. call .. ' ' .. step)
return '["1"]'`,

  stateSteps: `
local event = load(id)
if event and (event.state == 'dead' or event.state == 'failed') then
  local function unknown(name) return string.match(redis.call('HGET', stepsKey(id), name) or '', '^(%d+ %d+ %S+ )%-$') end
  for _, name in ipairs(done) do
    local kept = unknown(name)
    if kept then redis.call('HSET', stepsKey(id), name, kept .. '=') end
  end
  for _, name in ipairs(again) do
    if unknown(name) then redis.call('HDEL', stepsKey(id), name) end
  end
end
return '[]'`,

  /** Leaves an event unchanged if it has changed since the given version. */
  change: `
local count = 0
local function isKnown(id)
  for _, step in ipairs(redis.call('HVALS', stepsKey(id))) do
    if string.match(step, '^%d+ %d+ %S+ %-$') then return false end
  end
  return true
end
local function isIgnored(event)
  return event.attempts == '0' and redis.call('EXISTS', jsonKey(event.id)) == 1 and redis.call('EXISTS', historyKey(event.id)) == 0
end
for index = 1, #versions, 2 do
  local event = load(versions[index])
  local state = event and event.updatedAt == versions[index + 1] and event.state
  local isOpen = state == 'dead' or state == 'failed'
  if result == 'requeued' and state and (isOpen and isKnown(event.id) or state == 'done' and isIgnored(event)) then
    redis.call('ZREM', base .. ':whole', event.id)
    if by ~= '' then
      event.updatedAt = NOW
      ended(event, NOW, result, nil, { by = by, reason = reason })
    end
    move(event, 'received', now, 'attempts', '0')
    count = count + 1
  elseif result == 'discarded' and state and state ~= 'leased' and state ~= 'done' then
    event.updatedAt = NOW
    ended(event, NOW, result, nil, { by = by, reason = reason })
    move(event, 'done')
    count = count + 1
  end
end
return answer({ { count = count } })`,

  endLeases: `
local found, mine, rows = ids, {}, {}
if kind == 'ahead' then found = redis.call('ZRANGEBYSCORE', base .. ':since:leased', text(now + ${AHEAD_MS}), '+inf', 'LIMIT', 0, limit) end
for _, token in ipairs(held) do mine[token] = true end
for _, id in ipairs(found) do
  local event = load(id)
  if event and event.state == 'leased' then
    local isAhead = tonumber(event.updatedAt) > now + ${AHEAD_MS} and not mine[event.token]
    if kind == 'any' or isAhead or (kind == 'expired' and event.due <= now) then
      ended(event, text(math.max(math.min(now, event.due), tonumber(event.updatedAt))), 'lapsed')
      move(event, 'failed', now)
      rows[#rows + 1] = { id = id }
    end
  end
end
return answer(rows)`,

  importDone: `
local count = 0
for _, id in ipairs(ids) do
  if not load(id) then
    redis.call('HSET', eventKey(id), 'type', '', 'source', 'import', 'attempts', '0', 'receivedAt', NOW)
    move({ id = id, type = '', receivedAt = NOW }, 'done')
    -- An imported event has nothing to prune.
    redis.call('ZREM', base .. ':whole', id)
    count = count + 1
  end
end
return answer({ { count = count } })`,

  prune: `
local ids = redis.call('ZRANGEBYSCORE', base .. ':whole', '-inf', text(now - tonumber(olderThanMs)), 'LIMIT', 0, limit)
for _, id in ipairs(ids) do
  redis.call('ZREM', base .. ':whole', id)
  redis.call('DEL', jsonKey(id), historyKey(id), stepsKey(id))
  redis.call('HDEL', eventKey(id), 'call')
end
return answer({ { count = #ids } })`,

  check: `
local info = redis.pcall('INFO', 'memory')
local policy = type(info) == 'string' and string.match(info, 'maxmemory_policy:(%S+)') or ''
return answer({ policy, redis.call('GET', base .. ':version') or '${VERSION}' })`,
};

export type RedisScript = keyof typeof SCRIPT_VALUES;

export function toLua(name: RedisScript): string {
  const locals = SCRIPT_VALUES[name].map(
    (each) => `local ${each} = ${LISTS.has(each) ? 'takeList' : 'take'}()`,
  );
  return [PRELUDE, ...locals, BODIES[name]].join('\n');
}
