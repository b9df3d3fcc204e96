{{ config(materialized="incremental", incremental_strategy="merge", unique_key="id", tblproperties={"primary-key": "id", "bucket": "1"}) }}
select id, name, price from {{ ref("items") }}
