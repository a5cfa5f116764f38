-- Memory: items by namespace and key. `count` is how many versions were written, `newest` when the last one
-- was, `turn` how often a history went back over one; a guard is that count and turn are as they were seen.
CREATE TABLE takeback.items (
    tenant text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    newest bigint NOT NULL,
    turn bigint NOT NULL DEFAULT 0,
    touched bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, namespace, key)
) WITH (fillfactor = 70);

-- Every version of each, by whom it was written (no thread: by nobody's history). `free` is one that no history can take
-- back any more.
CREATE TABLE takeback.item_versions (
    tenant text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    number bigint NOT NULL,
    thread bytea NOT NULL,
    line bigint NOT NULL,
    version bigint NOT NULL,
    free boolean NOT NULL,
    digest bytea NOT NULL,
    mac bytea,
    record bytea NOT NULL,
    PRIMARY KEY (tenant, namespace, key, at)
);
CREATE INDEX item_versions_thread ON takeback.item_versions (tenant, thread, version)
WHERE thread <> ''::bytea;
