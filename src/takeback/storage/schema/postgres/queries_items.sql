-- Every statement about items of memory, each with a name and what it is for.

-- name: hold_items
-- The rows of the items that a batch is about, locked in the order of their names.
SELECT namespace, key, count FROM takeback.items
WHERE tenant = %(tenant)s
  AND (namespace, key) IN (SELECT * FROM unnest(%(namespaces)s::text[], %(keys)s::text[]))
ORDER BY namespace, key FOR NO KEY UPDATE;

-- name: item_written
-- A version joins its item, which it may bring into being: its number, and its place in the order. No row
-- when the item is not as it was seen.
INSERT INTO takeback.items AS i (tenant, namespace, key, count, newest)
VALUES (%(tenant)s, %(namespace)s, %(key)s, 1, %(at)s)
ON CONFLICT (tenant, namespace, key) DO UPDATE
SET count = i.count + 1, newest = greatest(i.newest + 1, excluded.newest)
WHERE %(count)s::bigint IS NULL OR (i.count = %(count)s AND i.turn = %(turn)s)
RETURNING count, newest;

-- name: item_brought
-- The same for one from elsewhere: it keeps its own place.
INSERT INTO takeback.items AS i (tenant, namespace, key, count, newest)
VALUES (%(tenant)s, %(namespace)s, %(key)s, 1, %(at)s)
ON CONFLICT (tenant, namespace, key) DO UPDATE
SET count = i.count + 1, newest = greatest(i.newest, excluded.newest)
RETURNING count;

-- name: item_place
-- The newest place in an item's order, where a brought version had to give way.
UPDATE takeback.items SET newest = greatest(newest, %(at)s)
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND key = %(key)s;

-- name: item_taken
-- The places in an item's order, from one on.
SELECT at FROM takeback.item_versions
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND key = %(key)s AND at >= %(at)s ORDER BY at;

-- name: item_known
-- Whether an item has this very version.
SELECT 1 FROM takeback.item_versions
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND key = %(key)s AND digest = %(digest)s;

-- name: new_item_version
-- A version's row.
INSERT INTO takeback.item_versions
    (tenant, namespace, key, at, number, thread, line, version, free, digest, mac, record)
VALUES (%(tenant)s, %(namespace)s, %(key)s, %(at)s, %(number)s, %(thread)s, %(line)s, %(version)s, %(free)s,
        %(digest)s, %(mac)s, %(record)s);

-- name: turn_item
-- A history went back over a version of it; no row when it is not as it was seen.
UPDATE takeback.items SET turn = turn + 1
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND key = %(key)s
  AND count = %(count)s AND turn = %(turn)s;

-- name: touch_item
-- Its time to live counts from here.
UPDATE takeback.items SET touched = greatest(touched, %(time)s)
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND key = %(key)s;

-- name: free_item
-- A version is no history's any more, and stays for good.
UPDATE takeback.item_versions SET free = true
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND key = %(key)s AND number = %(number)s;

-- name: versions_of
-- The versions of an item, newest first, with where their writers stand.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM takeback.items AS i JOIN takeback.item_versions AS v
    ON v.tenant = i.tenant AND v.namespace = i.namespace AND v.key = i.key
LEFT JOIN takeback.threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN takeback.checkpoints AS c ON c.tenant = t.tenant AND c.uid = t.uid AND c.version = t.head
WHERE i.tenant = %(tenant)s AND i.namespace = %(namespace)s AND i.key = %(key)s
ORDER BY v.at DESC LIMIT %(limit)s::bigint;

-- name: newest_under
-- The newest version of each item in a run of namespaces.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM takeback.items AS i JOIN takeback.item_versions AS v
    ON v.tenant = i.tenant AND v.namespace = i.namespace AND v.key = i.key AND v.at = i.newest
LEFT JOIN takeback.threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN takeback.checkpoints AS c ON c.tenant = t.tenant AND c.uid = t.uid AND c.version = t.head
WHERE i.tenant = %(tenant)s AND i.namespace >= %(low)s AND i.namespace < %(high)s
  AND (i.namespace, i.key) > (%(namespace)s, %(key)s)
ORDER BY i.namespace, i.key LIMIT %(limit)s::bigint;

-- name: versions_by
-- What a thread wrote with a run of its checkpoints.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM takeback.items AS i JOIN takeback.item_versions AS v
    ON v.tenant = i.tenant AND v.namespace = i.namespace AND v.key = i.key
LEFT JOIN takeback.threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN takeback.checkpoints AS c ON c.tenant = t.tenant AND c.uid = t.uid AND c.version = t.head
WHERE v.tenant = %(tenant)s AND v.thread = %(thread)s AND v.thread <> ''::bytea
  AND v.version BETWEEN %(low)s AND %(high)s
ORDER BY v.version, v.namespace, v.key, v.at LIMIT %(limit)s::bigint;

-- name: all_versions
-- Every version of every item, a page at a time.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM takeback.items AS i JOIN takeback.item_versions AS v
    ON v.tenant = i.tenant AND v.namespace = i.namespace AND v.key = i.key
LEFT JOIN takeback.threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN takeback.checkpoints AS c ON c.tenant = t.tenant AND c.uid = t.uid AND c.version = t.head
WHERE v.tenant = %(tenant)s AND (v.namespace, v.key, v.at) > (%(namespace)s, %(key)s, %(at)s)
ORDER BY v.namespace, v.key, v.at LIMIT %(limit)s::bigint;
