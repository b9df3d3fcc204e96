-- running: the CALLs of all sessions of this Spark application.
-- Run it: paimon-spark sql -f sql/procedures/running.sql

USE paimon;

-- Another session that compacts is listed with the id that cancel takes.
CALL sys.running();
