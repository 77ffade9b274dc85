CREATE TABLE IF NOT EXISTS log_head (
    log             INTEGER NOT NULL PRIMARY KEY,
    idx             INTEGER NOT NULL,
    row_id          INTEGER NOT NULL,
    previous_row_id INTEGER NOT NULL
) STRICT;

INSERT INTO log_head (log, idx, row_id, previous_row_id) VALUES (0, 0, 0, 0) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS command_log (
    log             INTEGER NOT NULL,
    idx             INTEGER NOT NULL,
    row_id          INTEGER NOT NULL,
    previous_row_id INTEGER NOT NULL,
    db_time_ms      INTEGER NOT NULL,
    node            INTEGER NOT NULL,
    epoch           INTEGER NOT NULL,
    origin_seq      INTEGER NOT NULL,
    kinds           TEXT    NOT NULL,
    commands        INTEGER NOT NULL,
    appends         INTEGER NOT NULL,
    digest          INTEGER NOT NULL,
    payload         BLOB    NOT NULL,
    PRIMARY KEY (log, idx)
) STRICT;

CREATE TABLE IF NOT EXISTS origins (
    log   INTEGER NOT NULL,
    node  INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    idx   INTEGER NOT NULL,
    PRIMARY KEY (log, node, epoch, seq)
) STRICT, WITHOUT ROWID;

-- An append is one statement: it inserts into command_log, and the rest
-- follows here, within it.
CREATE TRIGGER IF NOT EXISTS command_log_appended AFTER INSERT ON command_log
BEGIN
    UPDATE log_head
    SET idx = NEW.idx, row_id = NEW.row_id, previous_row_id = NEW.previous_row_id
    WHERE log = NEW.log;
    INSERT INTO origins (log, node, epoch, seq, idx)
    VALUES (NEW.log, NEW.node, NEW.epoch, NEW.origin_seq, NEW.idx);
END;

CREATE TABLE IF NOT EXISTS snapshots (
    log       INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    digest    INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    bytes     INTEGER NOT NULL,
    taken_ms  INTEGER NOT NULL,
    confirmed INTEGER NOT NULL,
    PRIMARY KEY (log, idx)
) STRICT;

CREATE TABLE IF NOT EXISTS leases (
    log        INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    node       INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (log, name)
) STRICT;

CREATE TABLE IF NOT EXISTS nodes (
    log         INTEGER NOT NULL,
    node        INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    incarnation BLOB    NOT NULL,
    address     TEXT    NOT NULL,
    release     TEXT    NOT NULL,
    applied     INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    PRIMARY KEY (log, node)
) STRICT;
