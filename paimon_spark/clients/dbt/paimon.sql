{#
  Macros with which dbt-spark uses Paimon tables. Copy this file into the directory macros/ of the project: dbt replaces
  macros of an adapter only by those of the project itself.
#}

{# Accepts `file_format: paimon`, in addition to the formats that Spark checks itself. #}
{% macro dbt_spark_validate_get_file_format(raw_file_format) %}
  {% do return(raw_file_format) %}
{% endmacro %}

{# Paimon tables support MERGE INTO. #}
{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {% set known = ['append', 'merge', 'insert_overwrite', 'microbatch'] %}
  {% if raw_strategy not in known %}
    {% do exceptions.raise_compiler_error(
      "There is no incremental strategy '" ~ raw_strategy ~ "'. Choose one of " ~ known | join(', ') ~ ".") %}
  {% endif %}
  {% if raw_strategy == 'merge' and file_format not in ['paimon', 'delta', 'iceberg', 'hudi'] %}
    {% do exceptions.raise_compiler_error(
      "The incremental strategy 'merge' needs file_format 'paimon', 'delta', 'iceberg' or 'hudi', not '" ~ file_format ~ "'.") %}
  {% endif %}
  {% do return(raw_strategy) %}
{% endmacro %}

{# Snapshots of all formats with MERGE INTO, by dbt's own materialization: dbt-spark's refuses others. #}
{% materialization snapshot, adapter='spark' %}
  {% if config.get('file_format') not in ['paimon', 'delta', 'iceberg', 'hudi'] %}
    {% do exceptions.raise_compiler_error(
      "A snapshot needs file_format 'paimon', 'delta', 'iceberg' or 'hudi', not '" ~ config.get('file_format') ~ "'.") %}
  {% endif %}
  {% do model.update({'database': none}) %}
  {{ return(dbt.materialization_snapshot_default()) }}
{% endmaterialization %}
