-- Threads that a graph writes (LangGraph's): its own names for checkpoints, and writes of unfinished steps.

-- A row for each of the graph's checkpoints, in the order in which the store got them. All but `seq` and
-- `hidden` repeats what the checkpoint's record says; `hash` is of the graph's id, `run` of its run's.
CREATE TABLE graph_places (
    seq INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    thread INTEGER NOT NULL REFERENCES threads (id),
    version INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    hash INTEGER NOT NULL,
    run INTEGER,
    source TEXT,
    step INTEGER,
    hidden INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX graph_places_version ON graph_places (thread, version);
CREATE INDEX graph_places_hash ON graph_places (thread, hash);
CREATE INDEX graph_places_subgraph ON graph_places (thread, namespace, version) WHERE namespace <> '';
CREATE INDEX graph_places_run ON graph_places (tenant, run) WHERE run IS NOT NULL;

-- What tasks wrote. `key` is of namespace and id of the checkpoint that they started from, which may come
-- later than they do; `hash` is eight bytes of it.
CREATE TABLE graph_writes (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL REFERENCES threads (id),
    hash INTEGER NOT NULL,
    key BLOB NOT NULL,
    task TEXT NOT NULL,
    number INTEGER NOT NULL,
    channel TEXT NOT NULL,
    path TEXT NOT NULL,
    codec INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX graph_writes_hash ON graph_writes (thread, hash);
