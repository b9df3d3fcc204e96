-- verify: check that every file that a snapshot, tag, branch or changelog needs exists and is sound.
-- Run it: paimon-spark sql -f sql/procedures/verify.sql

USE paimon;

DROP DATABASE IF EXISTS demo_verify CASCADE;

CREATE DATABASE demo_verify;

USE demo_verify;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1',
    'deletion-vectors.enabled' = 'true');

INSERT INTO events VALUES (1, 'a'), (2, 'b');

INSERT INTO events VALUES (1, 'c');

CALL sys.create_branch('events', 'dev');

-- A sound table has no row.
CALL sys.verify('events');

-- With the footers of all data files, or with all their rows, of all tables of a database.
CALL sys.verify('events', 'footers');

CALL sys.verify(table => 'demo_verify.*', level => 'data', limit => 100);

DROP DATABASE demo_verify CASCADE;
