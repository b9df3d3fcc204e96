-- rewrite_file_index: add the indexes to files that the options of the table require.
-- Run it: paimon-spark sql -f sql/procedures/rewrite_file_index.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rewrite_file_index CASCADE;

CREATE DATABASE demo_rewrite_file_index;

USE demo_rewrite_file_index;

CREATE TABLE visits (page STRING, code INT, day STRING) PARTITIONED BY (day);

INSERT INTO visits VALUES ('home', 200, '0101'), ('shop', 404, '0101'), ('home', 200, '0102'), ('home', 500, '0103');

-- Existing files get no index when the options are set.
ALTER TABLE visits SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'page', 'file-index.bitmap.columns' = 'code');

CALL sys.rewrite_file_index(table => 'visits', partitions => 'day=0101;day=0102');

CALL sys.rewrite_file_index(table => 'visits', where => "day > '0101'");

SELECT count(*) AS not_found FROM visits WHERE code = 404 AND page = 'shop';

-- By position; all files have their indexes now.
CALL sys.rewrite_file_index('visits');

-- Changed settings apply only if all indexes are written anew.
ALTER TABLE visits SET TBLPROPERTIES ('file-index.bitmap.code.version' = '1');

CALL sys.rewrite_file_index(table => 'visits', force => true);

DROP DATABASE demo_rewrite_file_index CASCADE;
