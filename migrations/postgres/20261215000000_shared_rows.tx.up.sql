-- A row that every append changes leaves a version of itself behind each time,
-- and while anybody keeps an old snapshot (a dump, a forgotten transaction) all
-- of them are read again by each append. So the head is what the last row says,
-- and appends take an advisory lock instead of that row's.
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('log_head') AND relkind = 'r') THEN
        DROP TABLE log_head;
    END IF;
END
$$;

CREATE OR REPLACE VIEW log_head AS
SELECT a.log,
    coalesce(c.idx, a.truncated_idx) AS idx,
    coalesce(c.row_id, a.truncated_row_id) AS row_id,
    coalesce(c.previous_row_id, 0) AS previous_row_id
FROM log_archive AS a
LEFT JOIN command_log AS c ON c.log = a.log AND c.idx = (SELECT max(l.idx) FROM command_log AS l WHERE l.log = a.log);

-- A row may hold proposals of several nodes: each has its origin here, with the
-- digest of what that node wanted inserted, and they leave with the row.
ALTER TABLE origins ADD COLUMN IF NOT EXISTS digest bigint;
CREATE INDEX IF NOT EXISTS origins_by_index ON origins (log, idx);
