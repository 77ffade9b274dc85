DROP TRIGGER IF EXISTS log_archive_truncated;
DROP TABLE IF EXISTS log_archive;
