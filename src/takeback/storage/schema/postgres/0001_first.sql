-- The first schema. Every key begins with the tenant, then the thread (or family) or the digest: a
-- PostgreSQL that is spread over machines can shard by tenant, and every join and unique key stays on one
-- of them. Nothing counts across tenants, and no sequence is used.

CREATE TABLE takeback.store (
    key text PRIMARY KEY,
    value text NOT NULL
);

-- `audits` counts the tenant's entries of the audit log: whoever adds one holds this row until the commit, so
-- that a reader who has seen one entry has seen all before it.
CREATE TABLE takeback.tenants (
    name text COLLATE "C" PRIMARY KEY,
    since bigint NOT NULL,
    audits bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- One row a thread. What changes with every commit (the head) is in no index, and pages have room, so that
-- a new version of a row lies beside the old one (HOT). `name_key` is 16 bytes of the name's digest: a name
-- may be longer than a key of an index. `number` orders threads by the server's clock.
CREATE TABLE takeback.threads (
    tenant text COLLATE "C" NOT NULL,
    uid bytea NOT NULL,
    name text COLLATE "C" NOT NULL,
    name_key bytea NOT NULL,
    number bigint NOT NULL,
    agent text COLLATE "C",
    "user" text COLLATE "C",
    meta bytea NOT NULL,
    created bigint NOT NULL,
    head bigint NOT NULL,
    head_digest bytea NOT NULL,
    updated bigint NOT NULL,
    origin_uid bytea,
    origin_version bigint,
    origin_digest bytea,
    deleted bigint,
    family bytea NOT NULL,
    lock bytea,
    PRIMARY KEY (tenant, uid)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX threads_living ON takeback.threads (tenant, name_key) WHERE deleted IS NULL;
CREATE UNIQUE INDEX threads_newest ON takeback.threads (tenant, number) WHERE deleted IS NULL;

-- `record` is what the digest covers; the columns before it repeat what queries need and are compared with
-- it when a row is read.
CREATE TABLE takeback.checkpoints (
    tenant text COLLATE "C" NOT NULL,
    uid bytea NOT NULL,
    version bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    line bigint NOT NULL,
    origin_version bigint,
    merged_version bigint,
    undoes bigint,
    time bigint NOT NULL,
    digest bytea NOT NULL,
    mac bytea,
    record bytea NOT NULL,
    PRIMARY KEY (tenant, uid, version)
);
CREATE INDEX checkpoints_merges ON takeback.checkpoints (tenant, uid, version)
WHERE merged_version IS NOT NULL;

CREATE FUNCTION takeback.never_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a checkpoint never changes once it is written';
END
$$;
CREATE TRIGGER checkpoints_never_change BEFORE UPDATE ON takeback.checkpoints
FOR EACH ROW EXECUTE FUNCTION takeback.never_change();

-- Content-addressed, compressed already where that pays: so the server need not try (EXTERNAL). `epoch` is
-- when it was last given a new reference.
CREATE TABLE takeback.objects (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    epoch bigint NOT NULL,
    codec smallint NOT NULL,
    size integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (tenant, digest)
);
ALTER TABLE takeback.objects ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE takeback.labels (
    tenant text COLLATE "C" NOT NULL,
    uid bytea NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (tenant, uid, name)
);

CREATE TABLE takeback.audit (
    tenant text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    uid bytea,
    thread text COLLATE "C",
    time bigint NOT NULL,
    action text COLLATE "C" NOT NULL,
    actor text COLLATE "C",
    detail bytea NOT NULL,
    PRIMARY KEY (tenant, number)
);
CREATE INDEX audit_thread ON takeback.audit (tenant, uid, number);

-- What changes: steps, effects, plans, approvals, by families of threads. `seq` counts a family's writes;
-- whoever has read up to one number reads on from there. The number stands in a row of its own, which
-- whoever writes for a number has to move.
CREATE TABLE takeback.ledgers (
    tenant text COLLATE "C" NOT NULL,
    family bytea NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tenant, family)
) WITH (fillfactor = 50);

CREATE TABLE takeback.cells (
    tenant text COLLATE "C" NOT NULL,
    family bytea NOT NULL,
    key bytea NOT NULL,
    kind text COLLATE "C" NOT NULL,
    thread bytea NOT NULL,
    seq bigint NOT NULL,
    live boolean NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, family, key, kind)
) WITH (fillfactor = 70);
CREATE INDEX cells_seq ON takeback.cells (tenant, family, seq, key);
CREATE INDEX cells_live ON takeback.cells (tenant, family, seq) WHERE live;

-- The last write of each writer, by a number that only grows: whether one whose answer was lost is there.
CREATE TABLE takeback.writers (
    tenant text COLLATE "C" NOT NULL,
    writer bytea NOT NULL,
    number bigint NOT NULL,
    seen timestamptz NOT NULL,
    PRIMARY KEY (tenant, writer)
) WITH (fillfactor = 50);
