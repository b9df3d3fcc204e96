-- Five minutes with a table that has a primary key.
-- Run it with `make quickstart`, or on any Spark that knows the catalog:
--   paimon-spark sql --format table --echo -d license=$PWD/LICENSE -f sql/quickstart.sql

-- The catalog `paimon` was named on the command line. Its tables are plain files below the warehouse directory.
USE paimon;

CREATE DATABASE IF NOT EXISTS quickstart;

USE quickstart;

-- One row per word. Without the option `bucket`, the table adds buckets as they are needed.
CREATE TABLE word_count (word STRING, cnt BIGINT) TBLPROPERTIES ('primary-key' = 'word');

-- The words of a real text, the licence of this project, read by Spark's own text source.
CREATE TEMPORARY VIEW words AS
SELECT lower(word) AS word
FROM text.`${license}` LATERAL VIEW explode(split(value, '[^A-Za-z]+')) AS word
WHERE word <> '';

INSERT INTO word_count SELECT word, count(*) FROM words GROUP BY word;

SELECT word, cnt FROM word_count ORDER BY cnt DESC, word LIMIT 5;

-- Inserting a word again replaces its row: rows with the same key are one row.
INSERT INTO word_count VALUES ('the', 1000), ('paimon', 1);

SELECT word, cnt FROM word_count WHERE word IN ('the', 'of', 'paimon') ORDER BY word;

-- Each INSERT committed a snapshot. The system tables of the format can be queried.
SELECT snapshot_id, commit_kind, total_record_count FROM `word_count$snapshots` ORDER BY snapshot_id;

-- Maintenance is a CALL, whose result reports what it did: here, old versions of rows are merged away.
CALL sys.compact(table => 'quickstart.word_count');

-- EXPLAIN lists the actions of a CALL without running it.
EXPLAIN CALL sys.expire_snapshots('quickstart.word_count', 1);

-- A tag keeps the current state of the table.
CALL sys.create_tag(table => 'quickstart.word_count', tag => 'licence-text');

-- A mistake: all short words are set to zero.
INSERT INTO word_count SELECT word, 0 FROM word_count WHERE length(word) <= 3;

SELECT count(*) AS words, sum(cnt) AS total FROM word_count;

-- The tag still has the earlier state.
SELECT count(*) AS words, sum(cnt) AS total FROM word_count VERSION AS OF 'licence-text';

-- A rollback to the tag restores it.
CALL sys.rollback_to(table => 'quickstart.word_count', tag => 'licence-text');

SELECT count(*) AS words, sum(cnt) AS total FROM word_count;

SELECT word, cnt FROM word_count ORDER BY cnt DESC, word LIMIT 5;
