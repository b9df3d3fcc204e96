package org.apache.spark.sql.hive.thriftserver.paimonbridge

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.hive.service.cli.{OperationState, RowSet}
import org.apache.hive.service.cli.operation._
import org.apache.hive.service.cli.session.HiveSession

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.hive.thriftserver.SparkOperation

/** DatabaseMetaData.getCatalogs: the configured catalogs. */
private class CatalogsOperation(val session: SparkSession, parent: HiveSession)
    extends GetCatalogsOperation(parent) with SparkOperation {
  override def runInternal(): Unit = {
    setState(OperationState.RUNNING)
    try {
      new Listing(session).catalogs.foreach(c => rowSet.addRow(Array[AnyRef](c)))
      setState(OperationState.FINISHED)
    } catch onError()
  }
}

/** DatabaseMetaData.getSchemas: TABLE_SCHEM, TABLE_CATALOG. */
private class SchemasOperation(val session: SparkSession, parent: HiveSession, catalog: String, schema: String)
    extends GetSchemasOperation(parent, catalog, schema) with SparkOperation {
  override def runInternal(): Unit = {
    setState(OperationState.RUNNING)
    try {
      new Listing(session).schemas(catalog, schema).foreach { case (c, s) => rowSet.addRow(Array[AnyRef](s, c)) }
      setState(OperationState.FINISHED)
    } catch onError()
  }
}

/** DatabaseMetaData.getTables, ordered by kind, schema and name. Comments are those of the session catalog, because
  * others would require loading each table. */
private class TablesOperation(
    val session: SparkSession,
    parent: HiveSession,
    catalog: String,
    schema: String,
    table: String,
    kinds: JList[String])
    extends GetTablesOperation(parent, catalog, schema, table, kinds) with SparkOperation {
  override def runInternal(): Unit = {
    setState(OperationState.RUNNING)
    try {
      val wanted = Option(kinds).toSeq.flatMap(_.asScala).map(_.toUpperCase).toSet
      new Listing(session).tables(catalog, schema, table, wanted).sortBy(_.kind).foreach { t =>
        rowSet.addRow(Array[AnyRef](t.catalog, t.schema, t.name, t.kind, t.comment, null, null, null, null, null))
      }
      setState(OperationState.FINISHED)
    } catch onError()
  }
}

/** DatabaseMetaData.getColumns. */
private class ColumnsOperation(
    val session: SparkSession,
    parent: HiveSession,
    catalog: String,
    schema: String,
    table: String,
    column: String)
    extends GetColumnsOperation(parent, catalog, schema, table, column) with SparkOperation {
  override def runInternal(): Unit = {
    setState(OperationState.RUNNING)
    try {
      val matches = Listing.matcher(column)
      for {
        t <- new Listing(session).tables(catalog, schema, table, Set.empty)
        (f, at) <- t.columns.zipWithIndex if matches(f.name)
      } rowSet.addRow(JdbcColumn.row(t, f, at + 1))
      setState(OperationState.FINISHED)
    } catch onError()
  }
}

/** DatabaseMetaData.getPrimaryKeys: the columns of the property `primary-key`. Names of another case are only meant if
  * there is no table of exactly these names. */
private class PrimaryKeysOperation(
    val session: SparkSession,
    parent: HiveSession,
    catalog: String,
    schema: String,
    table: String)
    extends GetPrimaryKeysOperation(parent, catalog, schema, table) with SparkOperation {
  private val keys = Fields.get(classOf[GetPrimaryKeysOperation], this, "rowSet").asInstanceOf[RowSet]

  override def runInternal(): Unit = {
    setState(OperationState.RUNNING)
    try {
      val near =
        new Listing(session).tables(catalog, JdbcColumn.exact(schema), JdbcColumn.exact(table), Set(Listing.Table))
      val same = near.filter(t => t.name == table && (schema == null || schema.isEmpty || t.schema == schema))
      for {
        t <- if (same.isEmpty) near else same
        (key, at) <- t.primaryKeys.zipWithIndex
      } keys.addRow(Array[AnyRef](t.catalog, t.schema, t.name, key, Int.box(at + 1), "PRIMARY"))
      setState(OperationState.FINISHED)
    } catch onError()
  }
}
