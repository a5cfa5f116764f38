-- Every statement that the PostgreSQL backend runs, each with a name and what it is for; those that write a
-- whole batch stand in `queries_single.sql`. `takeback.` stands for the schema that the store lies in.

-- name: session
-- What a connection must be set to. Limits that somebody has set stay as they are; without any, a write would
-- wait for a lock for ever. Plans are made once: for a commit, planning takes longer than all the rest.
SELECT set_config('synchronous_commit', CASE
           WHEN %(relaxed)s THEN 'off'
           WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
           ELSE current_setting('synchronous_commit') END, false),
       set_config('lock_timeout', CASE current_setting('lock_timeout')
           WHEN '0' THEN '30s' ELSE current_setting('lock_timeout') END, false),
       set_config('statement_timeout', CASE current_setting('statement_timeout')
           WHEN '0' THEN '60s' ELSE current_setting('statement_timeout') END, false),
       set_config('idle_in_transaction_session_timeout',
           CASE current_setting('idle_in_transaction_session_timeout')
           WHEN '0' THEN '5min' ELSE current_setting('idle_in_transaction_session_timeout') END, false),
       set_config('plan_cache_mode', 'force_generic_plan', false);

-- name: usual_plans
-- For the work of a transactional tool, until the end of its transaction.
SET LOCAL plan_cache_mode TO DEFAULT;

-- name: mark
-- The writer's number, with what a transaction writes; zero rows when this write is there already. Whoever
-- asks waits here for the transaction in which an earlier attempt was lost.
INSERT INTO takeback.writers AS w (tenant, writer, number, seen)
VALUES (%(tenant)s, %(writer)s, %(number)s, now())
ON CONFLICT (tenant, writer) DO UPDATE SET number = excluded.number, seen = excluded.seen
WHERE w.number < excluded.number;

-- name: forget_writers
-- Those who have written nothing for long, when a store is opened.
DELETE FROM takeback.writers WHERE seen < now() - interval '30 days';

-- name: new_tenant
-- A tenant that writes for the first time.
INSERT INTO takeback.tenants (name, since)
VALUES (%(tenant)s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) ON CONFLICT DO NOTHING;

-- name: tenants
-- All tenants, in order of their first write.
SELECT name FROM takeback.tenants ORDER BY since, name;

-- name: new_objects
-- Objects, unless they are there.
WITH present AS (
    SELECT greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) AS now
    FROM takeback.tenants WHERE name = %(tenant)s
)
INSERT INTO takeback.objects AS x (tenant, digest, epoch, codec, size, data)
SELECT %(tenant)s::text, o.digest, e.now, o.codec, o.size, o.data
FROM present AS e,
     unnest(%(digests)b::bytea[], %(codecs)b::bigint[], %(sizes)b::bigint[], %(datas)b::bytea[])
         AS o (digest, codec, size, data)
WHERE (SELECT h.epoch FROM takeback.objects AS h
           WHERE h.tenant = %(tenant)s AND h.digest = o.digest AND h.epoch >= e.now) IS NULL
ORDER BY o.digest
ON CONFLICT (tenant, digest) DO UPDATE SET epoch = excluded.epoch WHERE x.epoch < excluded.epoch;

-- name: read_objects
-- Objects' stored bytes.
SELECT digest, codec, size, data FROM takeback.objects
WHERE tenant = %(tenant)s AND digest = ANY(%(digests)b::bytea[]);

-- name: find_objects
-- Which of these objects are there.
SELECT digest FROM takeback.objects WHERE tenant = %(tenant)s AND digest = ANY(%(digests)b::bytea[]);

-- name: head
-- What a refused commit is told.
SELECT head, head_digest, deleted, lock FROM takeback.threads WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: hold_threads
-- The rows of the threads that a batch is about, locked: what they say stays so until its end. In the order
-- of their uids, so that two batches never wait for one another in a circle.
SELECT uid, head, head_digest, deleted, lock FROM takeback.threads
WHERE tenant = %(tenant)s AND uid = ANY(%(uids)b::bytea[]) ORDER BY uid FOR NO KEY UPDATE;

-- name: taken
-- Whether a thread's uid, or its name among the living, is in use.
SELECT 1 FROM takeback.threads
WHERE tenant = %(tenant)s AND (uid = %(uid)s OR (name_key = %(name_key)s AND deleted IS NULL));

-- name: line_of
-- The line that a checkpoint stands on.
SELECT line FROM takeback.checkpoints WHERE tenant = %(tenant)s AND uid = %(uid)s AND version = %(version)s;

-- name: digest_of
-- The digest of a checkpoint.
SELECT digest FROM takeback.checkpoints WHERE tenant = %(tenant)s AND uid = %(uid)s AND version = %(version)s;

-- name: move_head
-- The head of a thread that is held.
UPDATE takeback.threads SET head = %(version)s, head_digest = %(digest)s, updated = %(time)s
WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: new_checkpoint
-- A checkpoint's row.
INSERT INTO takeback.checkpoints (tenant, uid, version, namespace, kind, line, origin_version, merged_version,
                                  undoes, time, digest, mac, record)
VALUES (%(tenant)s, %(uid)s, %(version)s, %(namespace)s, %(kind)s, %(line)s, %(origin_version)s,
        %(merged_version)s, %(undoes)s, %(time)s, %(digest)s, %(mac)s, %(record)s);

-- name: living_thread
-- A thread with its head, in one read.
SELECT t.number, t.name, t.uid, t.agent, t."user", t.meta, t.created, t.head, t.head_digest, t.updated,
       t.origin_uid, t.origin_version, t.origin_digest, t.deleted, t.family, t.lock,
       c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM takeback.threads AS t
LEFT JOIN takeback.checkpoints AS c ON c.tenant = t.tenant AND c.uid = t.uid AND c.version = t.head
WHERE t.tenant = %(tenant)s AND t.name_key = %(name_key)s AND t.deleted IS NULL;

-- name: thread_by_uid
-- A thread, living or not.
SELECT number, name, uid, agent, "user", meta, created, head, head_digest, updated,
       origin_uid, origin_version, origin_digest, deleted, family, lock
FROM takeback.threads WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: threads
-- Living threads, newest first; a null filter takes all.
SELECT number, name, uid, agent, "user", meta, created, head, head_digest, updated,
       origin_uid, origin_version, origin_digest, deleted, family, lock
FROM takeback.threads
WHERE tenant = %(tenant)s AND deleted IS NULL
  AND (%(agent)s::text IS NULL OR agent = %(agent)s) AND (%(user)s::text IS NULL OR "user" = %(user)s)
  AND (%(low)s::bigint IS NULL OR created >= %(low)s) AND (%(high)s::bigint IS NULL OR created <= %(high)s)
  AND (%(after)s::bigint IS NULL OR number < %(after)s)
ORDER BY number DESC LIMIT %(limit)s::bigint;

-- name: checkpoint
-- One checkpoint.
SELECT t.name, c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM takeback.checkpoints AS c JOIN takeback.threads AS t ON t.tenant = c.tenant AND t.uid = c.uid
WHERE c.tenant = %(tenant)s AND c.uid = %(uid)s AND c.version = %(version)s;

-- name: checkpoints
-- A run of checkpoints, oldest first.
SELECT t.name, c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM takeback.checkpoints AS c JOIN takeback.threads AS t ON t.tenant = c.tenant AND t.uid = c.uid
WHERE c.tenant = %(tenant)s AND c.uid = %(uid)s AND c.version BETWEEN %(low)s AND %(high)s
ORDER BY c.version LIMIT %(limit)s::bigint;

-- name: checkpoints_newest_first
-- A run of checkpoints, newest first.
SELECT t.name, c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM takeback.checkpoints AS c JOIN takeback.threads AS t ON t.tenant = c.tenant AND t.uid = c.uid
WHERE c.tenant = %(tenant)s AND c.uid = %(uid)s AND c.version BETWEEN %(low)s AND %(high)s
ORDER BY c.version DESC LIMIT %(limit)s::bigint;

-- name: merges
-- The merges in a run of checkpoints, by their own small index.
SELECT t.name, c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM takeback.checkpoints AS c JOIN takeback.threads AS t ON t.tenant = c.tenant AND t.uid = c.uid
WHERE c.tenant = %(tenant)s AND c.uid = %(uid)s AND c.version BETWEEN %(low)s AND %(high)s
  AND c.merged_version IS NOT NULL
ORDER BY c.version LIMIT %(limit)s::bigint;

-- name: merges_newest_first
-- The same, newest first.
SELECT t.name, c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM takeback.checkpoints AS c JOIN takeback.threads AS t ON t.tenant = c.tenant AND t.uid = c.uid
WHERE c.tenant = %(tenant)s AND c.uid = %(uid)s AND c.version BETWEEN %(low)s AND %(high)s
  AND c.merged_version IS NOT NULL
ORDER BY c.version DESC LIMIT %(limit)s::bigint;

-- name: labels
-- A thread's labels.
SELECT name, version FROM takeback.labels WHERE tenant = %(tenant)s AND uid = %(uid)s ORDER BY name;

-- name: put_label
-- A label moves to a version.
INSERT INTO takeback.labels (tenant, uid, name, version)
VALUES (%(tenant)s, %(uid)s, %(label)s, %(version)s)
ON CONFLICT (tenant, uid, name) DO UPDATE SET version = excluded.version;

-- name: drop_label
-- A label goes.
DELETE FROM takeback.labels WHERE tenant = %(tenant)s AND uid = %(uid)s AND name = %(label)s;

-- name: bury_thread
-- The tombstone of a thread that is held.
UPDATE takeback.threads SET deleted = %(deleted)s WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: drop_checkpoints
-- What a deleted thread no longer has; its objects are shared and go when nothing refers to them.
DELETE FROM takeback.checkpoints WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: drop_labels
-- The labels of a deleted thread.
DELETE FROM takeback.labels WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: lock_thread
-- A plan takes a thread that is held here, or lets it go.
UPDATE takeback.threads SET lock = %(lock)s::bytea WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: hold_ledgers
-- The numbers of the ledgers that a batch is about, locked.
SELECT family, seq FROM takeback.ledgers
WHERE tenant = %(tenant)s AND family = ANY(%(families)b::bytea[]) ORDER BY family FOR NO KEY UPDATE;

-- name: number_ledger
-- The next number of a ledger; a ledger that is new begins. Zero rows when another process was faster.
INSERT INTO takeback.ledgers AS l (tenant, family, seq) VALUES (%(tenant)s, %(family)s, %(seq)s + 1)
ON CONFLICT (tenant, family) DO UPDATE SET seq = excluded.seq WHERE l.seq = excluded.seq - 1;

-- name: put_cells
-- Cells, each in place of the one of its kind and key.
INSERT INTO takeback.cells AS c (tenant, family, key, kind, thread, seq, live, body)
SELECT %(tenant)s::text, %(family)s, o.key, o.kind, o.thread, %(seq)s + 1, o.live, o.body
FROM unnest(%(keys)b::bytea[], %(kinds)b::text[], %(threads)b::bytea[], %(lives)b::boolean[],
            %(bodies)b::bytea[]) AS o (key, kind, thread, live, body)
ORDER BY o.key, o.kind
ON CONFLICT (tenant, family, key, kind) DO UPDATE
SET thread = excluded.thread, seq = excluded.seq, live = excluded.live, body = excluded.body;

-- name: tell
-- Others may wait for what this transaction writes; they are told when it is committed.
SELECT pg_notify(%(channel)s, %(address)s);

-- name: now
-- The server's clock.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: cells
-- What was written to a family's ledger after a number.
SELECT kind, key, thread, body, live, seq, family FROM takeback.cells
WHERE tenant = %(tenant)s AND family = %(family)s AND seq > %(after)s ORDER BY seq, key;

-- name: cells_live
-- What somebody has to see to; a null family takes all.
SELECT kind, key, thread, body, live, seq, family FROM takeback.cells
WHERE tenant = %(tenant)s AND (%(family)s::bytea IS NULL OR family = %(family)s) AND seq > %(after)s AND live
ORDER BY seq, key;

-- name: epoch
-- When the tenant's last collection began.
SELECT epoch FROM takeback.tenants WHERE name = %(tenant)s;

-- name: wait_for_writers
-- Until the end of its transaction nothing brings objects, and what was brought before is committed: whoever
-- writes after it knows the new epoch.
LOCK TABLE takeback.objects IN SHARE ROW EXCLUSIVE MODE;

-- name: new_epoch
-- A collection begins.
UPDATE takeback.tenants SET epoch = greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) + 1
WHERE name = %(tenant)s;

-- name: objects_page
-- A tenant's objects in the order of their digests.
SELECT digest, epoch, size, octet_length(data)::bigint FROM takeback.objects
WHERE tenant = %(tenant)s AND digest > %(after)s ORDER BY digest LIMIT %(limit)s::bigint;

-- name: object_sizes
-- What some objects take.
SELECT digest, epoch, size, octet_length(data)::bigint FROM takeback.objects
WHERE tenant = %(tenant)s AND digest = ANY(%(digests)b::bytea[]);

-- name: forget_objects
-- Objects go, unless they got a new reference since the collection began. The server gives their space back.
DELETE FROM takeback.objects
WHERE tenant = %(tenant)s AND digest = ANY(%(digests)b::bytea[]) AND epoch < %(epoch)s;

-- name: prune
-- The files of a run of versions are given up.
INSERT INTO takeback.pruned (tenant, uid, low, high, time)
VALUES (%(tenant)s, %(uid)s, %(low)s, %(high)s, %(time)s) ON CONFLICT DO NOTHING;

-- name: pruned
-- The runs of a thread's versions whose files were given up.
SELECT low, high, time FROM takeback.pruned WHERE tenant = %(tenant)s AND uid = %(uid)s ORDER BY low, high;

-- name: drop_pruned
-- Those of a deleted thread.
DELETE FROM takeback.pruned WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: new_audit
-- An entry of the audit log, under the tenant's next number.
WITH counted AS (
    UPDATE takeback.tenants SET audits = audits + 1 WHERE name = %(tenant)s RETURNING name, audits
)
INSERT INTO takeback.audit (tenant, number, uid, thread, time, action, actor, detail)
SELECT c.name, c.audits, %(uid)s::bytea, %(thread)s::text, %(time)s, %(action)s::text, %(actor)s::text, %(detail)s
FROM counted AS c;

-- name: audit
-- The audit log, oldest first; a null uid takes all threads.
SELECT number, uid, thread, time, action, actor, detail FROM takeback.audit
WHERE tenant = %(tenant)s AND (%(uid)s::bytea IS NULL OR uid = %(uid)s) AND number > %(after)s
ORDER BY number LIMIT %(limit)s::bigint;

-- name: counts
-- What doctor prints, and whether it was counted: beyond some size a table is estimated by the server.
WITH sizes AS (
    SELECT (SELECT reltuples FROM pg_class WHERE oid = 'takeback.checkpoints'::regclass)::bigint AS checkpoints,
           (SELECT reltuples FROM pg_class WHERE oid = 'takeback.objects'::regclass)::bigint AS objects
)
SELECT (SELECT count(*) FROM takeback.threads WHERE deleted IS NULL),
       CASE WHEN s.checkpoints < %(many)s THEN (SELECT count(*) FROM takeback.checkpoints) ELSE s.checkpoints END,
       CASE WHEN s.objects < %(many)s THEN (SELECT count(*) FROM takeback.objects) ELSE s.objects END,
       greatest(s.checkpoints, s.objects) < %(many)s
FROM sizes AS s;

-- name: read_only
-- Whether nothing can be written here: a standby, or a server or user that is set to read only.
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on';

-- name: server
-- What durability rests on, whether it can be written, the schema's number, and how much the store takes.
SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       current_setting('max_connections')::bigint,
       pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'
           OR NOT has_table_privilege('takeback.checkpoints', 'INSERT'),
       (SELECT value FROM takeback.store WHERE key = 'schema'),
       (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
        WHERE relnamespace = %(schema)s::text::regnamespace AND relkind = 'r');

-- name: damage
-- Indexes that the server holds for broken, and pages whose checksums were wrong.
SELECT 'the index ' || c.relname || ' is not valid' FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = %(schema)s::text::regnamespace AND NOT (i.indisvalid AND i.indisready)
UNION ALL
SELECT checksum_failures || ' pages of the database ' || datname || ' have a wrong checksum'
FROM pg_stat_database WHERE datname = current_database() AND coalesce(checksum_failures, 0) > 0;

-- name: settings
-- The facts about the store.
SELECT key, value FROM takeback.store;

-- name: put_setting
-- A fact about the store.
INSERT INTO takeback.store (key, value) VALUES (%(key)s, %(value)s)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: tables
-- What lies in the schema already; no row where there is no schema.
SELECT n.nspname, c.relname FROM pg_namespace AS n
LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm')
WHERE n.nspname = %(schema)s ORDER BY 2;

-- name: one_migrator
-- Held by whoever brings the schema up to date, until the end of its transaction; others wait here.
SELECT pg_advisory_xact_lock(%(key)s);

-- name: migrators
-- The same where there are no advisory locks: a table of which a migrator locks the only row.
CREATE TABLE IF NOT EXISTS takeback.migrating (one boolean PRIMARY KEY);

-- name: new_migrator
-- Its row.
INSERT INTO takeback.migrating (one) VALUES (true) ON CONFLICT DO NOTHING;

-- name: lock_migrator
-- Held until the end of the transaction.
SELECT 1 FROM takeback.migrating WHERE one FOR UPDATE;

-- name: new_place
-- One of a graph's checkpoints.
INSERT INTO takeback.graph_places (tenant, uid, version, namespace, number, hash, run, source, step)
VALUES (%(tenant)s, %(uid)s, %(version)s, %(namespace)s,
        ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1577836800000000) * 2048
            + floor(random() * 2048)::bigint,
        %(hash)s, %(run)s, %(source)s, %(step)s);

-- name: hide_places
-- A graph sees these of its checkpoints no longer.
UPDATE takeback.graph_places AS g SET hidden = true
FROM unnest(%(versions)s::bigint[], %(namespaces)s::text[]) AS o (version, namespace)
WHERE g.tenant = %(tenant)s AND g.uid = %(uid)s AND g.version = o.version AND g.namespace = o.namespace;

-- name: drop_places
-- A deleted thread's.
DELETE FROM takeback.graph_places WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: drop_write
-- What a task wrote goes: the next takes its place.
DELETE FROM takeback.graph_writes
WHERE tenant = %(tenant)s AND uid = %(uid)s AND key = %(key)s AND task = %(task)s AND number = %(number)s;

-- name: keep_writes
-- What tasks wrote, unless it is there.
INSERT INTO takeback.graph_writes (tenant, uid, key, task, number, channel, path, codec, size, data, digest)
SELECT %(tenant)s::text, %(uid)s, o.key, o.task, o.number, o.channel, o.path, o.codec, o.size, o.data, o.digest
FROM unnest(%(keys)s::bytea[], %(tasks)s::text[], %(numbers)s::bigint[], %(channels)s::text[],
            %(paths)s::text[], %(codecs)s::bigint[], %(sizes)s::bigint[], %(datas)s::bytea[],
            %(digests)s::bytea[])
    AS o (key, task, number, channel, path, codec, size, data, digest)
ORDER BY o.key, o.task, o.number
ON CONFLICT DO NOTHING;

-- name: drop_writes
-- A deleted thread's.
DELETE FROM takeback.graph_writes WHERE tenant = %(tenant)s AND uid = %(uid)s;

-- name: writes_at
-- What was written at some of a graph's checkpoints, or at all, in the order in which the graph applies it.
SELECT key, task, number, channel, path, codec, size, data, digest FROM takeback.graph_writes
WHERE tenant = %(tenant)s AND uid = %(uid)s AND (%(keys)s::bytea[] IS NULL OR key = ANY(%(keys)s::bytea[]))
ORDER BY key, path, task, number;

-- name: buried
-- The deleted threads that had a name; asked for when a late writer is suspected, so there is no index.
SELECT number, name, uid, agent, "user", meta, created, head, head_digest, updated, origin_uid,
       origin_version, origin_digest, deleted, family, lock
FROM takeback.threads
WHERE tenant = %(tenant)s AND name_key = %(name_key)s AND deleted IS NOT NULL ORDER BY number;

-- name: places_by_hash
-- A graph's checkpoint by its id.
SELECT g.number, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line,
       c.origin_version, c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM takeback.graph_places AS g
JOIN takeback.threads AS t ON t.tenant = g.tenant AND t.uid = g.uid
JOIN takeback.checkpoints AS c ON c.tenant = g.tenant AND c.uid = g.uid AND c.version = g.version
WHERE g.tenant = %(tenant)s AND g.uid = %(uid)s AND g.hash = %(hash)s AND g.hidden <= %(hidden)s
ORDER BY g.version DESC LIMIT %(limit)s;

-- name: places_of_thread
-- A thread's, newest first.
SELECT g.number, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line,
       c.origin_version, c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM takeback.graph_places AS g
JOIN takeback.threads AS t ON t.tenant = g.tenant AND t.uid = g.uid
JOIN takeback.checkpoints AS c ON c.tenant = g.tenant AND c.uid = g.uid AND c.version = g.version
WHERE g.tenant = %(tenant)s AND g.uid = %(uid)s AND g.version < %(before)s
  AND (%(source)s::text IS NULL OR g.source = %(source)s) AND (%(step)s::bigint IS NULL OR g.step = %(step)s)
  AND g.hidden <= %(hidden)s
ORDER BY g.version DESC, g.namespace LIMIT %(limit)s;

-- name: places_of_namespace
-- Those of the graph itself, or of one subgraph.
SELECT g.number, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line,
       c.origin_version, c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM takeback.graph_places AS g
JOIN takeback.threads AS t ON t.tenant = g.tenant AND t.uid = g.uid
JOIN takeback.checkpoints AS c ON c.tenant = g.tenant AND c.uid = g.uid AND c.version = g.version
WHERE g.tenant = %(tenant)s AND g.uid = %(uid)s AND g.version < %(before)s AND g.namespace = %(namespace)s
  AND (%(source)s::text IS NULL OR g.source = %(source)s) AND (%(step)s::bigint IS NULL OR g.step = %(step)s)
  AND g.hidden <= %(hidden)s
ORDER BY g.version DESC LIMIT %(limit)s;

-- name: places_of_run
-- Those that a run made.
SELECT g.number, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line,
       c.origin_version, c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM takeback.graph_places AS g
JOIN takeback.threads AS t ON t.tenant = g.tenant AND t.uid = g.uid
JOIN takeback.checkpoints AS c ON c.tenant = g.tenant AND c.uid = g.uid AND c.version = g.version
WHERE g.tenant = %(tenant)s AND g.run = %(run)s AND g.hidden <= %(hidden)s
ORDER BY g.number DESC LIMIT %(limit)s;

-- name: places_of_all
-- A tenant's, newest first.
SELECT g.number, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line,
       c.origin_version, c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM takeback.graph_places AS g
JOIN takeback.threads AS t ON t.tenant = g.tenant AND t.uid = g.uid
JOIN takeback.checkpoints AS c ON c.tenant = g.tenant AND c.uid = g.uid AND c.version = g.version
WHERE g.tenant = %(tenant)s AND g.number < %(before)s
  AND (%(namespace)s::text IS NULL OR g.namespace = %(namespace)s)
  AND (%(source)s::text IS NULL OR g.source = %(source)s) AND (%(step)s::bigint IS NULL OR g.step = %(step)s)
  AND g.hidden <= %(hidden)s
ORDER BY g.number DESC LIMIT %(limit)s;
