-- Memory: items by namespace and key. `count` is how many versions were written, `newest` when the last one
-- was, `turn` how often a history went back over one; a guard is that count and turn are as they were seen.
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    count INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    turn INTEGER NOT NULL DEFAULT 0,
    touched INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX items_key ON items (tenant, namespace, key);

-- Every version of each, by whom it was written (no thread: by nobody's history). `free` is one that no history can take
-- back any more.
CREATE TABLE item_versions (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    item INTEGER NOT NULL REFERENCES items (id),
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    thread BLOB NOT NULL,
    line INTEGER NOT NULL,
    version INTEGER NOT NULL,
    free INTEGER NOT NULL,
    digest BLOB NOT NULL,
    mac BLOB,
    record BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX item_versions_at ON item_versions (item, at);
CREATE INDEX item_versions_thread ON item_versions (tenant, thread, version) WHERE thread <> x'';
