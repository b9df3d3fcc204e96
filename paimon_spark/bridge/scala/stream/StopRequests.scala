package org.apache.spark.sql.paimonbridge

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streaming.StreamingQuery

/** Ends queries that another program has requested to end, with `sys.stop`: the requests are files of their tables. */
object StopRequests extends Logging {
  private val PollMillis = 5000L
  private val watched = new ConcurrentHashMap[UUID, (CatalogRef, Any)]()

  /** Looks for requests about a query while it runs; `table` is the token or the name of the table that it writes. */
  def watch(query: UUID, catalog: CatalogRef, table: Any): Unit = { watched.put(query, (catalog, table)); poller }

  private lazy val poller: Thread = {
    val thread = new Thread(() => while (true) { Thread.sleep(PollMillis); poll() }, "paimon-stop-requests")
    thread.setDaemon(true)
    thread.start()
    thread
  }

  private def poll(): Unit = SparkSession.getDefaultSession.foreach { session =>
    val running = Jobs.active(session).map(q => q.id -> q).toMap
    watched.asScala.foreach { case (id, (catalog, table)) =>
      running.get(id).fold[Unit](watched.remove(id)) { query =>
        try look(query, catalog, table)
        catch { case NonFatal(e) => logWarning(s"No requests to end the job ${query.id} could be looked for.", e) }
      }
    }
  }

  private def look(query: StreamingQuery, catalog: CatalogRef, table: Any): Unit = {
    SparkSession.setActiveSession(query.sparkSession.asInstanceOf[ClassicSession])
    val args = Map("table" -> table, "names" -> (query.id.toString +: Option(query.name).toSeq))
    if (Engine.json("stop_requested", args, catalog).get("requested").asBoolean()) Jobs.ending {
      logInfo(s"The job ${query.id} ends, as another program has requested.")
      Jobs.end(query)
      Engine.json("stop_finished", args, catalog)
    }
  }
}
