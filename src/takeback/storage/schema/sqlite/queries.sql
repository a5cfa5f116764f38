-- Every statement that the SQLite backend runs, each with a name and what it is for.

-- name: tenant_id
-- The surrogate of a tenant.
SELECT id FROM tenants WHERE name = ?;

-- name: new_tenant
-- A tenant that writes for the first time.
INSERT INTO tenants (name) VALUES (?) RETURNING id;

-- name: tenants
-- All tenants, in order of their first write.
SELECT name FROM tenants ORDER BY id;

-- name: find_object
-- Whether an object is there; two digests may share a hash, so the digest decides.
SELECT id FROM objects WHERE hash = ? AND scope = ? AND digest = ?;

-- name: new_object
-- An object, unless it is there.
INSERT INTO objects (hash, scope, epoch, digest, codec, size, data) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
WHERE NOT EXISTS (SELECT 1 FROM objects WHERE hash = ?1 AND scope = ?2 AND digest = ?4);

-- name: touch_object
-- An object that gets a new reference: it must outlive a collection that has begun.
UPDATE objects SET epoch = ?1 WHERE hash = ?2 AND scope = ?3 AND digest = ?4 AND epoch < ?1;

-- name: read_object
-- An object's stored bytes.
SELECT digest, codec, size, data FROM objects WHERE hash = ? AND scope = ? AND digest = ?;

-- name: new_thread
-- A thread's row; the partial index refuses a second living thread of one name.
INSERT INTO threads (tenant, name, uid, agent, user, meta, created, head, head_digest, updated,
                     origin_uid, origin_version, origin_digest, family)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: new_checkpoint
-- A checkpoint's row.
INSERT INTO checkpoints (thread, version, namespace, kind, line, origin_version, merged_version, undoes,
                         time, digest, mac, record)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: move_head
-- The compare-and-swap: only from the row before, only while the thread lives and no other plan locks it.
UPDATE threads SET head = ?, head_digest = ?, updated = ?
WHERE id = ? AND head = ? AND head_digest = ? AND lock IS ? AND deleted IS NULL;

-- name: head
-- What a refused write is told.
SELECT head, head_digest, deleted, lock FROM threads WHERE id = ?;

-- name: living_thread
-- A thread with its head, in one read.
SELECT t.id, t.name, t.uid, t.agent, t.user, t.meta, t.created, t.head, t.head_digest, t.updated,
       t.origin_uid, t.origin_version, t.origin_digest, t.deleted, t.family, t.lock,
       c.version, c.namespace, c.kind, c.line, c.origin_version, c.merged_version, c.undoes, c.time,
       c.digest, c.mac, c.record
FROM threads AS t LEFT JOIN checkpoints AS c ON c.thread = t.id AND c.version = t.head
WHERE t.tenant = ? AND t.name = ? AND t.deleted IS NULL;

-- name: thread_by_uid
-- A thread, living or not.
SELECT id, name, uid, agent, user, meta, created, head, head_digest, updated,
       origin_uid, origin_version, origin_digest, deleted, family, lock
FROM threads WHERE tenant = ? AND uid = ?;

-- name: threads
-- Living threads, newest first; a null filter takes all.
SELECT id, name, uid, agent, user, meta, created, head, head_digest, updated,
       origin_uid, origin_version, origin_digest, deleted, family, lock
FROM threads
WHERE tenant = ?1 AND deleted IS NULL
  AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR user = ?3)
  AND (?4 IS NULL OR created >= ?4) AND (?5 IS NULL OR created <= ?5)
  AND (?6 IS NULL OR id < ?6)
ORDER BY id DESC LIMIT ?7;

-- name: checkpoint
-- One checkpoint.
SELECT version, namespace, kind, line, origin_version, merged_version, undoes, time, digest, mac, record
FROM checkpoints WHERE thread = ? AND version = ?;

-- name: checkpoints
-- A run of checkpoints, oldest first.
SELECT version, namespace, kind, line, origin_version, merged_version, undoes, time, digest, mac, record
FROM checkpoints WHERE thread = ? AND version BETWEEN ? AND ? ORDER BY version LIMIT ?;

-- name: checkpoints_newest_first
-- A run of checkpoints, newest first.
SELECT version, namespace, kind, line, origin_version, merged_version, undoes, time, digest, mac, record
FROM checkpoints WHERE thread = ? AND version BETWEEN ? AND ? ORDER BY version DESC LIMIT ?;

-- name: merges
-- The merges in a run of checkpoints, by their own small index.
SELECT version, namespace, kind, line, origin_version, merged_version, undoes, time, digest, mac, record
FROM checkpoints INDEXED BY checkpoints_merges
WHERE thread = ? AND version BETWEEN ? AND ? AND merged_version IS NOT NULL
ORDER BY version LIMIT ?;

-- name: merges_newest_first
-- The same, newest first.
SELECT version, namespace, kind, line, origin_version, merged_version, undoes, time, digest, mac, record
FROM checkpoints INDEXED BY checkpoints_merges
WHERE thread = ? AND version BETWEEN ? AND ? AND merged_version IS NOT NULL
ORDER BY version DESC LIMIT ?;

-- name: labels
-- A thread's labels.
SELECT name, version FROM labels WHERE thread = ? ORDER BY name;

-- name: put_label
-- A label moves to a version.
INSERT INTO labels (thread, name, version) VALUES (?, ?, ?)
ON CONFLICT (thread, name) DO UPDATE SET version = excluded.version;

-- name: drop_label
-- A label goes.
DELETE FROM labels WHERE thread = ? AND name = ?;

-- name: bury_thread
-- The tombstone; zero rows when it lies there already, or a plan has the thread.
UPDATE threads SET deleted = ? WHERE id = ? AND deleted IS NULL AND lock IS NULL;

-- name: drop_checkpoints
-- What a deleted thread no longer has; its objects are shared and go when nothing refers to them.
DELETE FROM checkpoints WHERE thread = ?;

-- name: drop_labels
-- The labels of a deleted thread.
DELETE FROM labels WHERE thread = ?;

-- name: still
-- Where a thread's head stands, and what locks it.
SELECT c.line, t.head, t.head_digest, t.deleted, t.lock
FROM threads AS t LEFT JOIN checkpoints AS c ON c.thread = t.id AND c.version = t.head WHERE t.id = ?;

-- name: lock_thread
-- A plan takes a thread, or lets it go; zero rows when another has it.
UPDATE threads SET lock = ? WHERE id = ? AND lock IS ?;

-- name: ledger_seq
-- The number that a family's ledger has come to.
SELECT coalesce(max(seq), 0) FROM cells WHERE tenant = ? AND family = ?;

-- name: put_cell
-- A cell, in place of the one of its kind and key.
INSERT INTO cells (tenant, family, kind, key, thread, seq, live, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, family, key, kind) DO UPDATE
SET thread = excluded.thread, seq = excluded.seq, live = excluded.live, body = excluded.body;

-- name: cells
-- What was written to a family's ledger after a number.
SELECT kind, key, thread, body, live, seq, family FROM cells
WHERE tenant = ? AND family = ? AND seq > ? ORDER BY seq, key;

-- name: cells_live
-- What somebody has to see to; a null family takes all.
SELECT kind, key, thread, body, live, seq, family FROM cells INDEXED BY cells_live
WHERE tenant = ?1 AND (?2 IS NULL OR family = ?2) AND seq > ?3 AND live ORDER BY seq, key;

-- name: epoch
-- When the last collection began; nothing is there before the first.
SELECT value FROM store WHERE key = 'epoch';

-- name: new_epoch
-- A collection begins.
INSERT INTO store (key, value) VALUES ('epoch', ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: objects_page
-- A tenant's objects in the order in which they were written.
SELECT id, digest, epoch, size, length(data) FROM objects WHERE id > ? AND scope = ? ORDER BY id LIMIT ?;

-- name: object_size
-- What one object takes.
SELECT 0, digest, epoch, size, length(data) FROM objects WHERE hash = ? AND scope = ? AND digest = ?;

-- name: forget_object
-- An object goes, unless it got a new reference since the collection began.
DELETE FROM objects WHERE hash = ? AND scope = ? AND digest = ? AND epoch < ?;

-- name: prune
-- The files of a run of versions are given up.
INSERT INTO pruned (thread, low, high, time) VALUES (?, ?, ?, ?)
ON CONFLICT (thread, low, high) DO NOTHING;

-- name: pruned
-- The runs of a thread's versions whose files were given up.
SELECT low, high, time FROM pruned WHERE thread = ? ORDER BY low, high;

-- name: new_audit
-- An entry of the audit log.
INSERT INTO audit (tenant, uid, thread, time, action, actor, detail) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: audit
-- The audit log, oldest first; a null uid takes all threads.
SELECT id, uid, thread, time, action, actor, detail FROM audit
WHERE tenant = ?1 AND (?2 IS NULL OR uid = ?2) AND id > ?3 ORDER BY id LIMIT ?4;

-- name: counts
-- What doctor prints.
SELECT (SELECT count(*) FROM threads WHERE deleted IS NULL), (SELECT count(*) FROM checkpoints),
       (SELECT count(*) FROM objects);

-- name: setting
-- A fact about the store.
SELECT value FROM store WHERE key = ?;

-- name: new_setting
-- A fact about the store, written when it is made.
INSERT INTO store (key, value) VALUES (?, ?);

-- name: new_place
-- One of a graph's checkpoints.
INSERT INTO graph_places (tenant, thread, version, namespace, hash, run, source, step)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: hide_place
-- A graph sees one of its checkpoints no longer.
UPDATE graph_places SET hidden = 1 WHERE thread = ? AND version = ? AND namespace = ?;

-- name: drop_places
-- A deleted thread's.
DELETE FROM graph_places WHERE thread = ?;

-- name: keep_write
-- What a task wrote, unless it is there.
INSERT INTO graph_writes (thread, hash, key, task, number, channel, path, codec, size, data, digest)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 WHERE NOT EXISTS (
    SELECT 1 FROM graph_writes WHERE thread = ?1 AND hash = ?2 AND key = ?3 AND task = ?4 AND number = ?5
);

-- name: drop_write
-- What a task wrote goes: the next takes its place.
DELETE FROM graph_writes WHERE thread = ? AND hash = ? AND key = ? AND task = ? AND number = ?;

-- name: drop_writes
-- A deleted thread's.
DELETE FROM graph_writes WHERE thread = ?;

-- name: writes_at
-- What was written at one of a graph's checkpoints, in the order in which the graph applies it.
SELECT key, task, number, channel, path, codec, size, data, digest FROM graph_writes
WHERE thread = ? AND hash = ? AND key = ? ORDER BY path, task, number;

-- name: writes
-- What was written in a thread.
SELECT key, task, number, channel, path, codec, size, data, digest FROM graph_writes
WHERE thread = ? ORDER BY key, path, task, number;

-- name: places_by_hash
-- A graph's checkpoint by its id.
SELECT g.seq, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line, c.origin_version,
       c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM graph_places AS g JOIN threads AS t ON t.id = g.thread
JOIN checkpoints AS c ON c.thread = g.thread AND c.version = g.version
WHERE g.thread = :thread AND g.hash = :hash AND g.hidden <= :hidden
ORDER BY g.version DESC LIMIT :limit;

-- name: places_of_thread
-- A thread's, newest first.
SELECT g.seq, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line, c.origin_version,
       c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM graph_places AS g INDEXED BY graph_places_version
JOIN threads AS t ON t.id = g.thread
JOIN checkpoints AS c ON c.thread = g.thread AND c.version = g.version
WHERE g.thread = :thread AND g.version < :before
  AND (:source IS NULL OR g.source = :source) AND (:step IS NULL OR g.step = :step) AND g.hidden <= :hidden
ORDER BY g.version DESC, g.namespace LIMIT :limit;

-- name: places_of_root
-- Those of the graph itself.
SELECT g.seq, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line, c.origin_version,
       c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM graph_places AS g INDEXED BY graph_places_version
JOIN threads AS t ON t.id = g.thread
JOIN checkpoints AS c ON c.thread = g.thread AND c.version = g.version
WHERE g.thread = :thread AND g.version < :before AND g.namespace = ''
  AND (:source IS NULL OR g.source = :source) AND (:step IS NULL OR g.step = :step) AND g.hidden <= :hidden
ORDER BY g.version DESC LIMIT :limit;

-- name: places_of_subgraph
-- Those of one subgraph.
SELECT g.seq, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line, c.origin_version,
       c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM graph_places AS g INDEXED BY graph_places_subgraph
JOIN threads AS t ON t.id = g.thread
JOIN checkpoints AS c ON c.thread = g.thread AND c.version = g.version
WHERE g.thread = :thread AND g.version < :before AND g.namespace = :namespace AND g.namespace <> ''
  AND (:source IS NULL OR g.source = :source) AND (:step IS NULL OR g.step = :step) AND g.hidden <= :hidden
ORDER BY g.version DESC LIMIT :limit;

-- name: places_of_run
-- Those that a run made.
SELECT g.seq, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line, c.origin_version,
       c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM graph_places AS g INDEXED BY graph_places_run
JOIN threads AS t ON t.id = g.thread
JOIN checkpoints AS c ON c.thread = g.thread AND c.version = g.version
WHERE g.tenant = :tenant AND g.run = :run AND g.hidden <= :hidden
ORDER BY g.seq DESC LIMIT :limit;

-- name: places_of_all
-- A tenant's, newest first in the store's own order.
SELECT g.seq, g.namespace, g.hidden, t.name, t.uid, c.version, c.namespace, c.kind, c.line, c.origin_version,
       c.merged_version, c.undoes, c.time, c.digest, c.mac, c.record
FROM graph_places AS g JOIN threads AS t ON t.id = g.thread
JOIN checkpoints AS c ON c.thread = g.thread AND c.version = g.version
WHERE g.tenant = :tenant AND g.seq < :before AND (:namespace IS NULL OR g.namespace = :namespace)
  AND (:source IS NULL OR g.source = :source) AND (:step IS NULL OR g.step = :step) AND g.hidden <= :hidden
ORDER BY g.seq DESC LIMIT :limit;

-- name: buried
-- The deleted threads that had a name; asked for when a late writer is suspected, so there is no index.
SELECT id, name, uid, agent, user, meta, created, head, head_digest, updated,
       origin_uid, origin_version, origin_digest, deleted, family, lock
FROM threads WHERE tenant = ? AND name = ? AND deleted IS NOT NULL;
