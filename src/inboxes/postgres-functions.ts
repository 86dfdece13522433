/**
 * Only one event with a given ordering key is leased at a time. The other events with that key are `received`, and become
 * due when the lease expires. When the attempt at the leased event ends, the first waiting event becomes due at once. Each
 * operation locks the key before it locks a row, so no two operations can deadlock.
 */
import {
  FUNCTION,
  fromMs,
  history,
  isLeased,
  LAPSED,
  lockNumber,
  parameters,
  type Tables,
  tryLock,
} from './postgres-expressions.js';
import { VALUES } from './server-inbox.js';
import { passed } from './statements.js';

export const writeFunctions = (tables: Tables) =>
  [writeClaim(tables), writeEndAttempt(tables), writeRun(tables)].map(passed).join('\n');

/**
 * Each part handles the cases that the earlier parts leave over:
 *
 * 1. A new event whose id and key are free is inserted as leased. ON CONFLICT names no column, because the index on ids and
 *    the index on leased keys both count.
 * 2. If an event already waits for its key, the call needs neither a lock nor a write, so repeated deliveries don't delay
 *    other calls. The call that ends the lease must see that the event waits: either the event waits for this lease, or it
 *    began to wait, under the lock, before the lease began, and is due before the lease ends.
 * 3. If the lock on the id is taken, the event is running, or another call is about to decide about it. This call returns
 *    at once, so no call waits for a handler.
 * 4. In all other cases, the function decides under the lock on the key, if there is a key.
 */
const writeClaim = (tables: Tables) => `  CREATE OR REPLACE FUNCTION ${tables.schema}.claim_event(
    ${parameters(VALUES.claim)},
    OUT result text, OUT attempts integer, OUT wait double precision
  ) ${FUNCTION} AS $claim$
DECLARE
  created timestamptz := ${fromMs(':createdMs')};
  claimed_at timestamptz;
  due timestamptz;
  present ${tables.events};
  holder ${tables.events};
  won boolean;
  is_idle boolean := ${tryLock(tables, ':id')};
  is_locked boolean := :key IS NULL OR ${tryLock(tables, ':key', 'key')};
BEGIN
  IF is_idle AND is_locked THEN
    claimed_at := clock_timestamp();
    INSERT INTO ${tables.events} (id, type, state, attempts, source, received_at, updated_at, due_at, token, event,
      key, created_at, waiting)
    VALUES (:id, :type, 'leased', 1, :origin, claimed_at, claimed_at,
      claimed_at + :leaseMs * interval '1 millisecond', :token, :json, :key, created, CASE WHEN :key IS NOT NULL THEN false END)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      result := 'claimed';
      attempts := 1;
      RETURN;
    END IF;
  END IF;
  IF :key IS NOT NULL THEN
    result := 'waiting';
    SELECT found.attempts, ceil(extract(epoch FROM held.due_at - clock_timestamp()) * 1000) INTO attempts, wait
      FROM ${tables.events} AS found JOIN ${tables.events} AS held
        ON held.key = :key AND held.state = 'leased' AND held.due_at > clock_timestamp()
      WHERE found.id = :id AND found.waiting AND found.key = :key AND (found.due_at = held.due_at
        OR found.due_at < held.due_at AND found.updated_at < held.updated_at);
    IF FOUND THEN RETURN; END IF;
    IF NOT is_locked THEN PERFORM pg_advisory_xact_lock(${lockNumber(tables, ':key', 'key')}); END IF;
  END IF;
  IF NOT is_idle THEN
    SELECT found.state, ceil(extract(epoch FROM found.due_at - clock_timestamp()) * 1000) INTO result, wait
      FROM ${tables.events} AS found WHERE found.id = :id AND found.state IN ('leased', 'done', 'dead');
    result := coalesce(result, 'leased');
    wait := greatest(wait, 1000);
    RETURN;
  END IF;
  SELECT * INTO present FROM ${tables.events} AS found WHERE found.id = :id FOR UPDATE;
  claimed_at := clock_timestamp();
  result := coalesce(present.state, 'received');
  attempts := coalesce(present.attempts, 0);
  won := coalesce(result IN ('received', 'parked') OR present.due_at <= claimed_at OR result = 'failed' AND :early, false);
  IF NOT won THEN
    wait := ceil(extract(epoch FROM present.due_at - claimed_at) * 1000);
    RETURN;
  END IF;
  SELECT * INTO holder FROM ${tables.events} AS found
    WHERE found.key = :key AND found.state = 'leased' AND found.id <> :id;
  due := claimed_at + :leaseMs * interval '1 millisecond';
  IF holder.due_at <= claimed_at THEN
    UPDATE ${tables.events} AS e SET state = 'received', waiting = true, due_at = due, token = NULL,
      updated_at = claimed_at, history = ${LAPSED}
    WHERE e.id = holder.id AND e.token = holder.token;
  ELSIF holder.id IS NOT NULL THEN
    won := false;
    due := holder.due_at;
    wait := ceil(extract(epoch FROM due - claimed_at) * 1000);
  END IF;
  attempts := attempts + won::integer;
  result := CASE WHEN won THEN 'claimed' ELSE 'waiting' END;
  IF present.id IS NULL THEN
    INSERT INTO ${tables.events} (id, type, state, attempts, source, received_at, updated_at, due_at, token, event,
      key, created_at, waiting)
    VALUES (:id, :type, CASE WHEN won THEN 'leased' ELSE 'received' END, attempts, :origin, claimed_at,
      claimed_at, due, CASE WHEN won THEN :token END, :json, :key, created, NOT won)
    ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = 'Another call stored the event at the same time, or a trigger prevented the event from being stored.';
    END IF;
  ELSE
    UPDATE ${tables.events} AS e SET state = CASE WHEN won THEN 'leased' ELSE 'received' END,
      attempts = claim_event.attempts, due_at = due, token = CASE WHEN won THEN :token END,
      updated_at = claimed_at, key = :key, created_at = created, waiting = NOT won,
      history = CASE WHEN e.state = 'leased' THEN ${LAPSED} ELSE e.history END
    WHERE e.id = :id;
  END IF;
END $claim$;`;

/** Returns NULL if the lease is lost. If the handler ended its transaction itself, the event can only become dead. */
const writeEndAttempt = (tables: Tables) => `  CREATE OR REPLACE FUNCTION ${tables.schema}.end_attempt(
    ${parameters(VALUES.finish)}
  ) RETURNS text ${FUNCTION} AS $end$
DECLARE
  ended_at timestamptz;
  next_id text;
BEGIN
  IF :key IS NOT NULL AND NOT ${tryLock(tables, ':key', 'key')} THEN
    PERFORM pg_advisory_xact_lock(${lockNumber(tables, ':key', 'key')});
  END IF;
  ended_at := clock_timestamp();
  IF :result = 'later' AND EXISTS (SELECT 1 FROM ${tables.events} AS e
    WHERE e.id = :id AND e.received_at <= ended_at - :maxAgeMs * interval '1 millisecond')
  THEN
    :result := 'dead';
    :retryAfterMs := NULL;
  END IF;
  UPDATE ${tables.events} AS e SET state = CASE :result WHEN 'later' THEN 'received' ELSE :result END,
    attempts = e.attempts - (:result = 'later')::integer, due_at = ended_at + :retryAfterMs * interval '1 millisecond', token = NULL,
    last_error = :error, updated_at = ended_at, history = ${history(':result', 'ended_at', ':error')}
  WHERE e.id = :id AND e.token = :token AND (${isLeased('e')} OR :result = 'dead');
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF :key IS NULL THEN RETURN :result; END IF;
  -- Locked, because another call may claim the first event without its key. Then the next event is the first.
  SELECT found.id INTO next_id FROM ${tables.events} AS found WHERE found.key = :key AND found.waiting
    ORDER BY found.created_at, found.received_at LIMIT 1 FOR UPDATE;
  IF FOUND THEN
    UPDATE ${tables.events} AS e SET due_at = ended_at, updated_at = ended_at, waiting = false
    WHERE e.id = next_id;
  END IF;
  RETURN :result;
END $end$;`;

/**
 * The statement refers to its parameters as `$1[1]`, `$1[2]` and so on. The first COMMIT fails (2D000) if the app left a
 * transaction open on the pooled connection. Otherwise, the inbox could confirm what that transaction later rolls back.
 */
const writeRun = ({
  schema,
}: Tables) => `  CREATE OR REPLACE PROCEDURE ${schema}.run(statement text, parameters text[], INOUT answer text)
  LANGUAGE plpgsql AS $run$
DECLARE
  one record;
  rows json[] := '{}';
BEGIN
  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  IF current_setting('client_encoding') NOT IN ('UTF8', 'SQL_ASCII') THEN
    RAISE EXCEPTION USING ERRCODE = 'character_not_in_repertoire',
      MESSAGE = 'The client_encoding of this connection is ' || current_setting('client_encoding') || '. Drivers send UTF8, so do not set another encoding.';
  END IF;
  answer := CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END;
  FOR one IN EXECUTE statement USING parameters LOOP
    rows := rows || row_to_json(one);
  END LOOP;
  answer := array_to_json(rows);
END $run$;`;
