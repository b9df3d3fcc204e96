-- Tags in SQL: ALTER TABLE … CREATE, REPLACE, RENAME and DELETE TAG, and SHOW TAGS.
-- Run it: paimon-spark sql -f sql/tags.sql

USE paimon;

DROP DATABASE IF EXISTS demo_tags CASCADE;

CREATE DATABASE demo_tags;

USE demo_tags;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

ALTER TABLE prices CREATE TAG opening AS OF VERSION 1;

ALTER TABLE demo_tags.prices CREATE TAG `2024-05-14` RETAIN 30 DAYS;

-- It exists: nothing to do.
ALTER TABLE paimon.demo_tags.prices CREATE TAG IF NOT EXISTS opening;

SHOW TAGS prices;

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags` ORDER BY tag_name;

ALTER TABLE prices REPLACE TAG opening AS OF VERSION 2 RETAIN 12 HOURS;

-- It does not exist: it is created.
ALTER TABLE prices CREATE OR REPLACE TAG closing;

ALTER TABLE prices RENAME TAG closing TO `end`;

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags` ORDER BY tag_name;

-- The plan; nothing changes.
EXPLAIN ALTER TABLE prices DELETE TAG opening;

ALTER TABLE prices DELETE TAG `opening, end`;

ALTER TABLE prices DELETE TAG IF EXISTS opening;

SHOW TAGS prices;

DROP DATABASE demo_tags CASCADE;
