package org.apache.spark.sql.paimonbridge

import java.util.WeakHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.QueryPlanningTracker
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The snapshots that a query reads: all its references to one table, also those in subqueries, read the same one. */
object SnapshotOfQuery {
  private type Reference = (CatalogRef, JsonNode, Option[String])

  /** By query, of which Spark has one tracker on the thread while it optimizes it. */
  private val chosen = new WeakHashMap[QueryPlanningTracker, mutable.Map[Reference, Long]]

  private def ofThread: Option[mutable.Map[Reference, Long]] = QueryPlanningTracker.get.map { query =>
    chosen.synchronized(chosen.computeIfAbsent(query, _ => mutable.Map.empty))
  }

  /** Whether a query is being optimized. */
  def isKnown: Boolean = QueryPlanningTracker.get.isDefined

  /** A reference that reads the newest snapshot of a table; None for another one, and for rows to be changed. */
  private def newest(table: PaimonTable, options: CaseInsensitiveStringMap): Option[Reference] = {
    val given = options.asScala.toMap
    val chooses = given.keys.exists(k => k.startsWith("scan.") || k.startsWith("incremental-")) ||
      Seq("snapshot", "moment", "analyzed", "writes").exists(table.token.hasNonNull)
    if (!table.isData || chooses) None else Some((table.catalog, table.token, given.get("branch")))
  }

  /** The engine's answer about a reference: at the snapshot of the query, or at the newest one, which is then that of
    * the query. */
  def ask(table: PaimonTable, options: CaseInsensitiveStringMap)(of: Map[String, Any] => JsonNode): JsonNode =
    (for (snapshots <- ofThread; reference <- newest(table, options)) yield {
      val answer = of(snapshots.get(reference).map("snapshot" -> _).toMap)
      Json.optional(answer, "snapshot").foreach(id => snapshots.getOrElseUpdate(reference, id.asLong()))
      answer
    }).getOrElse(of(Map.empty))
}
