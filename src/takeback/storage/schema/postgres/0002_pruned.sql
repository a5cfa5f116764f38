-- Runs of versions whose files were given up to save space. What they say stays, and what it digests. And when
-- the tenant's last collection began.
CREATE TABLE takeback.pruned (
    tenant text COLLATE "C" NOT NULL,
    uid bytea NOT NULL,
    low bigint NOT NULL,
    high bigint NOT NULL,
    time bigint NOT NULL,
    PRIMARY KEY (tenant, uid, low, high)
);
ALTER TABLE takeback.tenants ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
