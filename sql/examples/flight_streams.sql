-- Streams over three tables in SQL: reported flights, those that have departed, totals of each carrier.
-- Run it: paimon-spark sql -f sql/examples/flight_streams.sql
USE paimon;

DROP DATABASE IF EXISTS flight_streams CASCADE;

CREATE DATABASE flight_streams;

USE flight_streams;

CREATE TABLE reported (carrier STRING, flight INT, dep_delay INT, PRIMARY KEY (carrier, flight) NOT ENFORCED)
WITH ('bucket' = '2', 'changelog-producer' = 'lookup');

CREATE TABLE departed (carrier STRING, flight INT, dep_delay INT, PRIMARY KEY (carrier, flight) NOT ENFORCED)
WITH ('bucket' = '2', 'changelog-producer' = 'lookup');

CREATE TABLE totals (carrier STRING PRIMARY KEY NOT ENFORCED, flights BIGINT, mean_delay DOUBLE, worst_delay INT)
WITH ('bucket' = '1', 'changelog-producer' = 'lookup');

SET 'execution.checkpointing.interval' = '1 s';

-- Two jobs. The column `rowkind` has the kind of each row; the tables need not have it.
SET 'pipeline.name' = 'clean';

INSERT INTO departed
SELECT carrier, flight, dep_delay, rowkind FROM paimon_changes('reported') WHERE dep_delay IS NOT NULL;

SET 'pipeline.name' = 'total';

INSERT INTO totals
SELECT carrier, changelog_count(rowkind), changelog_avg(dep_delay, rowkind), changelog_max(dep_delay, rowkind),
  changelog_kind(rowkind) AS rowkind
FROM paimon_changes('departed') GROUP BY carrier;

INSERT INTO reported VALUES ('UA', 1545, 2), ('UA', 1714, 4), ('AA', 1141, 2), ('B6', 725, -1), ('DL', 461, NULL);

-- Corrections, a late departure and a cancellation.
INSERT INTO reported VALUES ('UA', 1714, 40), ('DL', 461, 25);

DELETE FROM reported WHERE carrier = 'AA';

SELECT reflect('java.lang.Thread', 'sleep', 12000L) AS `wait`;

STOP JOB 'clean';

STOP JOB 'total';

SELECT * FROM totals ORDER BY carrier;

-- The same by a query of the whole table.
SELECT carrier, count(*) AS flights, avg(dep_delay) AS mean_delay, max(dep_delay) AS worst_delay
FROM reported WHERE dep_delay IS NOT NULL GROUP BY carrier ORDER BY carrier;

DROP DATABASE flight_streams CASCADE;
