-- expire_changelogs: remove changelogs that have outlived their snapshots.
-- Run it: paimon-spark sql -f sql/procedures/expire_changelogs.sql

USE paimon;

DROP DATABASE IF EXISTS demo_expire_changelogs CASCADE;

CREATE DATABASE demo_expire_changelogs;

USE demo_expire_changelogs;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1',
  'write-only' = 'true', 'changelog.time-retained' = '7 d');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

INSERT INTO prices VALUES ('tea', 6);

INSERT INTO prices VALUES ('tea', 7);

-- Snapshots 1 to 4 expire; their changelogs stay.
CALL sys.expire_snapshots('prices', 1);

CALL sys.expire_changelogs(table => 'prices', retain_max => 4, retain_min => 1, older_than => '2200-01-01 00:00:00', max_deletes => 10);

-- By position: at most two changelogs stay.
CALL sys.expire_changelogs('prices', 2);

-- All of them.
CALL sys.expire_changelogs(table => 'prices', delete_all => true, trash => false);

DROP DATABASE demo_expire_changelogs CASCADE;
