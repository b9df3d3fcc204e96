package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{JsonNodeFactory, NullNode}

/** Conversion between JSON and plain Scala values, the only ones that the bridge sends. */
object Json {
  private val mapper = new ObjectMapper()
  private val make = JsonNodeFactory.instance

  def parse(text: String): JsonNode = mapper.readTree(text)

  def text(value: Any): String = mapper.writeValueAsString(node(value))

  def node(value: Any): JsonNode = value match {
    case null | None => NullNode.getInstance()
    case Some(inner) => node(inner)
    case ready: JsonNode => ready
    case s: String => make.textNode(s)
    case b: Boolean => make.booleanNode(b)
    case i: Int => make.numberNode(i)
    case l: Long => make.numberNode(l)
    case m: scala.collection.Map[_, _] =>
      val out = make.objectNode()
      m.foreach { case (k, v) => out.set[JsonNode](k.toString, node(v)) }
      out
    case m: java.util.Map[_, _] => node(m.asScala)
    case xs: Array[_] => node(xs.toSeq)
    case xs: Iterable[_] =>
      val out = make.arrayNode()
      xs.foreach(x => out.add(node(x)))
      out
    case other => make.textNode(other.toString)
  }

  def strings(node: JsonNode): Seq[String] =
    if (node == null || node.isNull) Nil else node.elements().asScala.map(_.asText()).toSeq

  def stringMap(node: JsonNode): Map[String, String] =
    if (node == null || node.isNull) Map.empty
    else node.fields().asScala.map(e => e.getKey -> e.getValue.asText()).toMap

  def items(node: JsonNode): Seq[JsonNode] =
    if (node == null || node.isNull) Nil else node.elements().asScala.toSeq

  def optional(node: JsonNode, name: String): Option[JsonNode] =
    Option(node.get(name)).filterNot(_.isNull)
}
