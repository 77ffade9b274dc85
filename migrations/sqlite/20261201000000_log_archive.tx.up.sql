CREATE TABLE IF NOT EXISTS log_archive (
    log              INTEGER NOT NULL PRIMARY KEY,
    idx              INTEGER NOT NULL,
    row_id           INTEGER NOT NULL,
    key              TEXT    NOT NULL,
    digest           BLOB    NOT NULL,
    announced_idx    INTEGER NOT NULL,
    truncated_idx    INTEGER NOT NULL,
    truncated_row_id INTEGER NOT NULL,
    CHECK (truncated_idx <= idx)
) STRICT;

INSERT INTO log_archive (log, idx, row_id, key, digest, announced_idx, truncated_idx, truncated_row_id)
VALUES (0, 0, 0, '', zeroblob(32), 0, 0, 0) ON CONFLICT DO NOTHING;

-- A truncation is one statement: it moves the boundary, and the rows leave
-- here, within it.
CREATE TRIGGER IF NOT EXISTS log_archive_truncated AFTER UPDATE OF truncated_idx ON log_archive
BEGIN
    DELETE FROM origins WHERE (log, node, epoch, seq) IN (
        SELECT log, node, epoch, origin_seq FROM command_log WHERE log = NEW.log AND idx <= NEW.truncated_idx);
    DELETE FROM command_log WHERE log = NEW.log AND idx <= NEW.truncated_idx;
END;
