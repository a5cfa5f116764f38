-- The first schema. Tenant or thread comes first in every key; integers stand for both.

CREATE TABLE store (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- One row a thread. What changes with every commit (the head) is in no index.
CREATE TABLE threads (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    uid BLOB NOT NULL,
    agent TEXT,
    user TEXT,
    meta BLOB NOT NULL,
    created INTEGER NOT NULL,
    head INTEGER NOT NULL,
    head_digest BLOB NOT NULL,
    updated INTEGER NOT NULL,
    origin_uid BLOB,
    origin_version INTEGER,
    origin_digest BLOB,
    deleted INTEGER,
    family BLOB NOT NULL,
    lock BLOB
) STRICT;
CREATE UNIQUE INDEX threads_living ON threads (tenant, name) WHERE deleted IS NULL;
CREATE UNIQUE INDEX threads_uid ON threads (tenant, uid);

-- Clustered by thread and version. `record` is what the digest covers; the columns before it repeat
-- what queries need and are compared with it when a row is read.
CREATE TABLE checkpoints (
    thread INTEGER NOT NULL REFERENCES threads (id),
    version INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    line INTEGER NOT NULL,
    origin_version INTEGER,
    merged_version INTEGER,
    undoes INTEGER,
    time INTEGER NOT NULL,
    digest BLOB NOT NULL,
    mac BLOB,
    record BLOB NOT NULL,
    PRIMARY KEY (thread, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_merges ON checkpoints (thread, version) WHERE merged_version IS NOT NULL;

CREATE TRIGGER checkpoints_never_change BEFORE UPDATE ON checkpoints BEGIN
    SELECT RAISE(ABORT, 'a checkpoint never changes once it is written');
END;

-- Content-addressed. `hash` is eight bytes of the digest; `scope` is the tenant, later also whose key
-- encrypts it; `epoch` is when it was last given a new reference.
CREATE TABLE objects (
    id INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    digest BLOB NOT NULL,
    codec INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX objects_hash ON objects (hash);

CREATE TABLE labels (
    thread INTEGER NOT NULL REFERENCES threads (id),
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (thread, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    uid BLOB,
    thread TEXT,
    time INTEGER NOT NULL,
    action TEXT NOT NULL,
    actor TEXT,
    detail BLOB NOT NULL
) STRICT;
CREATE INDEX audit_thread ON audit (tenant, uid, id);

-- What changes: steps, effects, plans, approvals, by families of threads. `seq` counts a family's writes;
-- whoever has read up to one number reads on from there.
CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    family BLOB NOT NULL,
    kind TEXT NOT NULL,
    key BLOB NOT NULL,
    thread BLOB NOT NULL,
    seq INTEGER NOT NULL,
    live INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX cells_key ON cells (tenant, family, key, kind);
CREATE INDEX cells_seq ON cells (tenant, family, seq, key);
CREATE INDEX cells_live ON cells (tenant, family, seq) WHERE live;
