package org.apache.spark.sql.paimonbridge

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, Trigger}
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.util.{ShutdownHookManager, Utils}

/** The keys of Flink's SQL client that apply to streaming statements. */
object ClientKeys {
  val Mode = "execution.runtime-mode"
  val Interval = "execution.checkpointing.interval"
  val Directory = "execution.checkpointing.dir"
  val JobName = "pipeline.name"
  private val DefaultMillis = 10000L

  def isStreaming(session: SparkSession): Boolean = mode(session).contains("streaming")
  def isBatch(session: SparkSession): Boolean = mode(session).contains("batch")
  private def mode(session: SparkSession): Option[String] = Option(session.conf.get(Mode, null)).map(_.toLowerCase)

  def interval(session: SparkSession): Long = session.conf.getOption(Interval).fold(DefaultMillis)(millis)

  def millis(duration: String): Long =
    Engine.json("duration_millis", Map("text" -> duration), CatalogRef.none).get("millis").asLong()
}

/** INSERT of an unbounded query: starts a streaming query, which runs on after the statement. */
case class StartJobCommand(target: DataSourceV2Relation, query: LogicalPlan) extends LeafRunnableCommand with Logging {
  override val output: Seq[Attribute] =
    DataTypesBridge.attributes(new StructType().add("job id", StringType, nullable = false))
  override def simpleString(maxFields: Int): String = s"PaimonStartJob ${target.name}"

  override def run(session: SparkSession): Seq[Row] = {
    if (ClientKeys.isBatch(session)) throw new PaimonException(
      "[UNSUPPORTED_FEATURE] The query is unbounded, but the session runs in batch mode. " +
        s"Write SET '${ClientKeys.Mode}' = 'streaming', or read a bounded table.",
      "UNSUPPORTED_FEATURE")
    if (session.conf.getOption(ClientKeys.Interval).isEmpty) logWarning(
      s"'${ClientKeys.Interval}' is not set: the stream commits every ${ClientKeys.interval(session) / 1000} s.")
    Seq(Row(start(session).id.toString))
  }

  private def start(session: SparkSession): StreamingQuery = {
    val name =
      session.conf.getOption(ClientKeys.JobName).filter(_.trim.nonEmpty).getOrElse(s"insert-into_${target.name}")
    val place = Jobs.checkpoints(session, name, query)
    val free = !Jobs.active(session).exists(_.name == name)
    val writer = Dataset.ofRows(session.asInstanceOf[ClassicSession], query).writeStream
      .outputMode(if (updates) OutputMode.Update() else OutputMode.Append())
      .trigger(Trigger.ProcessingTime(ClientKeys.interval(session)))
      .option("checkpointLocation", place)
    val named = if (free) writer.queryName(name) else writer
    val started = Jobs.start(session)(named.toTable(quoted))
    Jobs.writes(started, place, Some(target.table.asInstanceOf[PaimonTable]))
    started
  }

  private def quoted: String = {
    val parts = target.catalog.map(_.name).toSeq ++ target.identifier.toSeq.flatMap(i => i.namespace.toSeq :+ i.name)
    parts.map(quoteIdentifier).mkString(".")
  }

  /** Whether rows of the result change, so that they can only be written by key. In a table without one, the groups of
    * a watermark are written when it has passed them. */
  private def updates: Boolean = {
    val found = Jobs.updates(query)
    val keyed = target.table match { case t: PaimonTable => t.primaryKeys.nonEmpty; case _ => false }
    val ends = query.exists { case _: EventTimeWatermark => true; case _ => false }
    if (found && !keyed && !ends) throw new PaimonException(
      s"[UNSUPPORTED_FEATURE] The query updates its rows, but ${target.name} has no primary key. " +
        "Insert into a table with a primary key, whose rows are replaced.",
      "UNSUPPORTED_FEATURE")
    found && keyed
  }
}

/** Starts a job for an INSERT whose query is unbounded. */
case class StartJobs(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case w: V2WriteCommand if w.query.resolved && w.query.isStreaming =>
      w.table match {
        case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] => started(w, r)
        case _ => plan
      }
    case other => other
  }

  private def started(write: V2WriteCommand, target: DataSourceV2Relation): LogicalPlan = write match {
    case a: AppendData if a.resolved => StartJobCommand(target, a.query)
    case a: AppendData => a
    case _ => throw new PaimonException(
        "[UNSUPPORTED_FEATURE] An unbounded query cannot overwrite a table. " +
          "Write INSERT INTO.",
        "UNSUPPORTED_FEATURE")
  }
}

/** The streaming queries of all sessions. */
object Jobs {
  private val PollMillis = 20L
  private val Partitions = "spark.sql.shuffle.partitions"
  private val Adaptive = "spark.sql.adaptive.enabled"
  private val StopMillis = 10000L
  private val started = new ConcurrentHashMap[UUID, (String, Option[PaimonTable])]()

  /** Whether the rows of an unbounded result change, as those of an aggregation do. */
  def updates(query: LogicalPlan): Boolean = query.exists { case a: Aggregate => a.isStreaming; case _ => false }

  /** Starts a query, which keeps the settings of its session at the start. Each partition of its state costs a task a
    * batch: unless the user chose their number, there are as many as cores. */
  def start(session: SparkSession)(query: => StreamingQuery): StreamingQuery = {
    stopAtExit
    val conf = session.asInstanceOf[ClassicSession].sessionState.conf
    conf.synchronized(launched(session, conf)(query)) // another statement would take the settings below for the user's
  }

  private def launched(session: SparkSession, conf: SQLConf)(query: => StreamingQuery): StreamingQuery = {
    val chosen = Map(Adaptive -> "false") ++
      (if (conf.contains(Partitions)) None else Some(Partitions -> session.sparkContext.defaultParallelism.toString))
    val before = chosen.keys.map(k => k -> Option.when(conf.contains(k))(conf.getConfString(k))).toMap
    chosen.foreach { case (k, v) => conf.setConfString(k, v) }
    try query
    finally before.foreach { case (k, v) => v.fold(conf.unsetConf(k))(conf.setConfString(k, _)) }
  }

  /** Records where a job keeps its checkpoints, and its table, whose savepoints are tags of it. */
  def writes(query: StreamingQuery, place: String, table: Option[PaimonTable]): Unit = {
    started.put(query.id, (place, table))
    table.foreach(t => StopRequests.watch(query.id, t.catalog, t.token))
  }

  /** Ends the jobs before Spark stops. */
  private lazy val stopAtExit: Unit =
    ShutdownHookManager.addShutdownHook(ShutdownHookManager.DEFAULT_SHUTDOWN_PRIORITY + 10)(() => stopAll())

  /** Ends all jobs after their batches, unless these take long. */
  def stopAll(): Unit = ending(SparkSession.getDefaultSession.toSeq.flatMap(active).foreach(end))

  /** Ends jobs; the program waits for this when it exits. */
  def ending(work: => Unit): Unit = synchronized(work)

  /** Ends a query after its batch, so that no batch is interrupted unless it takes long. */
  def end(query: StreamingQuery): Unit = {
    val until = System.currentTimeMillis() + StopMillis
    def finished: Option[Long] = Option(query.lastProgress).map(_.batchId)
    val before = finished
    while (query.isActive && query.status.isTriggerActive && finished == before && System.currentTimeMillis() < until)
      Thread.sleep(PollMillis)
    query.stop()
  }

  def active(session: SparkSession): Seq[StreamingQuery] =
    session.asInstanceOf[ClassicSession].sharedState.activeStreamingQueries.values.asScala.toSeq.sortBy(_.id.toString)

  def listed(session: SparkSession): Seq[Row] = active(session).map { q =>
    Row(
      q.id.toString,
      q.name,
      if (q.status.isTriggerActive) "RUNNING" else "WAITING",
      Option(q.lastProgress).map(p => s"${p.batchId} at ${p.timestamp}").orNull)
  }

  /** The directory of the checkpoints of a job; without one that the session names, a temporary one. */
  def checkpoints(session: SparkSession, name: String, query: LogicalPlan): String =
    session.conf.getOption(ClientKeys.Directory) match {
      case Some(root) => named(session, directory(root, name), name, query)
      case None => Utils.createTempDir(namePrefix = "paimon-job").toURI.toString
    }

  /** The directory of a name. Hadoop takes some names with colons for addresses. */
  private def directory(root: String, name: String): Path =
    Try(new Path(root, name)).getOrElse(new Path(root, name.replace(":", "%3A")))

  /** The directory of a name, with the statement that it belongs to: no other continues from its checkpoints. A query
    * that Spark refused to start has none. */
  private def named(session: SparkSession, directory: Path, name: String, query: LogicalPlan): String = {
    val files = directory.getFileSystem(session.asInstanceOf[ClassicSession].sessionState.newHadoopConf())
    val place = files.makeQualified(directory).toString
    def refused(what: String) = new PaimonException(
      s"[INVALID_ARGUMENT] The checkpoints in $place are those of $what. " +
        s"Write SET '${ClientKeys.JobName}' = '<another name>' first.",
      "INVALID_ARGUMENT")
    if (active(session).exists(q => Option(started.get(q.id)).exists(_._1 == place)))
      throw refused(s"the running job '$name'")
    val statement = new Path(directory, "statement.sql")
    val text = query.collectFirst { case p if p.origin.sqlText.nonEmpty => p.origin.sqlText.get }
      .map(_.trim.stripSuffix(";").split("\\s+").mkString(" ")).getOrElse("")
    val begun = files.exists(statement) && files.exists(new Path(directory, "metadata"))
    if (!begun) Using.resource(files.create(statement, true))(_.write(text.getBytes(UTF_8)))
    else {
      val before = Using.resource(files.open(statement))(in => new String(in.readAllBytes(), UTF_8))
      if (before != text) throw refused(s"another statement: $before")
    }
    place
  }

  /** Ends the job with an id or a name; returns its id, and the tag of its savepoint. */
  def stop(session: SparkSession, id: String, savepoint: Boolean): Row = {
    val known = active(session)
    val others =
      if (known.isEmpty) "No job is running."
      else s"The jobs are ${known.map(_.id).mkString(", ")}; SHOW JOBS lists them."
    val found = known.find(q => q.id.toString == id || q.name == id).getOrElse(throw new PaimonException(
      s"[INVALID_ARGUMENT] There is no job '$id'. $others",
      "INVALID_ARGUMENT"))
    end(found)
    val tag = Option(started.remove(found.id)).flatMap(_._2).filter(_ => savepoint).flatMap { table =>
      val args = Map("table" -> table.token, "query" -> found.id.toString)
      Json.optional(Engine.json("tag_savepoint", args, table.catalog, idempotent = false), "tag").map(_.asText())
    }
    Row(found.id.toString, tag.orNull)
  }
}
