-- A year of real flights: all 336,776 departures from New York in 2013.
-- `make flights` exports the data to Parquet and runs this script; ${data} is the directory with the two files.
USE paimon;

CREATE DATABASE IF NOT EXISTS air;

USE air;

SET TIME ZONE 'America/New_York';

CREATE TEMPORARY VIEW raw_flights USING parquet OPTIONS (path '${data}/flights.parquet');

CREATE TEMPORARY VIEW raw_weather USING parquet OPTIONS (path '${data}/weather.parquet');

-- The key of a flight is its hour, carrier and number. One partition per month; buckets are added as needed.
CREATE TABLE flights (
  month INT, time_hour TIMESTAMP, carrier STRING, flight INT, origin STRING, dest STRING, tailnum STRING,
  dep_delay INT, arr_delay INT, air_time INT, distance INT, cancelled BOOLEAN
)
PARTITIONED BY (month)
TBLPROPERTIES ('primary-key' = 'month,time_hour,carrier,flight');

-- Weather rows are only added: a table without a key.
CREATE TABLE weather (origin STRING, time_hour TIMESTAMP, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE);

INSERT INTO weather SELECT origin, time_hour, temp, wind_speed, precip, visib FROM raw_weather;

-- The schedule as it was reported: one row per flight. Each month is loaded, then tagged.
CREATE TEMPORARY VIEW reported AS
SELECT month, time_hour, carrier, flight, origin, dest, tailnum, dep_delay, arr_delay, air_time, distance,
  dep_time IS NULL AS cancelled
FROM raw_flights;

-- January
INSERT INTO flights SELECT * FROM reported WHERE month = 1;

CALL sys.create_tag(table => 'air.flights', tag => '2013-01');

INSERT INTO flights SELECT * FROM reported WHERE month = 2;

CALL sys.create_tag(table => 'air.flights', tag => '2013-02');

INSERT INTO flights SELECT * FROM reported WHERE month = 3;

CALL sys.create_tag(table => 'air.flights', tag => '2013-03');

INSERT INTO flights SELECT * FROM reported WHERE month = 4;

CALL sys.create_tag(table => 'air.flights', tag => '2013-04');

INSERT INTO flights SELECT * FROM reported WHERE month = 5;

CALL sys.create_tag(table => 'air.flights', tag => '2013-05');

INSERT INTO flights SELECT * FROM reported WHERE month = 6;

CALL sys.create_tag(table => 'air.flights', tag => '2013-06');

INSERT INTO flights SELECT * FROM reported WHERE month = 7;

CALL sys.create_tag(table => 'air.flights', tag => '2013-07');

INSERT INTO flights SELECT * FROM reported WHERE month = 8;

CALL sys.create_tag(table => 'air.flights', tag => '2013-08');

INSERT INTO flights SELECT * FROM reported WHERE month = 9;

CALL sys.create_tag(table => 'air.flights', tag => '2013-09');

INSERT INTO flights SELECT * FROM reported WHERE month = 10;

CALL sys.create_tag(table => 'air.flights', tag => '2013-10');

INSERT INTO flights SELECT * FROM reported WHERE month = 11;

CALL sys.create_tag(table => 'air.flights', tag => '2013-11');

INSERT INTO flights SELECT * FROM reported WHERE month = 12;

CALL sys.create_tag(table => 'air.flights', tag => '2013-12');

-- The year is complete.
SELECT count(*) AS flights, count(DISTINCT carrier) AS carriers, sum(CAST(cancelled AS INT)) AS cancelled FROM flights;

SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS delay
FROM flights WHERE NOT cancelled GROUP BY carrier ORDER BY flights DESC, carrier LIMIT 5;

-- One partition is read, and in it the files whose statistics allow for the hour.
SELECT carrier, flight, origin, dest, dep_delay
FROM flights WHERE month = 7 AND time_hour = TIMESTAMP '2013-07-03 17:00:00'
ORDER BY dep_delay DESC NULLS LAST, carrier, flight LIMIT 5;

-- Delays and rain: the table with a key joined with the one without.
SELECT CASE WHEN w.precip > 0 THEN 'rain' ELSE 'dry' END AS sky, count(*) AS flights, round(avg(f.dep_delay), 1) AS delay
FROM flights f JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
WHERE NOT f.cancelled GROUP BY 1 ORDER BY 1;

-- Corrections arrive. First: delays of three hours and more were reported five minutes short.
INSERT INTO flights
SELECT month, time_hour, carrier, flight, origin, dest, tailnum, dep_delay + 5, arr_delay + 5, air_time, distance, cancelled
FROM reported WHERE dep_delay >= 180;

-- Second: on the days of the February storm, the evening flights out of LaGuardia never took off.
INSERT INTO flights
SELECT month, time_hour, carrier, flight, origin, dest, tailnum, NULL, NULL, NULL, distance, true
FROM reported
WHERE month = 2 AND origin = 'LGA' AND time_hour >= TIMESTAMP '2013-02-08 15:00:00' AND time_hour < TIMESTAMP '2013-02-10 00:00:00';

SELECT month, count(*) AS flights, sum(CAST(cancelled AS INT)) AS cancelled, max(dep_delay) AS worst
FROM flights WHERE month <= 4 GROUP BY month ORDER BY month;

-- What was known at the end of March, and before the corrections?
SELECT count(*) AS flights, max(month) AS last_month FROM flights VERSION AS OF '2013-03';

SELECT month, count(*) AS flights, sum(CAST(cancelled AS INT)) AS cancelled, max(dep_delay) AS worst
FROM flights VERSION AS OF '2013-12' WHERE month <= 4 GROUP BY month ORDER BY month;

-- Merge the corrections into the files, so that reads are plain file scans again.
CALL sys.compact(table => 'air.flights');

SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS delay
FROM flights WHERE NOT cancelled GROUP BY carrier ORDER BY flights DESC, carrier LIMIT 5;

SELECT partition, record_count, file_count FROM `flights$partitions` ORDER BY partition LIMIT 3;

-- Expire the other snapshots. What a tag needs is kept.
CALL sys.expire_snapshots('air.flights', 1);

SELECT count(*) AS snapshots FROM `flights$snapshots`;

SELECT count(*) AS flights, max(month) AS last_month FROM flights VERSION AS OF '2013-03';

SELECT count(*) AS flights, sum(CAST(cancelled AS INT)) AS cancelled, sum(dep_delay) AS minutes FROM flights;
