-- cancel: ends a CALL that another session of this Spark application runs.
-- Run it: paimon-spark sql -f sql/procedures/cancel.sql

USE paimon;

-- sys.running() lists the ids; the result false means that no such CALL runs.
CALL sys.cancel(id => 'call-0');

-- The same by position.
CALL sys.cancel('call-0');
