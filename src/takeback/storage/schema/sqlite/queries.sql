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
