-- config: list the options in force, and where each comes from.
-- Run it: paimon-spark sql -f sql/procedures/config.sql

USE paimon;

DROP DATABASE IF EXISTS demo_config CASCADE;

CREATE DATABASE demo_config;

USE demo_config;

CREATE TABLE events (id INT) TBLPROPERTIES ('target-file-size' = '64 mb', 'sink.parallelism' = '2');

-- Options of the session take precedence over those of the table.
SET spark.paimon.paimon.demo_config.events.target-file-size = 32 mb;

CALL sys.config(table => 'events', defaults => false);

RESET spark.paimon.paimon.demo_config.events.target-file-size;

DROP DATABASE demo_config CASCADE;
