-- rewrite_file_index: give files the indexes that the options of the table ask for.
-- Run it: paimon-spark sql -f sql/procedures/rewrite_file_index.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rewrite_file_index CASCADE;

CREATE DATABASE demo_rewrite_file_index;

USE demo_rewrite_file_index;

CREATE TABLE visits (page STRING, code INT, day STRING) PARTITIONED BY (day);

INSERT INTO visits VALUES ('home', 200, '0101'), ('shop', 404, '0101'), ('home', 200, '0102'), ('home', 500, '0103');

-- Files that exist have no index when the options ask for one.
ALTER TABLE visits SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'page', 'file-index.bitmap.columns' = 'code');

CALL sys.rewrite_file_index(table => 'visits', partitions => 'day=0101;day=0102');

CALL sys.rewrite_file_index(table => 'visits', where => "day > '0101'");

SELECT count(*) AS not_found FROM visits WHERE code = 404 AND page = 'shop';

-- By position; all files have their indexes now.
CALL sys.rewrite_file_index('visits');

-- Other settings count only if all indexes are written anew.
ALTER TABLE visits SET TBLPROPERTIES ('file-index.bitmap.code.version' = '1');

CALL sys.rewrite_file_index(table => 'visits', force => true);

DROP DATABASE demo_rewrite_file_index CASCADE;
