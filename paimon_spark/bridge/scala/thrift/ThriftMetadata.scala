package org.apache.spark.sql.hive.thriftserver.paimonbridge

import java.lang.reflect.Field
import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hive.service.cli.{OperationHandle, SessionHandle}
import org.apache.hive.service.cli.operation._
import org.apache.hive.service.cli.session.{HiveSession, SessionManager}
import org.apache.hive.service.server.HiveServer2

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.hive.thriftserver.{HiveThriftServer2, SparkSQLSessionManager}
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager

/**
 * Makes the Thrift server answer JDBC's metadata requests from all catalogs of a session. Spark's own operations cover
 * the session catalog only. The operations of a running server are replaced with its first session, or with the first
 * statement if all connections share a session that is older than the server.
 */
object ThriftMetadata extends Logging {

  /** What Spark has for the server that has these operations. */
  @volatile private var served: AnyRef = _

  /** Installs the operations if this process is a Thrift server that has none. */
  def install(): Unit = {
    val listener = HiveThriftServer2.listener
    if (listener != null && (listener ne served)) synchronized {
      if (listener ne served) server(listener).foreach { running =>
        served = listener
        try install(sessions(running))
        catch {
          case NonFatal(e) => logWarning("JDBC metadata lists only the session catalog on this release of Spark.", e)
        }
      }
    }
  }

  private def server(listener: AnyRef): Option[HiveServer2] =
    Fields.get(listener.getClass, listener, "server").asInstanceOf[Option[HiveServer2]]

  private def sessions(server: HiveServer2): SessionManager =
    server.getServices.asScala.collectFirst { case c: org.apache.hive.service.cli.CLIService =>
      c.getSessionManager
    }.get

  private def install(manager: SessionManager): Unit = manager.getOperationManager match {
    case _: CatalogOperations =>
    case stock: SparkSQLOperationManager =>
      val own = new CatalogOperations(stock)
      Fields.set(classOf[SessionManager], manager, "operationManager", own)
      Fields.set(classOf[SparkSQLSessionManager], manager, "sparkSqlOperationManager", own)
      Fields.get(classOf[SessionManager], manager, "handleToSession").asInstanceOf[
        JMap[SessionHandle, HiveSession]].values().asScala
        .foreach(_.setOperationManager(own))
  }
}

/** Private fields of Spark's Thrift server. */
private object Fields {
  def get(owner: Class[_], of: AnyRef, name: String): AnyRef = opened(owner, name).get(of)

  def set(owner: Class[_], of: AnyRef, name: String, value: AnyRef): Unit = opened(owner, name).set(of, value)

  private def opened(owner: Class[_], name: String): Field = {
    val field = owner.getDeclaredField(name)
    field.setAccessible(true)
    field
  }
}

/** The operations of Spark's Thrift server, with metadata of all catalogs. Its sessions and running operations are
  * those of `stock`: other threads may use it until it is replaced. */
private class CatalogOperations(stock: SparkSQLOperationManager) extends SparkSQLOperationManager {

  /** The map of Hive's operation manager, which Spark's one finds only from a direct subclass. */
  override val handleToOperation: JMap[OperationHandle, Operation] =
    Fields.get(classOf[OperationManager], stock, "handleToOperation").asInstanceOf[JMap[OperationHandle, Operation]]
  Fields.set(classOf[OperationManager], this, "handleToOperation", handleToOperation)
  override val sessionToContexts = stock.sessionToContexts

  private def of(parent: HiveSession): SparkSession = sessionToContexts.get(parent.getSessionHandle)

  private def kept[T <: Operation](operation: T): T = {
    handleToOperation.put(operation.getHandle, operation)
    operation
  }

  override def newGetCatalogsOperation(parent: HiveSession): GetCatalogsOperation =
    synchronized(kept(new CatalogsOperation(of(parent), parent)))

  override def newGetSchemasOperation(parent: HiveSession, catalog: String, schema: String): GetSchemasOperation =
    synchronized(kept(new SchemasOperation(of(parent), parent, catalog, schema)))

  override def newGetTablesOperation(
      parent: HiveSession,
      catalog: String,
      schema: String,
      table: String,
      types: JList[String]): MetadataOperation =
    synchronized(kept(new TablesOperation(of(parent), parent, catalog, schema, table, types)))

  override def newGetColumnsOperation(
      parent: HiveSession,
      catalog: String,
      schema: String,
      table: String,
      column: String): GetColumnsOperation =
    synchronized(kept(new ColumnsOperation(of(parent), parent, catalog, schema, table, column)))

  override def newGetPrimaryKeysOperation(
      parent: HiveSession,
      catalog: String,
      schema: String,
      table: String): GetPrimaryKeysOperation =
    synchronized(kept(new PrimaryKeysOperation(of(parent), parent, catalog, schema, table)))
}
