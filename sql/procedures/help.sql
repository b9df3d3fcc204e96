-- help: what can be called, and how.
-- Run it: paimon-spark sql -f sql/procedures/help.sql

USE paimon;

-- Every procedure with one sentence.
CALL sys.help();

-- One procedure: its forms, arguments, result columns and an example.
CALL sys.help('compact');

-- The same by name; the namespace may be left out.
CALL help(procedure => 'rollback_to');
