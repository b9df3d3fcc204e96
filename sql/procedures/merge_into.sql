-- merge_into: change a primary key table by joining it with a source.
-- Run it: paimon-spark sql -f sql/procedures/merge_into.sql

USE paimon;

DROP DATABASE IF EXISTS demo_merge_into CASCADE;

CREATE DATABASE demo_merge_into;

USE demo_merge_into;

CREATE TABLE orders (id INT, price INT, mark STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');

INSERT INTO orders VALUES (1, 10, 'important'), (2, 20, 'trivial'), (3, 30, 'trivial'), (4, 40, 'important');

CREATE TABLE news (order_id INT, price INT, mark STRING);

INSERT INTO news VALUES (1, 11, 'important'), (2, 0, 'gone'), (9, 90, 'new');

-- The plan: the join, and what happens to the rows. Nothing changes.
EXPLAIN CALL sys.merge_into('orders', '', '', 'news', 'orders.id = news.order_id', 'news.price = 0');

-- Six values: matched rows whose source row has the price 0 are deleted.
CALL sys.merge_into('orders', '', '', 'news', 'orders.id = news.order_id', 'news.price = 0');

SELECT * FROM orders ORDER BY id;

-- Nine values: matched rows get 20 more, the other rows of the source are inserted as they are.
CALL sys.merge_into('orders', '', '', 'news', 'orders.id = news.order_id', '', 'price = orders.price + 20', 'price > 0', '*');

SELECT * FROM orders ORDER BY id;

-- All arguments by name. The source is a view that lives only during the call.
CALL sys.merge_into(
  target_table => 'demo_merge_into.orders',
  target_alias => 'o',
  source_sqls => 'CREATE TEMPORARY VIEW latest AS SELECT order_id, max(price) AS price FROM news GROUP BY order_id',
  source_table => 'latest',
  merge_condition => 'o.id = latest.order_id',
  matched_upsert_condition => 'latest.price > 50',
  matched_upsert_setting => 'price = latest.price, mark = concat(o.mark, ''!'')',
  not_matched_insert_condition => 'price = 0',
  not_matched_insert_values => 'order_id, -1, ''back''',
  matched_delete_condition => 'latest.price < 20',
  not_matched_by_source_upsert_condition => 'mark = ''important''',
  not_matched_by_source_upsert_setting => 'price = price * 2',
  not_matched_by_source_delete_condition => 'mark = ''trivial''');

SELECT * FROM orders ORDER BY id;

-- The same by position, with thirteen values; nothing is left to delete.
CALL sys.merge_into('orders', '', '', 'news', 'orders.id = news.order_id', '', '', '', '', '', '', '', 'mark = ''trivial''');

DROP DATABASE demo_merge_into CASCADE;
