CREATE TABLE IF NOT EXISTS log_head (
    log             integer NOT NULL PRIMARY KEY,
    idx             bigint  NOT NULL,
    row_id          bigint  NOT NULL,
    previous_row_id bigint  NOT NULL
);

INSERT INTO log_head (log, idx, row_id, previous_row_id) VALUES (0, 0, 0, 0) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS command_log (
    log             integer NOT NULL,
    idx             bigint  NOT NULL,
    row_id          bigint  NOT NULL,
    previous_row_id bigint  NOT NULL,
    db_time_ms      bigint  NOT NULL,
    node            bigint  NOT NULL,
    epoch           bigint  NOT NULL,
    origin_seq      bigint  NOT NULL,
    kinds           text    NOT NULL,
    commands        integer NOT NULL,
    appends         integer NOT NULL,
    digest          bigint  NOT NULL,
    payload         bytea   NOT NULL,
    PRIMARY KEY (log, idx)
);

-- Payloads are written under the lock of log_head: no time is spent there on
-- compressing them.
ALTER TABLE command_log ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE IF NOT EXISTS origins (
    log   integer NOT NULL,
    node  bigint  NOT NULL,
    epoch bigint  NOT NULL,
    seq   bigint  NOT NULL,
    idx   bigint  NOT NULL,
    PRIMARY KEY (log, node, epoch, seq)
);

CREATE TABLE IF NOT EXISTS snapshots (
    log       integer NOT NULL,
    idx       bigint  NOT NULL,
    digest    bigint  NOT NULL,
    key       text    NOT NULL,
    bytes     bigint  NOT NULL,
    taken_ms  bigint  NOT NULL,
    confirmed boolean NOT NULL,
    PRIMARY KEY (log, idx)
);

CREATE TABLE IF NOT EXISTS leases (
    log        integer NOT NULL,
    name       text    NOT NULL,
    node       bigint  NOT NULL,
    epoch      bigint  NOT NULL,
    expires_ms bigint  NOT NULL,
    PRIMARY KEY (log, name)
);

CREATE TABLE IF NOT EXISTS nodes (
    log         integer NOT NULL,
    node        bigint  NOT NULL,
    epoch       bigint  NOT NULL,
    incarnation bytea   NOT NULL,
    address     text    NOT NULL,
    release     text    NOT NULL,
    applied     bigint  NOT NULL,
    at_ms       bigint  NOT NULL,
    PRIMARY KEY (log, node)
);
