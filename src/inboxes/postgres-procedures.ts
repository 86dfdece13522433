/**
 * The functions and procedures of the inbox, which keep their plans on the server, so poolers in transaction mode need no
 * prepared statements.
 *
 * A procedure begins with COMMIT. In a transaction that the app left open on a pooled connection this fails (2D000) before
 * anything is read or written; without it, the inbox would answer what that transaction can still roll back. A procedure
 * that commits can have neither a SET clause nor an EXCEPTION block.
 */
import { history, parameters, type Tables } from './postgres-expressions.js';
import { writeClaim, writeEndAttempt } from './postgres-keys.js';
import { VALUES } from './server-inbox.js';
import { named, passed } from './statements.js';

/** The SQLSTATE of a COMMIT that the server refused, because the event of the transaction was not marked done. */
const COMMIT_REFUSED = 'SH001';
/** The SQLSTATE of a transaction whose lease is lost. */
export const LEASE_LOST = 'SH002';
/** The SQLSTATE of a completion outside of the transaction that was begun for the event. */
export const TRANSACTION_ENDED = 'SH003';

/** The setting that has the token of the event of the transaction. */
export const FENCE = 'stablehooks.fence';
/** The setting that has the place of its row in the fences. */
const FENCE_ROW = 'stablehooks.fence_row';

export const writeFunctions = (tables: Tables) =>
  [
    writeClaim(tables),
    writeEndAttempt(tables),
    writeFences(tables),
    writeTransactions(tables),
    writeProcedures(tables),
  ]
    .map(passed)
    .join('\n');

/** The isolation level of the role does not matter. Before anything is read: IF would be too late. */
const BEGIN_STEP = `COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;`;

/** Answers wait for the disk, even where `synchronous_commit` is off. Assigned to a variable: a PERFORM would be a query. */
const DURABLY = (variable: string) => `IF current_setting('synchronous_commit') = 'off' THEN
    ${variable} := set_config('synchronous_commit', 'on', true);
  END IF;`;

/**
 * A transaction inserts a row into the fences, whose deferred trigger refuses COMMIT until the completion clears a setting
 * of the transaction. A rollback ends the setting as well. Each row is deleted in the transaction that inserted it, so the
 * table is empty for every other one: it needs no log and no index.
 */
const writeFences = ({ schema, fences }: Tables) => `
  CREATE OR REPLACE FUNCTION ${schema}.refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $refuse$
BEGIN
  IF current_setting('${FENCE}', true) = NEW.token::text THEN
    RAISE EXCEPTION USING ERRCODE = '${COMMIT_REFUSED}',
      MESSAGE = 'The handler ended the transaction of its event, and the server rolled it back. Do not send COMMIT, END or PREPARE TRANSACTION in a handler: return to commit, and use a savepoint or a nested transaction for a part.',
      HINT = 'SET CONSTRAINTS ALL IMMEDIATE raises this as well: name your own constraints.';
  END IF;
  RETURN NULL;
END $refuse$;
  CREATE UNLOGGED TABLE ${fences} (token uuid NOT NULL);
  CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON ${fences} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse_commit();
  ALTER TABLE ${fences} ENABLE ALWAYS TRIGGER refuse_commit;`;

/**
 * The first and the last statement of a transaction. They are procedures because CALL needs no planner, and have no SET
 * clause: both take a good part of the time of the whole. A value is assigned because a PERFORM is a query.
 *
 * The first one takes no lock on the event: a second delivery would wait for the handler instead of being answered. The
 * server ends a statement, and the transaction of a stopped process, after the time that the lease has left; a shorter
 * statement_timeout stays. Both times begin again with each statement. Postgres 17 and later also end the transaction a
 * second after the lease: a statement that has run since then fails first, and keeps its connection. A transaction_timeout
 * that is set stays.
 *
 * The last one fails in any other transaction.
 */
const writeTransactions = ({ schema, events, fences }: Tables) => `
  CREATE OR REPLACE PROCEDURE ${schema}.begin_transaction(${parameters(['id', 'token'])}) LANGUAGE plpgsql AS $begin$
DECLARE
  left_ms bigint;
  row_id tid;
  statement_limit text := current_setting('statement_timeout');
  seqscan text := current_setting('enable_seqscan');
  ignored text := set_config('enable_seqscan', 'off', true);
BEGIN
  IF txid_current_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
      MESSAGE = 'The connection has an open transaction that has written something.';
  END IF;
  SELECT ceil(date_part('epoch', e.due_at - clock_timestamp()) * 1000)::bigint INTO left_ms
    FROM ${events} AS e WHERE e.id = :id AND e.token = :token;
  IF left_ms IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '${LEASE_LOST}', MESSAGE = 'The lease is lost.';
  END IF;
  left_ms := greatest(1000, left_ms);
  INSERT INTO ${fences} (token) VALUES (:token) RETURNING ctid INTO row_id;
  ignored := set_config('${FENCE}', :token::text, true);
  ignored := set_config('${FENCE_ROW}', row_id::text, true);
  ignored := set_config('enable_seqscan', seqscan, true);
  ignored := set_config('idle_in_transaction_session_timeout', left_ms::text, true);
  IF statement_limit = '0' OR date_part('epoch', statement_limit::interval) * 1000 > left_ms THEN
    ignored := set_config('statement_timeout', left_ms::text, true);
  END IF;
  IF current_setting('transaction_timeout', true) = '0' THEN
    ignored := set_config('transaction_timeout', least(left_ms + 1000, 2147483647)::text, true);
  END IF;
END $begin$;
  CREATE OR REPLACE PROCEDURE ${schema}.complete_transaction(${parameters(['id', 'token', 'key'])})
  LANGUAGE plpgsql AS $complete$
DECLARE
  done_at timestamptz := clock_timestamp();
  is_done boolean;
  ignored text := set_config('enable_seqscan', 'off', true);
BEGIN
  IF current_setting('${FENCE}', true) IS DISTINCT FROM :token::text THEN
    RAISE EXCEPTION USING ERRCODE = '${TRANSACTION_ENDED}',
      MESSAGE = 'The transaction of the event has ended before its completion.';
  END IF;
  IF :key IS NULL THEN
    UPDATE ${events} AS e SET state = 'done', due_at = NULL, token = NULL, last_error = NULL, updated_at = done_at,
      history = ${history("'done'", 'done_at', 'NULL::text')}
    WHERE e.id = :id AND e.token = :token;
    is_done := FOUND;
  ELSE
    is_done := ${schema}.end_attempt(:id, :token, :key, 'done', NULL, NULL, NULL) IS NOT NULL;
  END IF;
  IF NOT is_done THEN
    RAISE EXCEPTION USING ERRCODE = '${LEASE_LOST}', MESSAGE = 'The lease is lost.';
  END IF;
  DELETE FROM ${fences} WHERE ctid = current_setting('${FENCE_ROW}')::tid;
  ignored := set_config('${FENCE}', '', true);
  ${DURABLY('ignored')}
END $complete$;`;

/** Of `run`, the parameters are `$1[1]`, `$1[2]` … in the statement, whose rows it returns as JSON. */
const writeProcedures = ({ schema, events }: Tables) => `
  CREATE OR REPLACE PROCEDURE ${schema}.claim(
    ${parameters(VALUES.claim)}, is_async boolean,
    INOUT result text, INOUT attempts integer, INOUT wait double precision
  ) LANGUAGE plpgsql AS $claim$
DECLARE
  claimed_at timestamptz;
BEGIN
  ${BEGIN_STEP}
  IF is_async THEN
    result := set_config('synchronous_commit', 'off', true);
  ELSE
    ${DURABLY('result')}
  END IF;
  IF :key IS NULL THEN
    claimed_at := clock_timestamp();
    INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, token, event)
    VALUES (:id, :type, 'leased', 1, :origin, claimed_at, claimed_at,
      claimed_at + :leaseMs * interval '1 millisecond', :token, :json)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      result := 'claimed';
      attempts := 1;
      RETURN;
    END IF;
  END IF;
  SELECT CASE WHEN c.won THEN 'claimed' ELSE c.state END, c.attempts, c.left_ms
    INTO result, attempts, wait FROM ${schema}.claim_event(${named(VALUES.claim)}) AS c;
END $claim$;
  CREATE OR REPLACE PROCEDURE ${schema}.finish(
    ${parameters(VALUES.finish)}, INOUT ended text
  ) LANGUAGE plpgsql AS $finish$
BEGIN
  ${BEGIN_STEP}
  ${DURABLY('ended')}
  ended := ${schema}.end_attempt(${named(VALUES.finish)});
END $finish$;
  CREATE OR REPLACE PROCEDURE ${schema}.run(statement text, parameters text[], INOUT answer text)
  LANGUAGE plpgsql AS $run$
DECLARE
  one record;
  rows json[] := '{}';
BEGIN
  ${BEGIN_STEP}
  ${DURABLY('answer')}
  FOR one IN EXECUTE statement USING parameters LOOP
    rows := rows || row_to_json(one);
  END LOOP;
  answer := array_to_json(rows);
END $run$;`;
