-- The quick start of Paimon's Flink guide, statement by statement, for stock spark-sql:
--   make guide
-- Marked with [+] is what the guide does by hand or leaves open: where the warehouse is, waiting, and the end.

-- Step 5: create a catalog and a table
CREATE CATALOG my_catalog WITH (
    'type'='paimon',
    'warehouse'='file:/tmp/paimon'
);

USE CATALOG my_catalog;

-- [+] run again from the start
DROP TABLE IF EXISTS word_count;

-- create a word count table
CREATE TABLE word_count (
    word STRING PRIMARY KEY NOT ENFORCED,
    cnt BIGINT
);

-- Step 6: write data
-- create a word data generator table
CREATE TEMPORARY TABLE word_table (
    word STRING
) WITH (
    'connector' = 'datagen',
    'fields.word.length' = '1'
);

-- paimon requires checkpoint interval in streaming mode
SET 'execution.checkpointing.interval' = '10 s';

-- write streaming data to dynamic table
INSERT INTO word_count SELECT word, COUNT(*) FROM word_table GROUP BY word;

-- [+] the first batches
SHOW JOBS;
SELECT reflect('java.lang.Thread', 'sleep', 30000L) AS `wait`;

-- Step 7: OLAP query
-- use tableau result mode
SET 'sql-client.execution.result-mode' = 'tableau';

-- switch to batch mode
RESET 'execution.checkpointing.interval';
SET 'execution.runtime-mode' = 'batch';

-- olap query the table
SELECT * FROM word_count;

-- Step 8: streaming query
-- switch to streaming mode
SET 'execution.runtime-mode' = 'streaming';

-- [+] without it, the query shows changes until it is interrupted
SET 'paimon.streaming-select.timeout' = '20 s';

-- track the changes of table and calculate the count interval statistics; the division is Spark's: DIV is a whole one
SELECT `interval`, COUNT(*) AS interval_cnt FROM
    (SELECT cnt / 10000 AS `interval` FROM word_count) GROUP BY `interval`;

-- Step 9: exit
-- [+] the jobs of a session end with it; one can be stopped before: STOP JOB '<id>'
DROP TABLE word_count;
