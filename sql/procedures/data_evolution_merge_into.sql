-- data_evolution_merge_into: update columns of a table with data evolution by joining it with a source.
-- Run it: paimon-spark sql -f sql/procedures/data_evolution_merge_into.sql

USE paimon;

DROP DATABASE IF EXISTS demo_column_merge CASCADE;

CREATE DATABASE demo_column_merge;

USE demo_column_merge;

CREATE TABLE items (id INT, price INT, note STRING)
TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');

INSERT INTO items SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');

INSERT INTO items VALUES (4, 40, 'd');

CREATE TABLE news (item INT, price INT, note STRING);

INSERT INTO news VALUES (1, 11, 'new'), (3, NULL, 'none'), (9, 90, 'unknown');

-- The plan: the join, and what is written. Nothing changes.
EXPLAIN CALL sys.data_evolution_merge_into('items', '', '', 'news', 'items.id = news.item', 'price = news.price');

-- A null replaces a value too; a source row without a match is ignored.
CALL sys.data_evolution_merge_into('items', '', '', 'news', 'items.id = news.item', 'price = news.price');

SELECT *, _ROW_ID FROM items ORDER BY id;

-- The new file has one column of all rows of the first file.
SELECT record_count, array_join(write_cols, ',') AS columns FROM `items$files` ORDER BY record_count, columns NULLS FIRST;

-- All arguments by name. The source is a view that lives only during the call; rows are chosen by their ids.
CALL sys.data_evolution_merge_into(
  target_table => 'demo_column_merge.items',
  target_alias => 'i',
  source_sqls => 'CREATE TEMPORARY VIEW marks AS SELECT CAST(item AS BIGINT) AS row_id, note FROM news',
  source_table => 'marks',
  merge_condition => 'i._ROW_ID = marks.row_id',
  matched_update_set => 'note = concat(i.note, '' '', marks.note)',
  sink_parallelism => 2);

SELECT *, _ROW_ID FROM items ORDER BY id;

DROP DATABASE demo_column_merge CASCADE;
