/**
 * The scripts of the Redis inbox: each step is one, atomic, by the server's clock.
 *
 * Each script answers JSON text of strings, as Upstash's client would guess at anything else.
 */
import { PRELUDE } from './redis-prelude.js';

const BODIES = {
  /** id, type, source, leaseMs, token, event → what it is, attempt or ms left */
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

  /** limit, visibilityTimeoutMs, then the types → the events' JSON */
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

  /** holder, leaseMs → horizon, largest; nothing while another holds it */
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

  /** state, limit, the last id seen or '' → records */
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

  /** states → of each how many, and since when or '' */
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

  /** olderThanMs, limit → an entry for each that was pruned */
  prune: `
local ids = redis.call('ZRANGEBYSCORE', base .. ':whole', '-inf', text(now - tonumber(ARGV[1])), 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  redis.call('DEL', jsonKey(id))
  redis.call('ZREM', base .. ':whole', id)
end
return answer({ text(#ids) })`,
} as const;

/** A step of the inbox that is one script. */
export type RedisStep = keyof typeof BODIES;

/** Every script whole. */
export const REDIS_SCRIPTS = Object.fromEntries(
  Object.entries(BODIES).map(([step, body]) => [step, PRELUDE + body]),
) as Readonly<Record<RedisStep, string>>;
