{{ config(materialized="incremental", incremental_strategy="insert_overwrite", partition_by="name") }}
select id, price, name from {{ ref("items") }}
