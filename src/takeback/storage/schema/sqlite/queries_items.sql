-- Every statement about items of memory, each with a name and what it is for.

-- name: item_seen
-- What a guard compares.
SELECT id, count, turn FROM items WHERE tenant = ? AND namespace = ? AND key = ?;

-- name: item_written
-- A version joins its item, which it may bring into being: the item, its number, and its place in the order.
INSERT INTO items (tenant, namespace, key, count, newest) VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT (tenant, namespace, key) DO UPDATE SET count = count + 1, newest = max(newest + 1, excluded.newest)
RETURNING id, count, newest;

-- name: item_brought
-- The same for one from elsewhere: it keeps its own place.
INSERT INTO items (tenant, namespace, key, count, newest) VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT (tenant, namespace, key) DO UPDATE SET count = count + 1, newest = max(newest, excluded.newest)
RETURNING id, count;

-- name: item_taken
-- Whether a place in an item's order is taken, and by which version.
SELECT digest FROM item_versions WHERE item = ? AND at = ?;

-- name: item_place
-- The newest place in an item's order, where a brought version had to give way.
UPDATE items SET newest = max(newest, ?) WHERE id = ?;

-- name: item_known
-- Whether an item has this very version.
SELECT 1 FROM item_versions AS v JOIN items AS i ON i.id = v.item
WHERE i.tenant = ? AND i.namespace = ? AND i.key = ? AND v.digest = ?;

-- name: new_item_version
-- A version's row.
INSERT INTO item_versions (tenant, item, at, number, thread, line, version, free, digest, mac, record)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: turn_item
-- A history went back over a version of it; zero rows when it is not as it was seen.
UPDATE items SET turn = turn + 1 WHERE tenant = ? AND namespace = ? AND key = ? AND count = ? AND turn = ?;

-- name: touch_item
-- Its time to live counts from here.
UPDATE items SET touched = max(touched, ?) WHERE tenant = ? AND namespace = ? AND key = ?;

-- name: free_item
-- A version is no history's any more, and stays for good.
UPDATE item_versions SET free = 1 WHERE number = ?4
  AND item = (SELECT id FROM items WHERE tenant = ?1 AND namespace = ?2 AND key = ?3);

-- name: versions_of
-- The versions of an item, newest first, with where their writers stand.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM items AS i JOIN item_versions AS v ON v.item = i.id
LEFT JOIN threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN checkpoints AS c ON c.thread = t.id AND c.version = t.head
WHERE i.tenant = ? AND i.namespace = ? AND i.key = ? ORDER BY v.at DESC LIMIT ?;

-- name: newest_under
-- The newest version of each item in a run of namespaces.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM items AS i JOIN item_versions AS v ON v.item = i.id AND v.at = i.newest
LEFT JOIN threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN checkpoints AS c ON c.thread = t.id AND c.version = t.head
WHERE i.tenant = ?1 AND i.namespace >= ?2 AND i.namespace < ?3 AND (i.namespace, i.key) > (?4, ?5)
ORDER BY i.namespace, i.key LIMIT ?6;

-- name: versions_by
-- What a thread wrote with a run of its checkpoints.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM item_versions AS v INDEXED BY item_versions_thread JOIN items AS i ON i.id = v.item
LEFT JOIN threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN checkpoints AS c ON c.thread = t.id AND c.version = t.head
WHERE v.tenant = ?1 AND v.thread = ?2 AND v.thread <> x'' AND v.version BETWEEN ?3 AND ?4
ORDER BY v.version, i.namespace, i.key, v.at LIMIT ?5;

-- name: all_versions
-- Every version of every item, a page at a time.
SELECT i.namespace, i.key, i.count, i.turn, i.touched, v.number, v.at, v.thread, v.line, v.version,
       v.free, v.digest, v.mac, v.record, t.head, t.head_digest, t.family, c.line
FROM items AS i JOIN item_versions AS v ON v.item = i.id
LEFT JOIN threads AS t ON t.tenant = i.tenant AND t.uid = v.thread AND t.deleted IS NULL
LEFT JOIN checkpoints AS c ON c.thread = t.id AND c.version = t.head
WHERE i.tenant = ?1 AND (i.namespace, i.key) >= (?2, ?3) AND (i.namespace, i.key, v.at) > (?2, ?3, ?4)
ORDER BY i.namespace, i.key, v.at LIMIT ?5;
