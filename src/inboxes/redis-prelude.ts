/**
 * What every script of the Redis inbox begins with: the keys, the clock, and the moves between states.
 *
 * Every key begins with KEYS[1], a hash tag, so that a cluster keeps all of them on one shard:
 * `:event:<id>` a hash, `:json:<id>` its JSON (apart, so that the hash stays compact); `:in:<state>` ids by
 * receivedAt, `:since:<state>` ids by updatedAt, `:due` ids by dueAt, `:parked:<type>` ids by receivedAt,
 * `:whole` done ids that still have their JSON by updatedAt; `:poll` a hash.
 */

/** Lua. `move` is the only writer of states, so that no index is ever forgotten. */
export const PRELUDE = `
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
