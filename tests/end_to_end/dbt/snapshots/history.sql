{% snapshot history %}
{{ config(target_schema="dbt", unique_key="id", strategy="check", check_cols=["price"], file_format="paimon") }}
select id, name, price from {{ ref("items") }}
{% endsnapshot %}
