CREATE TABLE IF NOT EXISTS log_archive (
    log              integer NOT NULL PRIMARY KEY,
    idx              bigint  NOT NULL,
    row_id           bigint  NOT NULL,
    key              text    NOT NULL,
    digest           bytea   NOT NULL,
    announced_idx    bigint  NOT NULL,
    truncated_idx    bigint  NOT NULL,
    truncated_row_id bigint  NOT NULL,
    CHECK (truncated_idx <= idx)
);

INSERT INTO log_archive (log, idx, row_id, key, digest, announced_idx, truncated_idx, truncated_row_id)
VALUES (0, 0, 0, '', decode(repeat('00', 32), 'hex'), 0, 0, 0) ON CONFLICT DO NOTHING;
