-- Threads that a graph writes (LangGraph's): its own names for checkpoints, and writes of unfinished steps.

-- A row for each of the graph's checkpoints. `number` orders those of all threads by the server's clock; all
-- but it and `hidden` repeats what the checkpoint's record says; `hash` is of the graph's id, `run` of its run's.
CREATE TABLE takeback.graph_places (
    tenant text COLLATE "C" NOT NULL,
    uid bytea NOT NULL,
    version bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    hash bigint NOT NULL,
    run bigint,
    source text COLLATE "C",
    step bigint,
    hidden boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, uid, version, namespace)
);
CREATE INDEX graph_places_hash ON takeback.graph_places (tenant, uid, hash);
CREATE INDEX graph_places_subgraph ON takeback.graph_places (tenant, uid, namespace, version)
WHERE namespace <> '';
CREATE INDEX graph_places_number ON takeback.graph_places (tenant, number);
CREATE INDEX graph_places_run ON takeback.graph_places (tenant, run) WHERE run IS NOT NULL;

-- What tasks wrote. `key` is of namespace and id of the checkpoint that they started from, which may come
-- later than they do.
CREATE TABLE takeback.graph_writes (
    tenant text COLLATE "C" NOT NULL,
    uid bytea NOT NULL,
    key bytea NOT NULL,
    task text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    codec smallint NOT NULL,
    size integer NOT NULL,
    data bytea NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (tenant, uid, key, task, number)
);
ALTER TABLE takeback.graph_writes ALTER COLUMN data SET STORAGE EXTERNAL;
