/**
 * Every key begins with KEYS[1], a hash tag, so that a cluster keeps all of them on one shard:
 * `:event:<id>` a hash, `:json:<id>` the JSON of the event (a key of its own, so that the hash stays compact);
 * sorted sets of ids: `:in:<state>` by receivedAt, `:since:<state>` by updatedAt, `:due` by dueAt,
 * `:parked:<type>` by receivedAt, `:whole` by updatedAt (done events with JSON); `:poll` a hash.
 *
 * `now` is the time of the server. Only `move` writes states, so that every index follows them.
 */
const PRELUDE = `
local base = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function text(number) return string.format('%.0f', number) end
local function eventKey(id) return base .. ':event:' .. id end
local function jsonKey(id) return base .. ':json:' .. id end
local function get(id, field) return redis.call('HGET', eventKey(id), field) end

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
end

local function holds(id, token)
  local found = redis.call('HMGET', eventKey(id), 'state', 'token')
  return found[1] == 'leased' and found[2] == token
end

-- By bytes, as a sorted set orders its members; Lua's own < goes by the server's locale.
local function before(a, b)
  for index = 1, math.min(#a, #b) do
    local left, right = string.byte(a, index), string.byte(b, index)
    if left ~= right then return left < right end
  end
  return #a < #b
end

local function answer(list)
  if #list == 0 then return '[]' end
  return cjson.encode(list)
end

local function read(id)
  local fields = redis.call('HMGET', eventKey(id), 'type', 'state', 'attempts', 'source', 'receivedAt',
    'updatedAt', 'dueAt', 'lastError')
  table.insert(fields, 1, id)
  fields[#fields + 1] = redis.call('GET', jsonKey(id))
  return fields
end
`;

/**
 * Each script is atomic. It returns a JSON array of strings, because the client of Upstash parses other
 * replies in its own way.
 */
const BODIES = {
  /** id, type, source, leaseMs, token, event → the state of the claim, and the attempt or the ms left */
  claim: `
local id, token = ARGV[1], ARGV[5]
local found = redis.call('HMGET', eventKey(id), 'state', 'dueAt')
local state = found[1]
if state == 'done' or state == 'dead' then return answer({ state, '0' }) end
if state == 'leased' and tonumber(found[2]) > now then
  return answer({ state, text(tonumber(found[2]) - now) })
end
if not state then record(id, ARGV[2], ARGV[3], ARGV[6]) end
move(id, state, 'leased', now + tonumber(ARGV[4]))
redis.call('HSET', eventKey(id), 'token', token)
return answer({ 'claimed', text(redis.call('HINCRBY', eventKey(id), 'attempts', 1)) })`,

  /** id, token → whether it was settled */
  complete: `
local id = ARGV[1]
if not holds(id, ARGV[2]) then return '[]' end
move(id, 'leased', 'done', nil)
redis.call('HDEL', eventKey(id), 'token', 'lastError')
return '["1"]'`,

  /** id, token, retryAfterMs or '', error → whether it was settled */
  fail: `
local id = ARGV[1]
if not holds(id, ARGV[2]) then return '[]' end
if ARGV[3] == '' then move(id, 'leased', 'dead', nil)
else move(id, 'leased', 'failed', now + tonumber(ARGV[3])) end
redis.call('HDEL', eventKey(id), 'token')
redis.call('HSET', eventKey(id), 'lastError', ARGV[4])
return '["1"]'`,

  /** dueInMs or '', source, then id, type, event of each → the result of each */
  record: `
local answers = {}
for index = 3, #ARGV, 3 do
  local id = ARGV[index]
  local state = get(id, 'state')
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
local limit, due = tonumber(ARGV[1]), now + tonumber(ARGV[2])
local events = {}
local function take(ids, from, to)
  for _, id in ipairs(ids) do
    local state = get(id, 'state')
    move(id, state, state == from and to or state, due)
    redis.call('HDEL', eventKey(id), 'token')
    events[#events + 1] = redis.call('GET', jsonKey(id))
  end
end
for index = 3, #ARGV do
  local key = base .. ':parked:' .. ARGV[index]
  if #events < limit then take(redis.call('ZRANGE', key, 0, limit - #events - 1), 'parked', 'received') end
end
local ids = redis.call('ZRANGEBYSCORE', base .. ':due', '-inf', text(now), 'LIMIT', 0, limit - #events)
take(ids, 'leased', 'failed')
return answer(events)`,

  /** holder, leaseMs → horizon, largest; empty while another holder has the lease */
  acquirePoll: `
local key = base .. ':poll'
local found = redis.call('HMGET', key, 'holder', 'leaseUntil', 'horizon', 'largest')
if found[1] and found[1] ~= ARGV[1] and tonumber(found[2]) > now then return '[]' end
redis.call('HSET', key, 'holder', ARGV[1], 'leaseUntil', text(now + tonumber(ARGV[2])))
return answer({ found[3] or '', found[4] or '0' })`,

  /** holder, leaseMs, horizon or '', largest → whether it was saved */
  savePoll: `
local key = base .. ':poll'
if redis.call('HGET', key, 'holder') ~= ARGV[1] then return '[]' end
redis.call('HSET', key, 'leaseUntil', text(now + tonumber(ARGV[2])), 'horizon', ARGV[3], 'largest', ARGV[4])
return '["1"]'`,

  /** id → one record or none */
  find: `
if not get(ARGV[1], 'state') then return '[]' end
return answer({ read(ARGV[1]) })`,

  /** state, limit, id to continue after or '' → records */
  list: `
local key, limit, after = base .. ':in:' .. ARGV[1], tonumber(ARGV[2]), ARGV[3]
local start = 0
if after ~= '' then start = redis.call('ZRANK', key, after) or -1 end
local at = start < 0 and get(after, 'receivedAt')
if at then
  -- It has left the state: go on from where it stood, behind those of the same time and a lesser id.
  start = redis.call('ZCOUNT', key, '-inf', '(' .. at) - 1
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, at, at)) do if before(id, after) then start = start + 1 end end
end
if after ~= '' then start = start + 1 end
local records = {}
for _, id in ipairs(redis.call('ZRANGE', key, start, start + limit - 1)) do records[#records + 1] = read(id) end
return answer(records)`,

  /** states → for each the count, and the oldest updatedAt or '' */
  count: `
local answers = {}
for _, state in ipairs(ARGV) do
  local key = base .. ':since:' .. state
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  answers[#answers + 1] = { text(redis.call('ZCARD', key)), oldest[2] and text(tonumber(oldest[2])) or '' }
end
return answer(answers)`,

  /** id → whether it was requeued */
  requeue: `
local id = ARGV[1]
if get(id, 'state') ~= 'dead' then return '[]' end
move(id, 'dead', 'received', now)
redis.call('HSET', eventKey(id), 'attempts', '0')
return '["1"]'`,

  /** olderThanMs, limit → the number of pruned events */
  prune: `
local ids = redis.call('ZRANGEBYSCORE', base .. ':whole', '-inf', text(now - tonumber(ARGV[1])), 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  redis.call('DEL', jsonKey(id))
  redis.call('ZREM', base .. ':whole', id)
end
return answer({ text(#ids) })`,
} as const;

/** The name of a script. */
export type RedisScript = keyof typeof BODIES;

/** The complete scripts. */
export const REDIS_SCRIPTS = Object.fromEntries(
  Object.entries(BODIES).map(([name, body]) => [name, PRELUDE + body]),
) as Readonly<Record<RedisScript, string>>;
