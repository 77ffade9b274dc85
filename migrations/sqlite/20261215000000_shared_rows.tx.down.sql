DROP TRIGGER IF EXISTS log_archive_truncated;
DROP INDEX IF EXISTS origins_by_index;
