package org.apache.spark.sql.paimonbridge

import java.util.Locale

import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction

/** The SQL functions of a Paimon catalog, in the namespace `sys` and in the catalog itself. */
object Functions {
  private val All: Map[String, UnboundFunction] =
    Seq(
      new UnboundBucket("bucket", "default"),
      new UnboundBucket("mod_bucket", "mod"),
      new UnboundBucket("hive_bucket", "hive"),
      MaxPartition).map(f => f.name -> f).toMap

  private def has(namespace: Array[String]): Boolean = namespace.isEmpty || namespace.sameElements(Array("sys"))

  def list(namespace: Array[String]): Array[Identifier] =
    if (has(namespace)) All.keys.toArray.sorted.map(Identifier.of(namespace, _)) else Array.empty

  def load(ident: Identifier): Option[UnboundFunction] =
    if (has(ident.namespace())) All.get(ident.name().toLowerCase(Locale.ROOT)) else None
}
