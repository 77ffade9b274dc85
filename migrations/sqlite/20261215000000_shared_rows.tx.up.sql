-- One process writes this database, so each row has one origin; they leave with
-- the row, as on Postgres.
CREATE INDEX IF NOT EXISTS origins_by_index ON origins (log, idx);

DROP TRIGGER IF EXISTS log_archive_truncated;

CREATE TRIGGER log_archive_truncated AFTER UPDATE OF truncated_idx ON log_archive
BEGIN
    DELETE FROM origins WHERE log = NEW.log AND idx <= NEW.truncated_idx;
    DELETE FROM command_log WHERE log = NEW.log AND idx <= NEW.truncated_idx;
END;
