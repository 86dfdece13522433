/** MariaDB and MySQL run the same SQL. */
import { readOptions } from '../core/options.js';
import { PREFIX_RULE } from './name-rule.js';
import { AHEAD_MS, columnsOf, IGNORED, type PageQuery, selectionWriter } from './selection.js';
import { VERSION } from './server-inbox.js';
import { named, namesIn, passed, place, type Template, toSnake } from './statements.js';

/** Options that tell a function the names of the inbox's tables. */
export interface MysqlPrefixOptions {
  /**
   * The prefix of the names of the inbox's tables and procedures, which are in the pool's database. The prefix can contain
   * up to 40 letters, digits and underscores, and must not start with a digit.
   *
   * @default 'stablehooks'
   */
  readonly prefix?: string | undefined;
}

/** This savepoint exists only in the transaction that the inbox began for an event. */
const FENCE = 'stablehooks_fence';

/** This variable keeps the connection's own value of `autocommit` during an event's transaction. */
const AUTOCOMMIT = '@stablehooks_autocommit';

/** The time is in epoch ms. `UNIX_TIMESTAMP(NOW(3))` would be ambiguous when daylight saving time ends. */
const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";

/** A session with EMPTY_STRING_IS_NULL reads the literal '' as NULL. */
export const EMPTY = 'SPACE(0)';
const TEXT = 'LONGTEXT CHARACTER SET utf8mb4';
/** Names and keys compare by bytes. Collations would ignore case, accents or trailing spaces. */
const NAME = 'VARBINARY(512)';
const STATE = 'VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin';
const TOKEN = 'VARBINARY(36)';

/** `SET TRANSACTION` fails with error 1568 if the app left a transaction open. */
const BEGIN = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION';

/** If the procedure fails, the handler leaves no transaction open. */
const STEP = `DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  ${BEGIN}; SET at_ms = ${NOW};`;

/** Drops the oldest attempt, or the second oldest if the lease of the oldest one expired. */
const SHORTER = `IF(JSON_UNQUOTE(JSON_EXTRACT(history, '$[0].result')) = 'lapsed', JSON_REMOVE(history, '$[1]'), JSON_REMOVE(history, '$[0]'))`;

/** An UPDATE must assign the history first, because this expression reads columns that the UPDATE changes. */
const history = (...members: readonly string[]) =>
  `history = JSON_ARRAY_APPEND(IF(JSON_LENGTH(history) >= 10, ${SHORTER}, COALESCE(history, JSON_ARRAY())),
      '$', JSON_OBJECT('attempt', attempts, ${members.join()}))`;
const ended = (result: string, endedAt: string, error: string) =>
  history(`'startedAt', updated_at, 'endedAt', ${endedAt}, 'result', ${result}, 'error', ${error}`);
const withPerson = (result: string) =>
  history(
    `'startedAt', at_ms, 'endedAt', at_ms, 'result', '${result}', 'error', NULL, 'by', :by, 'reason', :reason`,
  );
const LAPSED = ended("'lapsed'", 'GREATEST(due_at, updated_at)', 'NULL');
const IF_LAPSED = LAPSED.replace(/^history = (.*)$/s, "history = IF(state = 'leased', $1, history)");

const IDS = `JSON_TABLE(:ids, '$[*]' COLUMNS (id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$')) AS given`;
/** Selects leases that start in the future, except the leases that this process holds. */
const AHEAD = `(updated_at > ${NOW} + ${AHEAD_MS} AND token NOT IN (SELECT given.id FROM ${IDS.replace(':ids', ':held')}))`;
const PAIRS = `JSON_TABLE(found, '$[*]' COLUMNS (seq BIGINT UNSIGNED PATH '$[0]', due BIGINT PATH '$[1]')) AS pair`;

const quote = (prefix: string, name: string) => `\`${prefix}_${toSnake(name)}\``;

const tablesOf = (prefix: string) =>
  [quote(prefix, 'events'), quote(prefix, 'notes'), quote(prefix, 'steps')] as const;

function writeTables(events: string, notes: string, steps: string): readonly string[] {
  return [
    // The columns at the end replace partial indexes: a unique index can contain any number of NULLs. `seq` is not
    // AUTO_INCREMENT, because the table lock of AUTO_INCREMENT deadlocks with row locks, and InnoDB notices that only after
    // 50 s.
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
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin, ROW_FORMAT = DYNAMIC, COMMENT 'stablehooks, version ${VERSION}'`,
    `CREATE TABLE IF NOT EXISTS ${steps} (
  number BIGINT UNSIGNED NOT NULL DEFAULT (UUID_SHORT()),
  event_id ${NAME} NOT NULL,
  name ${NAME} NOT NULL,
  attempt INT NOT NULL,
  stored_at BIGINT NOT NULL,
  result LONGTEXT,
  PRIMARY KEY (event_id, name)
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin, ROW_FORMAT = DYNAMIC`,
    `CREATE TABLE IF NOT EXISTS ${notes} (
  name ${NAME} NOT NULL PRIMARY KEY,
  text LONGTEXT,
  holder ${NAME},
  lease_until BIGINT NOT NULL DEFAULT 0,
  leased_at BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin`,
  ];
}

/**
 * A claim locks the event that holds the key before it locks its own event. The end of an attempt locks its own event before
 * it locks the event that waits. In this order, the two operations can't deadlock.
 */
const claim = (events: string) => `
  DECLARE at_ms, until_ms, holder_due, own_due BIGINT;
  DECLARE holder_seq, own_seq BIGINT UNSIGNED;
  DECLARE own_state ${STATE};
  DECLARE own_attempts INT;
  DECLARE own_token ${TOKEN};
  ${STEP}
  IF :key IS NOT NULL THEN
    SELECT seq, due_at INTO holder_seq, holder_due FROM ${events}
      WHERE leased_key = :key AND id <> :id FOR UPDATE;
    SET at_ms = ${NOW};
  END IF;
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, created_at, token,
    ordering_key, waiting, event)
  VALUES (:id, :type, IF(holder_seq IS NULL, 'leased', 'received'), holder_seq IS NULL, :origin, at_ms, at_ms,
    COALESCE(holder_due, at_ms + :leaseMs), :createdMs, :token, :key, holder_seq IS NOT NULL, :json)
  ON DUPLICATE KEY UPDATE seq = ${events}.seq;
  SELECT seq, state, attempts, due_at, token INTO own_seq, own_state, own_attempts, own_due, own_token
    FROM ${events} WHERE id = :id FOR UPDATE;
  IF own_seq IS NULL THEN
    SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Another event of the ordering key was leased.';
  END IF;
  IF own_token <=> :token AND own_state = 'leased' THEN
    SET own_state = 'claimed';
  ELSE
    SET at_ms = ${NOW};
    IF own_state IN ('received', 'parked') OR own_due <= at_ms OR own_state = 'failed' AND :early THEN
      IF holder_due > at_ms THEN
        UPDATE ${events} SET ${IF_LAPSED}, state = 'received', due_at = holder_due, token = NULL, updated_at = at_ms,
          ordering_key = :key, created_at = :createdMs, waiting = TRUE WHERE seq = own_seq;
        SET own_state = 'waiting', own_due = holder_due;
      ELSE
        SET until_ms = at_ms + :leaseMs;
        UPDATE ${events} SET ${LAPSED}, state = 'received', due_at = until_ms, token = NULL, updated_at = at_ms,
          waiting = TRUE WHERE seq = holder_seq;
        SET own_attempts = own_attempts + 1;
        UPDATE ${events} SET ${IF_LAPSED}, state = 'leased', attempts = own_attempts, due_at = until_ms,
          token = :token, updated_at = at_ms, ordering_key = :key, created_at = :createdMs, waiting = FALSE
          WHERE seq = own_seq;
        SET own_state = 'claimed';
      END IF;
    END IF;
  END IF;
  COMMIT;
  SELECT own_state AS result, own_attempts AS attempts, own_due - at_ms AS wait;`;

/** Sets `ended` to the result, or to NULL if the lease is lost. */
const endAttempt = (events: string) => `
  DECLARE at_ms BIGINT DEFAULT ${NOW};
  DECLARE next_seq BIGINT UNSIGNED;
  IF :result = 'later' AND EXISTS (SELECT 1 FROM ${events} WHERE id = :id AND received_at <= at_ms - :maxAgeMs) THEN
    SET :result = 'dead', :retryAfterMs = NULL;
  END IF;
  UPDATE ${events} SET ${ended(':result', 'at_ms', ':error')}, due_at = at_ms + :retryAfterMs,
    state = IF(:result = 'later', 'received', :result), attempts = attempts - (:result = 'later'), token = NULL,
    last_error = :error, updated_at = at_ms WHERE id = :id AND token = :token AND state = 'leased';
  SET ended = IF(ROW_COUNT() = 0, NULL, :result);
  IF ended IS NOT NULL AND :key IS NOT NULL THEN
    SELECT seq INTO next_seq FROM ${events} WHERE waiting_key = :key ORDER BY created_at, seq LIMIT 1 FOR UPDATE;
    UPDATE ${events} SET due_at = at_ms, updated_at = at_ms, waiting = FALSE WHERE seq = next_seq;
  END IF;`;

/** Marks the rows that this call stores. */
const CALL_TOKEN = `DECLARE call_token ${TOKEN} DEFAULT UUID();`;

const record = (events: string) => `
  DECLARE at_ms BIGINT;
  ${CALL_TOKEN}
  ${STEP}
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, created_at, token,
    ordering_key, event)
  SELECT page.id, page.type, :state, 0, :origin, at_ms, at_ms,
    CASE :state WHEN 'received' THEN at_ms + :dueInMs WHEN 'parked' THEN 0 END, page.created, call_token, page.ordering_key,
    page.event
  FROM JSON_TABLE(:events, '$[*]' COLUMNS (position FOR ORDINALITY,
    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]', type VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]',
    event ${TEXT} PATH '$[2]', created BIGINT PATH '$[3]', ordering_key VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[4]')) AS page
  LEFT JOIN ${events} AS known ON known.id = page.id WHERE known.seq IS NULL ORDER BY page.position
  ON DUPLICATE KEY UPDATE seq = ${events}.seq;
  SELECT page.id, IF(stored.token <=> call_token, 'new', stored.state) AS result
  FROM JSON_TABLE(:events, '$[*]' COLUMNS (position FOR ORDINALITY, id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]')) AS page
  JOIN ${events} AS stored ON stored.id = page.id ORDER BY page.position;
  COMMIT;`;

/** Reads each type separately from the index, so that due events of other types are not read. */
const takeDue = (events: string) => `
  DECLARE at_ms BIGINT;
  DECLARE position INT DEFAULT 0;
  DECLARE of_type ${NAME};
  DECLARE found ${TEXT} DEFAULT '[]';
  DECLARE more ${TEXT};
  ${STEP}
  WHILE position < JSON_LENGTH(:types) DO
    SET of_type = JSON_UNQUOTE(JSON_EXTRACT(:types, CONCAT('$[', position, ']')));
    SELECT JSON_ARRAYAGG(JSON_ARRAY(seq, due_at)) INTO more FROM (
      SELECT seq, due_at FROM ${events} FORCE INDEX (due) WHERE type = of_type AND due_at <= at_ms
      ORDER BY due_at, seq LIMIT :limit FOR UPDATE SKIP LOCKED) AS locked;
    SET found = JSON_MERGE_PRESERVE(found, COALESCE(more, '[]')), position = position + 1;
  END WHILE;
  SELECT JSON_ARRAYAGG(JSON_ARRAY(seq, due)) INTO found FROM (
    SELECT seq, due FROM ${PAIRS} ORDER BY due, seq LIMIT :limit) AS longest;
  UPDATE ${events} JOIN ${PAIRS} USING (seq) SET ${IF_LAPSED}, updated_at = IF(state = 'received', updated_at, at_ms),
    state = 'received', due_at = at_ms + :visibilityTimeoutMs, token = NULL, waiting = FALSE;
  SELECT id, event AS json FROM ${events} JOIN ${PAIRS} USING (seq) ORDER BY due, seq;
  COMMIT;`;

/** Parameters that are not listed are times or texts. */
const TYPES: readonly (readonly [type: string, names: string])[] = [
  [NAME, 'id type key name'],
  [STATE, 'origin state result what'],
  [TOKEN, 'token'],
  ['VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin', 'holder'],
  ['INT', 'limit'],
  ['BOOLEAN', 'early begins force'],
];

function declare(name: string): string {
  const [type = name.endsWith('Ms') ? 'DOUBLE' : TEXT] =
    TYPES.find(([, names]) => names.split(' ').includes(name)) ?? [];
  return `:${name} ${type}`;
}

function writeBodies(prefix: string, events: string, notes: string, steps: string) {
  const ends = endAttempt(events);
  const end = (given: Readonly<Record<string, string>> = {}) => {
    const values = namesIn(ends).map((name) => given[name] ?? `:${name}`);
    return `CALL ${quote(prefix, 'endAttempt')}(${values.join()}, ended)`;
  };
  const update = (set: string, condition: string) => `
  DECLARE at_ms BIGINT;
  ${STEP}
  UPDATE ${events} JOIN ${IDS} ON ${events}.id = given.id SET ${set}, updated_at = at_ms WHERE ${condition};
  SELECT ROW_COUNT() AS count;
  COMMIT;`;
  return {
    claim: claim(events),
    endAttempt: ends,
    finish: `DECLARE at_ms BIGINT;
  DECLARE ended ${STATE};
  ${STEP}
  ${end()};
  COMMIT;
  SELECT ended;`,
    // The first call in a transaction locks nothing, because a second delivery would have to wait for the handler. With
    // `autocommit` off, nothing that the handler writes after a deadlock has ended the transaction is committed.
    fence: `SET ${AUTOCOMMIT} = @@autocommit;
  IF :begins THEN ${BEGIN}; END IF;
  SET autocommit = 0;
  SAVEPOINT ${FENCE};
  SELECT COUNT(*) AS leased FROM ${events} WHERE id = :id AND token = :token AND state = 'leased';`,
    // The first statement fails in any transaction other than the one that the inbox began.
    complete: `DECLARE ended ${STATE};
  RELEASE SAVEPOINT ${FENCE};
  ${end({ result: "'done'", retryAfterMs: 'NULL', error: 'NULL', maxAgeMs: 'NULL' })};
  IF ended IS NOT NULL THEN COMMIT; SET autocommit = ${AUTOCOMMIT}; END IF;
  SELECT ended IS NOT NULL AS leased;`,
    // Called instead of `complete`, `undo` returns whether the transaction had already ended.
    undo: `DECLARE has_ended BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR 1305 SET has_ended = TRUE;
  ROLLBACK TO SAVEPOINT ${FENCE};
  ROLLBACK;
  SET autocommit = ${AUTOCOMMIT};
  SELECT has_ended AS ended;`,
    record: record(events),
    takeDue: takeDue(events),
    writeNote: `DECLARE at_ms BIGINT;
  ${STEP}
  IF :holder IS NULL THEN
    INSERT INTO ${notes} (name, text) VALUES (:name, :note) ON DUPLICATE KEY UPDATE text = :note;
  ELSE
    UPDATE ${notes} SET text = :note WHERE name = :name AND holder = :holder;
  END IF;
  SELECT name FROM ${notes} WHERE name = :name AND holder <=> COALESCE(:holder, holder);
  COMMIT;`,
    leaseNote: `DECLARE at_ms BIGINT;
  ${STEP}
  INSERT INTO ${notes} (name, holder, lease_until, leased_at) VALUES (:name, :holder, at_ms + :leaseMs, at_ms)
  ON DUPLICATE KEY UPDATE holder = IF(lease_until <= at_ms OR leased_at > at_ms + ${AHEAD_MS}, :holder, holder),
    lease_until = IF(holder = :holder, at_ms + :leaseMs, lease_until), leased_at = IF(holder = :holder, at_ms, leased_at);
  SELECT name FROM ${notes} WHERE name = :name AND holder = :holder;
  COMMIT;`,
    requeue: update(
      `${withPerson('requeued').replace(/^history = (.*)$/s, 'history = IF(:by IS NULL, history, $1)')},
    state = 'received', attempts = 0, due_at = at_ms`,
      `state IN ('failed', 'dead') OR (state = 'done' AND ${IGNORED})`,
    ),
    discard: update(
      `${withPerson('discarded')},
    state = 'done', due_at = NULL, last_error = NULL, waiting = FALSE`,
      "state IN ('received', 'failed', 'dead', 'parked')",
    ),
    // Checks the conditions of the selection again, because another call may have leased an event in the meantime.
    endLeases: `DECLARE at_ms BIGINT;
  DECLARE found ${TEXT};
  ${STEP}
  SELECT JSON_ARRAYAGG(id) INTO found FROM (SELECT CONVERT(id USING utf8mb4) AS id FROM ${events}
    WHERE id IN (SELECT given.id FROM ${IDS}) AND state = 'leased'
      AND (:force OR due_at <= at_ms OR updated_at > at_ms + ${AHEAD_MS}) FOR UPDATE SKIP LOCKED) AS leased;
  UPDATE ${events} JOIN ${IDS.replace(':ids', 'found')} ON ${events}.id = given.id
    SET ${ended("'lapsed'", 'GREATEST(LEAST(at_ms, due_at), updated_at)', 'NULL')}, state = 'failed', due_at = at_ms, updated_at = at_ms, token = NULL;
  SELECT given.id FROM ${IDS.replace(':ids', 'found')};
  COMMIT;`,
    importDone: `DECLARE at_ms BIGINT;
  ${CALL_TOKEN}
  ${STEP}
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, token)
  SELECT given.id, ${EMPTY}, 'done', 0, 'import', at_ms, at_ms, call_token FROM ${IDS}
  ON DUPLICATE KEY UPDATE seq = ${events}.seq;
  SELECT COUNT(*) AS count FROM ${events} JOIN ${IDS} ON ${events}.id = given.id WHERE token = call_token;
  COMMIT;`,
    // Reads the event's row without a lock, because the handler's transaction may have locked the row. If two processes both
    // believe that they hold the lease, the primary key lets only one of them begin a step.
    saveStep: `DECLARE at_ms BIGINT;
  DECLARE attempt_number INT;
  DECLARE changed INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR 1062 ROLLBACK;
  ${STEP}
  SELECT attempts INTO attempt_number FROM ${events} WHERE id = :id AND token = :token AND state = 'leased';
  IF attempt_number IS NOT NULL AND :what = 'forgets' THEN
    DELETE FROM ${steps} WHERE event_id = :id AND name = :name AND result IS NULL;
    SET changed = ROW_COUNT();
  ELSEIF attempt_number IS NOT NULL THEN
    UPDATE ${steps} SET attempt = attempt_number, stored_at = at_ms, result = :value
      WHERE event_id = :id AND name = :name AND result IS NULL AND :what = 'ends';
    SET changed = ROW_COUNT();
    IF changed = 0 THEN
      INSERT INTO ${steps} (event_id, name, attempt, stored_at, result)
      VALUES (:id, :name, attempt_number, at_ms, IF(:what = 'ends', :value, NULL));
      SET changed = 1;
    END IF;
  END IF;
  COMMIT;
  SELECT :name AS name FROM DUAL WHERE changed > 0;`,
    stateSteps: `DECLARE at_ms BIGINT;
  ${STEP}
  IF EXISTS (SELECT 1 FROM ${events} WHERE id = :id AND state IN ('failed', 'dead')) THEN
    UPDATE ${steps} JOIN ${IDS.replace(':ids', ':done')} ON name = given.id SET result = ${EMPTY}
      WHERE event_id = :id AND result IS NULL;
    DELETE ${steps} FROM ${steps} JOIN ${IDS.replace(':ids', ':again')} ON name = given.id
      WHERE event_id = :id AND result IS NULL;
  END IF;
  COMMIT;`,
    prune: `DECLARE at_ms BIGINT;
  DECLARE ids ${TEXT};
  ${STEP}
  SELECT JSON_ARRAYAGG(id) INTO ids FROM (SELECT CONVERT(id USING utf8mb4) AS id FROM ${events}
    WHERE whole_since <= at_ms - :olderThanMs ORDER BY whole_since LIMIT :limit FOR UPDATE) AS old;
  UPDATE ${events} JOIN ${IDS.replace(':ids', 'ids')} ON ${events}.id = given.id SET event = NULL, history = NULL;
  SELECT ROW_COUNT() AS count;
  DELETE ${steps} FROM ${steps} JOIN ${IDS.replace(':ids', 'ids')} ON ${steps}.event_id = given.id;
  COMMIT;`,
  };
}

/**
 * Returns the SQL that creates the tables and procedures, one statement per element. Use this function if your app runs its
 * own migrations.
 *
 * Rerunning a statement has no effect, and later releases only append statements to the list. At each deployment, run either
 * all statements or only the new ones.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or invalid.
 */
export function mysqlMigrations(options: MysqlPrefixOptions = {}): readonly string[] {
  const { prefix } = readOptions('mysqlMigrations', options, { prefix: PREFIX_RULE });
  const tables = tablesOf(prefix);
  const procedures = Object.entries(writeBodies(prefix, ...tables)).map(([name, body]) => {
    const parameters = namesIn(body).map(declare);
    if (name === 'endAttempt') parameters.push(`OUT ended ${STATE}`);
    return passed(
      `CREATE PROCEDURE IF NOT EXISTS ${quote(prefix, name)}(${parameters.join(', ')}) SQL SECURITY INVOKER\nBEGIN\n  ${body}\nEND`,
    );
  });
  return [...writeTables(...tables), ...procedures];
}

/** The prefix must already have been checked. All times come from the server's clock. */
export function writeStatements(prefix: string) {
  const tables = tablesOf(prefix);
  const [events, notes, steps] = tables;
  // Without the cast, the app's driver would return MySQL's own JSON type as an object.
  const record = `id, type, state, attempts, source, ordering_key AS \`key\`, last_error AS error,
  event AS json, CAST(history AS CHAR) AS history, received_at AS received, updated_at AS updated,
  IF(state = 'parked', NULL, due_at) AS due`;
  const selections = selectionWriter({
    events,
    record,
    conditions: {
      known: `NOT EXISTS (SELECT 1 FROM ${steps} AS s WHERE s.event_id = ${events}.id AND s.result IS NULL)`,
      ids: `id IN (SELECT given.id FROM ${IDS})`,
      key: 'ordering_key = :key',
      error: 'LOCATE(:error, last_error) > 0',
      ahead: AHEAD,
      expired: `(due_at <= ${NOW} OR ${AHEAD})`,
    },
  });
  const bodies = writeBodies(prefix, ...tables);
  const calls = Object.entries(bodies).map(
    ([name, body]) => [name, place(`CALL ${quote(prefix, name)}(${named(namesIn(body))})`)] as const,
  );
  return {
    ...selections,
    /** Returns a row only if all migrations have run. */
    isMigrated: `SELECT routine_name AS name FROM information_schema.routines
WHERE routine_schema = DATABASE() AND routine_name = '${prefix}_prune'`,
    /** Returns no row if there are no tables. */
    version: `SELECT table_comment AS version FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = '${prefix}_events'`,
    calls: {
      ...(Object.fromEntries(calls) as Readonly<Record<keyof typeof bodies, Template>>),
      readNote: place(`SELECT text FROM ${notes} WHERE name = :name`),
      /** Returns one row without a name if the event has no steps. */
      steps: place(`SELECT s.name, s.attempt, s.stored_at AS at, s.result
FROM ${events} AS e LEFT JOIN ${steps} AS s ON s.event_id = e.id
WHERE e.id = :id AND e.token <=> COALESCE(:token, e.token) ORDER BY s.number`),
      find: place(`SELECT ${record} FROM ${events} WHERE id = :id`),
    },
    list(query: PageQuery): string {
      // Finds the page in the index before it reads the rows, because a single query would read the whole index.
      const direction = query.order === 'oldest' ? 'ASC' : 'DESC';
      return `SELECT ${columnsOf(record, query)} FROM ${events} WHERE seq IN (SELECT seq FROM (${selections.list(query, 'seq, id')}) AS page)
ORDER BY received_at ${direction}, id ${direction}`;
    },
  };
}
