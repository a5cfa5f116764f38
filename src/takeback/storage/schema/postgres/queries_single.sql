-- The common batches of the PostgreSQL backend, each in one statement. `takeback.` stands for the schema.

-- name: commit
-- A checkpoint joins its thread, all in one statement: the compare-and-swap of the head (only from the row
-- before, only while the thread lives and no other plan locks it), and what hangs on it. Zero rows where the
-- guard refuses. Objects come in the order of their digests: two commits that write the same ones never wait
-- for one another in a circle. One that is there gets the present epoch, that a collection which has begun may
-- not take it; one that has that epoch is not touched, so that those who bring it at one moment need not wait.
WITH present AS (
    SELECT greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) AS now
    FROM takeback.tenants WHERE name = %(tenant)s
), moved AS (
    UPDATE takeback.threads SET head = %(version)s, head_digest = %(digest)s, updated = %(time)s
    WHERE tenant = %(tenant)s AND uid = %(uid)s AND head = %(version)s - 1 AND head_digest = %(previous)s
      AND lock IS NOT DISTINCT FROM %(lock)s::bytea AND deleted IS NULL
    RETURNING tenant
), held AS (
    INSERT INTO takeback.objects AS x (tenant, digest, epoch, codec, size, data)
    SELECT m.tenant, o.digest, e.now, o.codec, o.size, o.data
    FROM moved AS m, present AS e,
         unnest(%(digests)b::bytea[], %(codecs)b::bigint[], %(sizes)b::bigint[], %(datas)b::bytea[])
             AS o (digest, codec, size, data)
    WHERE (SELECT h.epoch FROM takeback.objects AS h
           WHERE h.tenant = %(tenant)s AND h.digest = o.digest AND h.epoch >= e.now) IS NULL
    ORDER BY o.digest
    ON CONFLICT (tenant, digest) DO UPDATE SET epoch = excluded.epoch WHERE x.epoch < excluded.epoch
)
INSERT INTO takeback.checkpoints (tenant, uid, version, namespace, kind, line, origin_version, merged_version,
                                  undoes, time, digest, mac, record)
SELECT m.tenant, %(uid)s, %(version)s, %(namespace)s::text, %(kind)s::text, %(line)s, %(origin_version)s::bigint,
       %(merged_version)s::bigint, %(undoes)s::bigint, %(time)s, %(digest)s, %(mac)s::bytea, %(record)s
FROM moved AS m;

-- name: commit_with_ledger
-- The same with cells of a ledger. The thread is held and the ledger's number moved before anything is
-- written that hangs on both, so that a refusal of either leaves nothing.
WITH present AS (
    SELECT greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) AS now
    FROM takeback.tenants WHERE name = %(tenant)s
), still AS (
    SELECT tenant FROM takeback.threads
    WHERE tenant = %(tenant)s AND uid = %(uid)s AND head = %(version)s - 1 AND head_digest = %(previous)s
      AND lock IS NOT DISTINCT FROM %(lock)s::bytea AND deleted IS NULL
    FOR NO KEY UPDATE
), numbered AS (
    INSERT INTO takeback.ledgers AS l (tenant, family, seq)
    SELECT s.tenant, %(family)s, %(seq)s + 1 FROM still AS s
    WHERE %(seq)s = 0 OR EXISTS (
        SELECT 1 FROM takeback.ledgers WHERE tenant = %(tenant)s AND family = %(family)s)
    ON CONFLICT (tenant, family) DO UPDATE SET seq = excluded.seq WHERE l.seq = excluded.seq - 1
    RETURNING l.tenant, l.seq
), moved AS (
    UPDATE takeback.threads AS t SET head = %(version)s, head_digest = %(digest)s, updated = %(time)s
    FROM numbered AS n
    WHERE t.tenant = %(tenant)s AND t.uid = %(uid)s AND n.seq IS NOT NULL
    RETURNING t.tenant, n.seq
), written AS (
    INSERT INTO takeback.cells AS c (tenant, family, key, kind, thread, seq, live, body)
    SELECT m.tenant, %(family)s, o.key, o.kind, o.thread, m.seq, o.live, o.body
    FROM moved AS m, unnest(%(keys)b::bytea[], %(kinds)b::text[], %(threads)b::bytea[], %(lives)b::boolean[],
                            %(bodies)b::bytea[]) AS o (key, kind, thread, live, body)
    ORDER BY o.key, o.kind
    ON CONFLICT (tenant, family, key, kind) DO UPDATE
    SET thread = excluded.thread, seq = excluded.seq, live = excluded.live, body = excluded.body
), held AS (
    INSERT INTO takeback.objects AS x (tenant, digest, epoch, codec, size, data)
    SELECT m.tenant, o.digest, e.now, o.codec, o.size, o.data
    FROM moved AS m, present AS e,
         unnest(%(digests)b::bytea[], %(codecs)b::bigint[], %(sizes)b::bigint[], %(datas)b::bytea[])
             AS o (digest, codec, size, data)
    WHERE (SELECT h.epoch FROM takeback.objects AS h
           WHERE h.tenant = %(tenant)s AND h.digest = o.digest AND h.epoch >= e.now) IS NULL
    ORDER BY o.digest
    ON CONFLICT (tenant, digest) DO UPDATE SET epoch = excluded.epoch WHERE x.epoch < excluded.epoch
)
INSERT INTO takeback.checkpoints (tenant, uid, version, namespace, kind, line, origin_version, merged_version,
                                  undoes, time, digest, mac, record)
SELECT m.tenant, %(uid)s, %(version)s, %(namespace)s::text, %(kind)s::text, %(line)s, %(origin_version)s::bigint,
       %(merged_version)s::bigint, %(undoes)s::bigint, %(time)s, %(digest)s, %(mac)s::bytea, %(record)s
FROM moved AS m;

-- name: ledger
-- Cells under the next number, where the ledger is at the one that they were made for and, with a thread, its
-- head stands on the line (and is the checkpoint) that they suppose. The writer's mark tells a writer that
-- lost the answer whether they are there.
WITH present AS (
    SELECT greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) AS now
    FROM takeback.tenants WHERE name = %(tenant)s
), still AS (
    SELECT 1 WHERE %(uid)s::bytea IS NULL
    UNION ALL
    SELECT 1 FROM (
        SELECT t.head FROM takeback.threads AS t
        JOIN takeback.checkpoints AS c ON c.tenant = t.tenant AND c.uid = t.uid AND c.version = t.head
        WHERE t.tenant = %(tenant)s AND t.uid = %(uid)s::bytea AND t.deleted IS NULL AND t.lock IS NULL
          AND c.line = %(line)s::bigint AND t.head_digest = coalesce(%(digest)s::bytea, t.head_digest)
        FOR NO KEY UPDATE OF t) AS locked
), numbered AS (
    INSERT INTO takeback.ledgers AS l (tenant, family, seq)
    SELECT %(tenant)s::text, %(family)s, %(seq)s + 1 FROM still
    WHERE %(seq)s = 0 OR EXISTS (
        SELECT 1 FROM takeback.ledgers WHERE tenant = %(tenant)s AND family = %(family)s)
    ON CONFLICT (tenant, family) DO UPDATE SET seq = excluded.seq WHERE l.seq = excluded.seq - 1
    RETURNING l.tenant, l.seq
), held AS (
    INSERT INTO takeback.objects AS x (tenant, digest, epoch, codec, size, data)
    SELECT n.tenant, o.digest, e.now, o.codec, o.size, o.data
    FROM numbered AS n, present AS e,
         unnest(%(digests)b::bytea[], %(codecs)b::bigint[], %(sizes)b::bigint[], %(datas)b::bytea[])
             AS o (digest, codec, size, data)
    WHERE (SELECT h.epoch FROM takeback.objects AS h
           WHERE h.tenant = %(tenant)s AND h.digest = o.digest AND h.epoch >= e.now) IS NULL
    ORDER BY o.digest
    ON CONFLICT (tenant, digest) DO UPDATE SET epoch = excluded.epoch WHERE x.epoch < excluded.epoch
), marked AS (
    INSERT INTO takeback.writers AS w (tenant, writer, number, seen)
    SELECT n.tenant, %(writer)s, %(number)s, now() FROM numbered AS n
    ON CONFLICT (tenant, writer) DO UPDATE SET number = excluded.number, seen = excluded.seen
)
INSERT INTO takeback.cells AS c (tenant, family, key, kind, thread, seq, live, body)
SELECT n.tenant, %(family)s, o.key, o.kind, o.thread, n.seq, o.live, o.body
FROM numbered AS n, unnest(%(keys)b::bytea[], %(kinds)b::text[], %(threads)b::bytea[], %(lives)b::boolean[],
                           %(bodies)b::bytea[]) AS o (key, kind, thread, live, body)
ORDER BY o.key, o.kind
ON CONFLICT (tenant, family, key, kind) DO UPDATE
SET thread = excluded.thread, seq = excluded.seq, live = excluded.live, body = excluded.body;

-- name: create
-- A thread comes into being with its first checkpoint; where it starts from another, while that one lives.
WITH present AS (
    SELECT greatest(epoch, floor(extract(epoch FROM now()) / 60)::bigint) AS now
    FROM takeback.tenants WHERE name = %(tenant)s
), source AS (
    SELECT 1 WHERE %(source)s::bytea IS NULL
    UNION ALL
    SELECT 1 FROM (
        SELECT 1 FROM takeback.threads
        WHERE tenant = %(tenant)s AND uid = %(source)s::bytea AND deleted IS NULL FOR SHARE) AS locked
), made AS (
    INSERT INTO takeback.threads (tenant, uid, name, name_key, number, agent, "user", meta, created, head,
                                  head_digest, updated, origin_uid, origin_version, origin_digest, family)
    SELECT %(tenant)s::text, %(uid)s, %(name)s::text, %(name_key)s,
           ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1577836800000000) * 2048
               + floor(random() * 2048)::bigint,
           %(agent)s::text, %(user)s::text, %(thread_meta)s, %(created)s, %(version)s, %(digest)s, %(time)s,
           %(origin_uid)s::bytea, %(from_version)s::bigint, %(origin_digest)s::bytea, %(family)s
    FROM source
    ON CONFLICT DO NOTHING
    RETURNING tenant
), held AS (
    INSERT INTO takeback.objects AS x (tenant, digest, epoch, codec, size, data)
    SELECT m.tenant, o.digest, e.now, o.codec, o.size, o.data
    FROM made AS m, present AS e,
         unnest(%(digests)b::bytea[], %(codecs)b::bigint[], %(sizes)b::bigint[], %(datas)b::bytea[])
             AS o (digest, codec, size, data)
    WHERE (SELECT h.epoch FROM takeback.objects AS h
           WHERE h.tenant = %(tenant)s AND h.digest = o.digest AND h.epoch >= e.now) IS NULL
    ORDER BY o.digest
    ON CONFLICT (tenant, digest) DO UPDATE SET epoch = excluded.epoch WHERE x.epoch < excluded.epoch
)
INSERT INTO takeback.checkpoints (tenant, uid, version, namespace, kind, line, origin_version, merged_version,
                                  undoes, time, digest, mac, record)
SELECT m.tenant, %(uid)s, %(version)s, %(namespace)s::text, %(kind)s::text, %(line)s, %(origin_version)s::bigint,
       %(merged_version)s::bigint, %(undoes)s::bigint, %(time)s, %(digest)s, %(mac)s::bytea, %(record)s
FROM made AS m;
