DROP TABLE IF EXISTS log_archive;
