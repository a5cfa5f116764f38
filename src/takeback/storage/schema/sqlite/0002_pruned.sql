-- Runs of versions whose files were given up to save space. What they say stays, and what it digests.
CREATE TABLE pruned (
    thread INTEGER NOT NULL REFERENCES threads (id),
    low INTEGER NOT NULL,
    high INTEGER NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (thread, low, high)
) STRICT, WITHOUT ROWID;
