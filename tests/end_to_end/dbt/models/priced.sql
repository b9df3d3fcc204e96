{{ config(materialized="table", tblproperties={"primary-key": "id", "bucket": "1"}) }}
select id, name, price from {{ ref("items") }}
