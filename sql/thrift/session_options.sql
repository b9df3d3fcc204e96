-- Options of one connection: they hold for the session that sets them and for no other.
USE paimon;

CREATE DATABASE IF NOT EXISTS bi;

CREATE TABLE bi.events (id BIGINT, what STRING);

INSERT INTO bi.events VALUES (1, 'first');

INSERT INTO bi.events VALUES (2, 'second');

-- Every read of this session sees the first snapshot, until the option is reset.
SET `spark.paimon.scan.snapshot-id` = 1;

SELECT id, what FROM bi.events ORDER BY id;

RESET `spark.paimon.scan.snapshot-id`;

SELECT id, what FROM bi.events ORDER BY id;

DROP TABLE bi.events;

DROP DATABASE bi;
