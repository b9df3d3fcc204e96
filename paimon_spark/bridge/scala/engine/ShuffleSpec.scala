package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

/** How the rows of a write are shuffled: the message of `spark/shuffle_spec.py`. */
case class ShuffleSpec(
    columns: Seq[String],
    partition: Seq[String],
    hash: Option[HashColumn],
    tasks: Option[Int],
    classes: Int,
    exact: Boolean)

object ShuffleSpec {
  def fromJson(text: String): ShuffleSpec = {
    val json = Json.parse(text)
    ShuffleSpec(
      Json.strings(json.get("columns")),
      Json.strings(json.get("partition")),
      Json.optional(json, "hash").map(HashColumn.fromJson),
      Json.optional(json, "tasks").map(_.asInt()),
      json.get("classes").asInt(),
      json.get("exact").asBoolean())
  }
}

/** A column to add: the bucket of each row among `buckets`, or among as many as the column `counts` has for the row, or
  * the hash of its key where there is neither. `function` is the bucket function. */
case class HashColumn(name: String, buckets: Int, fields: Seq[HashedField], function: String, counts: Option[String])

object HashColumn {
  def fromJson(json: JsonNode): HashColumn = HashColumn(
    json.get("name").asText(),
    json.get("buckets").asInt(),
    Json.items(json.get("fields")).map(HashedField.fromJson),
    json.get("function").asText(),
    Json.optional(json, "counts").map(_.asText()))
}

/** A column of the hash, and the precision of its type, or 0. */
case class HashedField(name: String, precision: Int)

object HashedField {
  def fromJson(json: JsonNode): HashedField = HashedField(json.get("name").asText(), json.get("precision").asInt())
}
