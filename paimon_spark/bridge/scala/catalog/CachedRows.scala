package org.apache.spark.sql.paimonbridge

import java.lang.reflect.InvocationTargetException

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.execution.CacheManager
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** The rows of tables that Spark has cached. */
object CachedRows {

  /** From Spark 4.1 on, where a query finds cached tables by name, whatever their schema and options. */
  private val byName = classOf[CacheManager].getMethods.find(_.getName == "recacheTableOrView")

  /** Reads the cached rows of a table again, after a statement has changed it.
    *
    * @param relation the table, with any columns and options */
  def refresh(session: SparkSession, relation: DataSourceV2Relation): Unit = {
    val cached = session.sharedState.cacheManager
    (byName, relation.catalog, relation.identifier) match {
      case (Some(recache), Some(catalog), Some(ident)) =>
        try recache.invoke(cached, session, ident.toQualifiedNameParts(catalog), Boolean.box(false))
        catch { case error: InvocationTargetException => throw error.getCause }
      case _ =>
        cached.recacheByPlan(
          session,
          DataSourceV2Relation.create(relation.table, relation.catalog, relation.identifier))
    }
  }
}
