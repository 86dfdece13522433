/** The tables, procedures and statements of the MySQL inbox: SQL that MariaDB and MySQL share. */
import { readOptions } from '../core/options.js';
import { nameRule } from './name-rule.js';
import { type PageQuery, type Statement, selectionWriter } from './selection.js';

/** Options of everything that needs to know the names of the tables. */
export interface MysqlPrefixOptions {
  /**
   * Begins the names of the tables and procedures of the inbox, which are in the database of the pool: letters, digits and
   * underscores, at most 40 characters, no digit first.
   *
   * @default 'stablehooks'
   */
  readonly prefix?: string | undefined;
}

export const PREFIX_RULE = nameRule(40);

/** Exists as long as the transaction that began for an event. */
export const FENCE = 'stablehooks_fence';

/** Epoch ms. Not `UNIX_TIMESTAMP(NOW(3))`, which is ambiguous when daylight saving time ends. */
const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";

const TEXT = 'LONGTEXT CHARACTER SET utf8mb4';
/** Names and keys compare by bytes: collations ignore case, accents or spaces at the end. */
const NAME = 'VARBINARY(512)';
const STATE = 'VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin';
const TOKEN = 'VARBINARY(36)';

/**
 * Begins a transaction of READ COMMITTED, and keeps the level of the session. `SET TRANSACTION` fails (1568) inside a
 * transaction that the app left open: the inbox must not answer what that one can still roll back.
 */
const BEGIN = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION';

/** Begins a step, which is one transaction and leaves none open when it fails. */
const STEP = `DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  ${BEGIN}; SET at_ms = ${NOW};`;

/** The history with one more attempt; the last 10. An UPDATE assigns it first, because it reads columns that change. */
const history = (...members: readonly string[]) =>
  `history = JSON_ARRAY_APPEND(IF(JSON_LENGTH(history) >= 10, JSON_REMOVE(history, '$[0]'), COALESCE(history, JSON_ARRAY())),
      '$', JSON_OBJECT('attempt', attempts, ${members.join()}))`;
const ended = (result: string, endedAt: string, error: string) =>
  history(`'startedAt', updated_at, 'endedAt', ${endedAt}, 'result', ${result}, 'error', ${error}`);
const LAPSED = ended("'lapsed'", 'GREATEST(due_at, updated_at)', 'NULL');
const IF_LAPSED = LAPSED.replace(/^history = (.*)$/s, "history = IF(state = 'leased', $1, history)");

/** The ids of a JSON array, as a table. */
const IDS = `JSON_TABLE(ids, '$[*]' COLUMNS (id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$')) AS given`;
/** Pairs of `seq` and `due_at`, as a table. */
const PAIRS = `JSON_TABLE(found, '$[*]' COLUMNS (seq BIGINT UNSIGNED PATH '$[0]', due BIGINT PATH '$[1]')) AS pair`;

/** `takeDue` is called `prefix_take_due`. */
const quote = (prefix: string, name: string) =>
  `\`${prefix}_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}\``;

function writeTables(events: string, poll: string, steps: string): readonly string[] {
  return [
    // The columns at the end stand for partial indexes. A unique one has any number of NULL. `seq` is not
    // AUTO_INCREMENT: its table lock deadlocks with row locks, and InnoDB notices that only after 50 s.
    `CREATE TABLE IF NOT EXISTS ${events} (
  seq BIGINT UNSIGNED NOT NULL DEFAULT (UUID_SHORT()) PRIMARY KEY,
  id ${NAME} NOT NULL,
  type ${NAME} NOT NULL,
  state ${STATE} NOT NULL,
  attempts INT NOT NULL,
  source ${STATE} NOT NULL,
  received_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  due_at BIGINT COMMENT 'epoch ms, as all times; 0 for parked events',
  created_at BIGINT,
  token ${TOKEN} COMMENT 'of the lease, or of the call that stored it',
  ordering_key ${NAME},
  waiting BOOLEAN NOT NULL DEFAULT FALSE,
  traceparent TEXT,
  last_error TEXT,
  event LONGTEXT,
  history JSON,
  leased_key ${NAME} GENERATED ALWAYS AS (IF(state = 'leased', ordering_key, NULL)) STORED,
  waiting_key ${NAME} GENERATED ALWAYS AS (IF(waiting, ordering_key, NULL)) STORED,
  whole_since BIGINT GENERATED ALWAYS AS (IF(state = 'done' AND event IS NOT NULL, updated_at, NULL)) STORED,
  UNIQUE KEY id (id),
  UNIQUE KEY leased_key (leased_key),
  KEY waiting_key (waiting_key, created_at),
  KEY due (type, due_at),
  KEY state (state, received_at, id, updated_at),
  KEY whole_since (whole_since)
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin, ROW_FORMAT = DYNAMIC`,
    `CREATE TABLE IF NOT EXISTS ${steps} (
  number BIGINT UNSIGNED NOT NULL DEFAULT (UUID_SHORT()),
  event_id ${NAME} NOT NULL,
  name ${NAME} NOT NULL,
  attempt INT NOT NULL,
  stored_at BIGINT NOT NULL,
  result LONGTEXT,
  PRIMARY KEY (event_id, name)
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin, ROW_FORMAT = DYNAMIC`,
    `CREATE TABLE IF NOT EXISTS ${poll} (
  only_row TINYINT NOT NULL PRIMARY KEY,
  holder VARCHAR(255) NOT NULL,
  lease_until BIGINT NOT NULL,
  state LONGTEXT
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin`,
  ];
}

/**
 * Claims an event. Each step locks the row that has the lease of the key first and its own row second, as the end of an
 * attempt locks its own row first and the event that waits second: no two can deadlock. Where two claims of a free key
 * meet, the unique index allows one lease, and the other claim is sent again.
 */
const claim = (events: string) => `
  DECLARE at_ms, until_ms, holder_due, own_due BIGINT;
  DECLARE holder_seq, own_seq BIGINT UNSIGNED;
  DECLARE own_state ${STATE};
  DECLARE own_attempts INT;
  DECLARE own_token ${TOKEN};
  DECLARE own_trace ${TEXT};
  ${STEP}
  IF event_key IS NOT NULL THEN
    SELECT seq, due_at INTO holder_seq, holder_due FROM ${events}
      WHERE leased_key = event_key AND id <> event_id FOR UPDATE;
    SET at_ms = ${NOW};
  END IF;
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, created_at, token,
    ordering_key, waiting, traceparent, event)
  VALUES (event_id, event_type, IF(holder_seq IS NULL, 'leased', 'received'), holder_seq IS NULL, origin, at_ms, at_ms,
    COALESCE(holder_due, at_ms + lease_ms), created_ms, new_token, event_key, holder_seq IS NOT NULL, new_trace, event_json)
  ON DUPLICATE KEY UPDATE seq = ${events}.seq;
  SELECT seq, state, attempts, due_at, token, traceparent
    INTO own_seq, own_state, own_attempts, own_due, own_token, own_trace
    FROM ${events} WHERE id = event_id FOR UPDATE;
  IF own_seq IS NULL THEN
    SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Another event of the ordering key was leased.';
  END IF;
  IF own_token <=> new_token AND own_state = 'leased' THEN
    SET own_state = 'claimed';
  ELSE
    SET at_ms = ${NOW};
    IF own_state IN ('received', 'parked') OR own_due <= at_ms OR own_state = 'failed' AND early THEN
      IF holder_due > at_ms THEN
        UPDATE ${events} SET ${IF_LAPSED}, state = 'received', due_at = holder_due, token = NULL, updated_at = at_ms,
          ordering_key = event_key, created_at = created_ms, waiting = TRUE WHERE seq = own_seq;
        SET own_state = 'waiting', own_due = holder_due;
      ELSE
        SET until_ms = at_ms + lease_ms;
        UPDATE ${events} SET ${LAPSED}, state = 'received', due_at = until_ms, token = NULL, updated_at = at_ms,
          waiting = TRUE WHERE seq = holder_seq;
        SET own_attempts = own_attempts + 1;
        UPDATE ${events} SET ${IF_LAPSED}, state = 'leased', attempts = own_attempts, due_at = until_ms,
          token = new_token, updated_at = at_ms, ordering_key = event_key, created_at = created_ms, waiting = FALSE
          WHERE seq = own_seq;
        SET own_state = 'claimed';
      END IF;
    END IF;
  END IF;
  COMMIT;
  SELECT own_state AS result, own_attempts AS attempts, own_due - at_ms AS wait, own_trace AS traceparent;`;

/**
 * Ends an attempt in the transaction that is open, and makes the first event that waits for its key due. `ended` is the
 * result, or NULL if the lease is lost.
 */
const endAttempt = (events: string) => `
  DECLARE at_ms BIGINT DEFAULT ${NOW};
  DECLARE next_seq BIGINT UNSIGNED;
  IF result = 'later' AND EXISTS (SELECT 1 FROM ${events} WHERE id = event_id AND received_at <= at_ms - max_age_ms) THEN
    SET result = 'dead', retry_ms = NULL;
  END IF;
  UPDATE ${events} SET ${ended('result', 'at_ms', 'failure')}, due_at = at_ms + retry_ms,
    state = IF(result = 'later', 'received', result), attempts = attempts - (result = 'later'), token = NULL,
    last_error = failure, updated_at = at_ms WHERE id = event_id AND token = lease_token AND state = 'leased';
  SET ended = IF(ROW_COUNT() = 0, NULL, result);
  IF ended IS NOT NULL AND event_key IS NOT NULL THEN
    SELECT seq INTO next_seq FROM ${events} WHERE waiting_key = event_key ORDER BY created_at, seq LIMIT 1 FOR UPDATE;
    UPDATE ${events} SET due_at = at_ms, updated_at = at_ms, waiting = FALSE WHERE seq = next_seq;
  END IF;`;

/** A token marks what this call stored. */
const CALL_TOKEN = `DECLARE call_token ${TOKEN} DEFAULT UUID();`;

const record = (events: string) => `
  DECLARE at_ms BIGINT;
  ${CALL_TOKEN}
  ${STEP}
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, created_at, token,
    ordering_key, traceparent, event)
  SELECT page.id, page.type, new_state, 0, origin, at_ms, at_ms,
    CASE new_state WHEN 'received' THEN at_ms + due_ms WHEN 'parked' THEN 0 END, page.created, call_token, page.event_key,
    new_trace, page.event
  FROM JSON_TABLE(events, '$[*]' COLUMNS (position FOR ORDINALITY,
    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]', type VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]',
    event ${TEXT} PATH '$[2]', created BIGINT PATH '$[3]', event_key VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[4]')) AS page
  LEFT JOIN ${events} AS known ON known.id = page.id WHERE known.seq IS NULL ORDER BY page.position
  ON DUPLICATE KEY UPDATE seq = ${events}.seq;
  SELECT page.id, IF(stored.token <=> call_token, 'new', stored.state) AS result
  FROM JSON_TABLE(events, '$[*]' COLUMNS (position FOR ORDINALITY, id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]')) AS page
  JOIN ${events} AS stored ON stored.id = page.id ORDER BY page.position;
  COMMIT;`;

/** Takes due events. Each type is read from the index on its own, so due events of other types are not read. */
const takeDue = (events: string) => `
  DECLARE at_ms BIGINT;
  DECLARE position INT DEFAULT 0;
  DECLARE of_type ${NAME};
  DECLARE found ${TEXT} DEFAULT '[]';
  DECLARE more ${TEXT};
  ${STEP}
  WHILE position < JSON_LENGTH(types) DO
    SET of_type = JSON_UNQUOTE(JSON_EXTRACT(types, CONCAT('$[', position, ']')));
    SELECT JSON_ARRAYAGG(JSON_ARRAY(seq, due_at)) INTO more FROM (
      SELECT seq, due_at FROM ${events} FORCE INDEX (due) WHERE type = of_type AND due_at <= at_ms
      ORDER BY due_at, seq LIMIT size FOR UPDATE SKIP LOCKED) AS locked;
    SET found = JSON_MERGE_PRESERVE(found, COALESCE(more, '[]')), position = position + 1;
  END WHILE;
  SELECT JSON_ARRAYAGG(JSON_ARRAY(seq, due)) INTO found FROM (
    SELECT seq, due FROM ${PAIRS} ORDER BY due, seq LIMIT size) AS longest;
  UPDATE ${events} JOIN ${PAIRS} USING (seq) SET ${IF_LAPSED}, updated_at = IF(state = 'received', updated_at, at_ms),
    state = 'received', due_at = at_ms + visibility_ms, token = NULL, waiting = FALSE;
  SELECT id, event AS json FROM ${events} JOIN ${PAIRS} USING (seq) ORDER BY due, seq;
  COMMIT;`;

/** The procedures by name: their parameters, and a body. */
function writeProcedures(prefix: string, events: string, poll: string, steps: string) {
  const lease = `event_id ${NAME}, lease_token ${TOKEN}`;
  const end = (...values: readonly string[]) =>
    `CALL ${quote(prefix, 'end_attempt')}(event_id, lease_token, event_key, ${values.join()}, ended)`;
  const how = `event_key ${NAME}, result ${STATE}, retry_ms DOUBLE, failure ${TEXT}, max_age_ms DOUBLE`;
  const update = (set: string, states: string) => `
  DECLARE at_ms BIGINT;
  ${STEP}
  UPDATE ${events} JOIN ${IDS} ON ${events}.id = given.id SET ${set}, updated_at = at_ms WHERE state IN (${states});
  SELECT ROW_COUNT() AS count;
  COMMIT;`;
  return {
    claim: [
      `event_id ${NAME}, event_type ${NAME}, origin ${STATE}, lease_ms DOUBLE, new_token ${TOKEN}, event_json ${TEXT},
  early BOOLEAN, event_key ${NAME}, created_ms BIGINT, new_trace ${TEXT}`,
      claim(events),
    ],
    end_attempt: [`${lease}, ${how}, OUT ended ${STATE}`, endAttempt(events)],
    finish: [
      `${lease}, ${how}`,
      `DECLARE at_ms BIGINT;
  DECLARE ended ${STATE};
  ${STEP}
  ${end('result', 'retry_ms', 'failure', 'max_age_ms')};
  COMMIT;
  SELECT ended;`,
    ],
    // The first call of a transaction. It locks nothing: a second delivery would wait for the handler.
    fence: [
      `${lease}, begins BOOLEAN`,
      `IF begins THEN ${BEGIN}; END IF;
  SAVEPOINT ${FENCE};
  SELECT COUNT(*) AS leased FROM ${events} WHERE id = event_id AND token = lease_token AND state = 'leased';`,
    ],
    // The last call of a transaction. The first statement fails in any other transaction.
    complete: [
      `${lease}, event_key ${NAME}, commits BOOLEAN`,
      `DECLARE ended ${STATE};
  RELEASE SAVEPOINT ${FENCE};
  ${end("'done'", 'NULL', 'NULL', 'NULL')};
  IF commits AND ended IS NOT NULL THEN COMMIT; END IF;
  SELECT ended IS NOT NULL AS leased;`,
    ],
    record: [
      `events ${TEXT}, new_state ${STATE}, due_ms DOUBLE, origin ${STATE}, new_trace ${TEXT}`,
      record(events),
    ],
    takeDue: [`size INT, visibility_ms DOUBLE, types ${TEXT}`, takeDue(events)],
    acquirePoll: [
      'new_holder VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, lease_ms DOUBLE',
      `DECLARE at_ms BIGINT;
  ${STEP}
  INSERT INTO ${poll} (only_row, holder, lease_until) VALUES (1, new_holder, at_ms + lease_ms)
  ON DUPLICATE KEY UPDATE holder = IF(lease_until <= at_ms, new_holder, holder),
    lease_until = IF(holder = new_holder, at_ms + lease_ms, lease_until);
  SELECT state FROM ${poll} WHERE holder = new_holder;
  COMMIT;`,
    ],
    savePoll: [
      `old_holder VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, lease_ms DOUBLE, new_state ${TEXT}`,
      `DECLARE at_ms BIGINT;
  ${STEP}
  UPDATE ${poll} SET state = new_state, lease_until = at_ms + lease_ms WHERE holder = old_holder;
  SELECT holder FROM ${poll} WHERE holder = old_holder;
  COMMIT;`,
    ],
    requeue: [`ids ${TEXT}`, update("state = 'received', attempts = 0, due_at = at_ms", "'failed', 'dead'")],
    discard: [
      `ids ${TEXT}, discarded_by ${TEXT}, discarded_for ${TEXT}`,
      update(
        `${history("'startedAt', at_ms, 'endedAt', at_ms, 'result', 'discarded', 'error', NULL, 'by', discarded_by, 'reason', discarded_for")},
    state = 'done', due_at = NULL, last_error = NULL, waiting = FALSE`,
        "'received', 'failed', 'dead', 'parked'",
      ),
    ],
    importDone: [
      `ids ${TEXT}`,
      `DECLARE at_ms BIGINT;
  ${CALL_TOKEN}
  ${STEP}
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, token)
  SELECT given.id, '', 'done', 0, 'import', at_ms, at_ms, call_token FROM ${IDS}
  ON DUPLICATE KEY UPDATE seq = ${events}.seq;
  SELECT COUNT(*) AS count FROM ${events} JOIN ${IDS} ON ${events}.id = given.id WHERE token = call_token;
  COMMIT;`,
    ],
    // Reads the row of the event without a lock, which the transaction of the handler can have: of two processes that each
    // believe to have the lease, the primary key lets one begin a step.
    saveStep: [
      `${lease}, step_name ${NAME}, step_result ${TEXT}, what ${STATE}`,
      `DECLARE at_ms BIGINT;
  DECLARE attempt_number INT;
  DECLARE changed INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR 1062 ROLLBACK;
  ${STEP}
  SELECT attempts INTO attempt_number FROM ${events} WHERE id = event_id AND token = lease_token AND state = 'leased';
  IF attempt_number IS NOT NULL AND what = 'forgets' THEN
    DELETE FROM ${steps} WHERE ${steps}.event_id = event_id AND name = step_name AND result IS NULL;
    SET changed = ROW_COUNT();
  ELSEIF attempt_number IS NOT NULL THEN
    UPDATE ${steps} SET attempt = attempt_number, stored_at = at_ms, result = step_result
      WHERE ${steps}.event_id = event_id AND name = step_name AND result IS NULL AND what = 'ends';
    SET changed = ROW_COUNT();
    IF changed = 0 THEN
      INSERT INTO ${steps} (event_id, name, attempt, stored_at, result)
      VALUES (event_id, step_name, attempt_number, at_ms, IF(what = 'ends', step_result, NULL));
      SET changed = 1;
    END IF;
  END IF;
  COMMIT;
  SELECT step_name AS name FROM DUAL WHERE changed > 0;`,
    ],
    stateSteps: [
      `of_event ${NAME}, done ${TEXT}, again ${TEXT}`,
      `DECLARE at_ms BIGINT;
  ${STEP}
  IF EXISTS (SELECT 1 FROM ${events} WHERE id = of_event AND state IN ('failed', 'dead')) THEN
    UPDATE ${steps} JOIN ${IDS.replace('ids', 'done')} ON name = given.id SET result = ''
      WHERE event_id = of_event AND result IS NULL;
    DELETE ${steps} FROM ${steps} JOIN ${IDS.replace('ids', 'again')} ON name = given.id
      WHERE event_id = of_event AND result IS NULL;
  END IF;
  COMMIT;`,
    ],
    prune: [
      'older_than_ms DOUBLE, size INT',
      `DECLARE at_ms BIGINT;
  DECLARE ids ${TEXT};
  ${STEP}
  SELECT JSON_ARRAYAGG(id) INTO ids FROM (SELECT CONVERT(id USING utf8mb4) AS id FROM ${events}
    WHERE whole_since <= at_ms - older_than_ms ORDER BY whole_since LIMIT size FOR UPDATE) AS old;
  UPDATE ${events} JOIN ${IDS} ON ${events}.id = given.id SET event = NULL, history = NULL;
  SELECT ROW_COUNT() AS count;
  DELETE ${steps} FROM ${steps} JOIN ${IDS} ON ${steps}.event_id = given.id;
  COMMIT;`,
    ],
  } as const;
}

export type Procedure = keyof ReturnType<typeof writeProcedures>;

/**
 * Returns the SQL that creates the tables and procedures, one statement per element, for apps that run migrations
 * themselves.
 *
 * Each statement can run again without an effect, and later releases only append to the list: run all of them
 * at each deployment, or the new ones.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or wrong.
 */
export function mysqlMigrations(options: MysqlPrefixOptions = {}): readonly string[] {
  const { prefix } = readOptions('mysqlMigrations', options, { prefix: PREFIX_RULE });
  const [events, poll, steps] = [quote(prefix, 'events'), quote(prefix, 'poll'), quote(prefix, 'steps')];
  const procedures = Object.entries(writeProcedures(prefix, events, poll, steps)).map(
    ([name, [parameters, body]]) =>
      `CREATE PROCEDURE IF NOT EXISTS ${quote(prefix, name)}(${parameters}) SQL SECURITY INVOKER\nBEGIN\n  ${body}\nEND`,
  );
  return [...writeTables(events, poll, steps), ...procedures];
}

/** Returns the statements of the inbox for a checked prefix. All times are by the server's clock. */
export function writeStatements(prefix: string) {
  const events = quote(prefix, 'events');
  const poll = quote(prefix, 'poll');
  const steps = quote(prefix, 'steps');
  // MySQL's own JSON type would reach the app's driver as an object.
  const record = `id, type, state, attempts, source, ordering_key AS \`key\`, traceparent, last_error AS error,
  event AS json, CAST(history AS CHAR) AS history, received_at AS received, updated_at AS updated,
  IF(state = 'parked', NULL, due_at) AS due`;
  const selections = selectionWriter({
    events,
    record,
    conditions: {
      known: `NOT EXISTS (SELECT 1 FROM ${steps} AS s WHERE s.event_id = ${events}.id AND s.result IS NULL)`,
      ids: `id IN (SELECT given.id FROM ${IDS.replace('ids', '?')})`,
      key: 'ordering_key = ?',
      error: 'LOCATE(?, last_error) > 0',
      // Includes events whose JSON is nested more deeply than the server reads.
      damaged: `state <> 'done' AND NOT IF(JSON_VALID(event), JSON_UNQUOTE(JSON_EXTRACT(event, '$.id')), NULL) <=> id`,
    },
  });
  return {
    ...selections,
    call: (name: Procedure, count: number) => `CALL ${quote(prefix, name)}(${Array(count).fill('?').join()})`,
    /** A row if all migrations have run. */
    isMigrated: `SELECT routine_name AS name FROM information_schema.routines
WHERE routine_schema = DATABASE() AND routine_name = '${prefix}_prune'`,
    reads: {
      poll: `SELECT state FROM ${poll}`,
      /** id, the token of the lease that it must have or null. One row without a name for an event without steps. */
      steps: `SELECT s.name, s.attempt, s.stored_at AS at, s.result
FROM ${events} AS e LEFT JOIN ${steps} AS s ON s.event_id = e.id
WHERE e.id = ? AND e.token <=> COALESCE(?, e.token) ORDER BY s.number`,
      /** id */
      find: `SELECT ${record} FROM ${events} WHERE id = ?`,
    },
    list(query: PageQuery): Statement {
      // The rows are read after the index has found the page: with them, the server reads the index from its start.
      const { text, values } = selections.list(query, 'seq, id');
      const direction = query.order === 'oldest' ? 'ASC' : 'DESC';
      return {
        text: `SELECT ${record} FROM ${events} WHERE seq IN (SELECT seq FROM (${text}) AS page)
ORDER BY received_at ${direction}, id ${direction}`,
        values,
      };
    },
  };
}
