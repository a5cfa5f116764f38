-- Commits of several threads in one statement. `takeback.` stands for the schema.

-- name: commit_many
-- Checkpoints join their threads, each by the same guards as `commit`; gives back the threads that moved. Those
-- whose guard refuses are left out, with the objects that they alone need. Threads are locked in the order of
-- their uids, objects in that of their digests, as by every writer.
WITH present AS (
    SELECT greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) AS now
    FROM takeback.tenants WHERE name = %(tenant)s
), given AS (
    SELECT * FROM unnest(
        %(uids)s::bytea[], %(locks)s::bytea[], %(previous)s::bytea[], %(versions)s::bigint[],
        %(namespaces)s::text[], %(kinds)s::text[], %(lines)s::bigint[], %(origin_versions)s::bigint[],
        %(merged_versions)s::bigint[], %(undoes)s::bigint[], %(times)s::bigint[], %(digests)s::bytea[],
        %(macs)s::bytea[], %(records)s::bytea[]
    ) AS g (uid, lock, previous, version, namespace, kind, line, origin_version, merged_version, undoes, time,
            digest, mac, record)
), still AS (
    SELECT t.uid FROM given AS g JOIN takeback.threads AS t ON t.tenant = %(tenant)s AND t.uid = g.uid
    WHERE t.head = g.version - 1 AND t.head_digest = g.previous AND t.lock IS NOT DISTINCT FROM g.lock
      AND t.deleted IS NULL
    ORDER BY t.uid FOR NO KEY UPDATE OF t
), moved AS (
    UPDATE takeback.threads AS t SET head = g.version, head_digest = g.digest, updated = g.time
    FROM still AS s JOIN given AS g ON g.uid = s.uid
    WHERE t.tenant = %(tenant)s AND t.uid = s.uid
    RETURNING t.uid
), held AS (
    INSERT INTO takeback.objects AS x (tenant, digest, epoch, codec, size, data)
    SELECT %(tenant)s::text, o.digest, e.now, o.codec, o.size, o.data
    FROM present AS e,
         unnest(%(objects)s::bytea[], %(codecs)s::bigint[], %(sizes)s::bigint[], %(datas)s::bytea[])
             AS o (digest, codec, size, data)
    WHERE o.digest IN (
        SELECT n.digest FROM moved AS m
        JOIN unnest(%(needers)s::bytea[], %(needed)s::bytea[]) AS n (uid, digest) ON n.uid = m.uid)
      AND (SELECT h.epoch FROM takeback.objects AS h
           WHERE h.tenant = %(tenant)s AND h.digest = o.digest AND h.epoch >= e.now) IS NULL
    ORDER BY o.digest
    ON CONFLICT (tenant, digest) DO UPDATE SET epoch = excluded.epoch WHERE x.epoch < excluded.epoch
)
INSERT INTO takeback.checkpoints (tenant, uid, version, namespace, kind, line, origin_version, merged_version,
                                  undoes, time, digest, mac, record)
SELECT %(tenant)s::text, g.uid, g.version, g.namespace, g.kind, g.line, g.origin_version, g.merged_version,
       g.undoes, g.time, g.digest, g.mac, g.record
FROM moved AS m JOIN given AS g ON g.uid = m.uid
RETURNING uid;
