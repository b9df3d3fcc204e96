package org.apache.spark.sql.paimonbridge

import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.collection.mutable

import org.apache.spark.sql.{AnalysisException, DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, ExprId, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.HiveResult
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.streaming.{OutputMode, Trigger}
import org.apache.spark.sql.types.{StringType, StructType}

/** A query in streaming mode: the changes of its result, one row each, from the result at the start until it is
  * interrupted, or has shown so many rows, or for so long. A query of tables is run again at each of their snapshots;
  * one of an unbounded source is a streaming query. */
case class StreamSelectCommand(query: LogicalPlan, columns: StructType) extends LeafRunnableCommand {

  /** No columns in `spark-sql`, which gets the changes, and their header, as lines. */
  override val output: Seq[Attribute] = if (ShownChanges.isLive) Nil
  else DataTypesBridge.attributes(
    new StructType(new StructType().add(StreamSelect.Op, StringType, nullable = false).fields ++ columns.fields))
  override def simpleString(maxFields: Int): String = "PaimonStreamSelect"

  override def run(session: SparkSession): Seq[Row] = {
    val classic = session.asInstanceOf[ClassicSession]
    val shown = new ShownChanges(session, columns)
    val first = Dataset.ofRows(classic, query)
    val keys = StreamSelect.keys(first.queryExecution.analyzed).map(_.map(
      first.queryExecution.analyzed.output.map(_.exprId).indexOf))
    if (first.isStreaming) followStream(first, new ResultChanges(keys), shown)
    else followTables(classic, new ResultChanges(keys), shown)
    shown.kept
  }

  private def followTables(session: ClassicSession, changes: ResultChanges, shown: ShownChanges): Unit = {
    var seen: Option[Seq[String]] = None
    while (!shown.isDone) {
      val now = Dataset.ofRows(session, query)
      val versions = StreamSelect.versions(now.queryExecution.analyzed)
      if (!seen.contains(versions)) {
        changes.to(StreamSelect.collected(now)).foreach(shown.add)
        seen = Some(versions)
      } else Thread.sleep(StreamSelect.PollMillis)
    }
  }

  private def followStream(frame: DataFrame, changes: ResultChanges, shown: ShownChanges): Unit = {
    val updated = Jobs.updates(frame.queryExecution.analyzed)
    val results = new LinkedBlockingQueue[Seq[Row]](2)
    val running = Jobs.start(frame.sparkSession)(frame.writeStream.outputMode(if (updated) OutputMode.Complete()
    else OutputMode.Append())
      .trigger(Trigger.ProcessingTime(StreamSelect.PollMillis))
      .foreachBatch { (batch: DataFrame, _: Long) => results.put(StreamSelect.collected(batch)) }
      .start())
    try while (!shown.isDone && (running.isActive || !results.isEmpty)) {
        Option(results.poll(StreamSelect.PollMillis, TimeUnit.MILLISECONDS)).foreach { rows =>
          if (updated) changes.to(rows).foreach(shown.add) else rows.foreach(r => shown.add(("+I", r)))
        }
      }
    finally running.stop()
    running.exception.filter(_ => !shown.isDone).foreach(throw _)
  }
}

object StreamSelect {
  val Op = "op"
  val PollMillis = 500L
  private val MostRows = 10000
  private val Opening = s"${Calls.Before}\\(*\\s*(?:select|with|from|table|values)\\b.*".r.pattern

  /** Returns the command for a query in streaming mode whose result may change. */
  def claim(session: SparkSession, text: String, parsed: Object): Object = parsed match {
    case plan: LogicalPlan if ClientKeys.isStreaming(session) && Opening.matcher(text).matches() && isQuery(plan) =>
      analyzed(session, plan).filter(a => a.isStreaming || tables(a).nonEmpty)
        .fold(parsed)(a => StreamSelectCommand(plan, a.schema))
    case plan: LogicalPlan
        if ShownChanges.atOnce && Opening.matcher(text).matches() && isQuery(plan) &&
          mayStream(session, plan) && analyzed(session, plan).exists(_.isStreaming) => throw unbounded
    case _ => parsed
  }

  private def mayStream(session: SparkSession, plan: LogicalPlan): Boolean =
    ChangesInsert.readsChanges(plan) || session.conf.getAll.keys.exists(_.startsWith(Connectors.Prefix))

  /** Spark refers to a method that programs in SQL do not have. */
  private def unbounded = new PaimonException(
    "[UNSUPPORTED_FEATURE] The query reads a stream, so that its result has no " +
      s"end. Write SET '${ClientKeys.Mode}' = 'streaming' to show the changes of the result, INSERT INTO a table to " +
      "start a job, or read the system table t$audit_log, which has the changes up to now.",
    "UNSUPPORTED_FEATURE")

  /** None for a query that cannot be analyzed: Spark explains why, or binds its parameters first. */
  private def analyzed(session: SparkSession, plan: LogicalPlan): Option[LogicalPlan] =
    try Some(session.asInstanceOf[ClassicSession].sessionState.executePlan(plan).analyzed).filter(_.resolved)
    catch { case _: AnalysisException => None }

  private def isQuery(plan: LogicalPlan): Boolean =
    !plan.exists(p => p.isInstanceOf[InsertIntoStatement] || p.isInstanceOf[Command])

  def tables(plan: LogicalPlan): Seq[PaimonTable] =
    plan.collectWithSubqueries { case r: DataSourceV2Relation => r.table }.collect { case t: PaimonTable => t }

  /** The identity of the state of the tables of a query. */
  def versions(plan: LogicalPlan): Seq[String] = tables(plan).map { t =>
    Engine.json("latest_snapshot", Map("table" -> t.token), t.catalog).get("snapshot").asText()
  }

  def collected(frame: DataFrame): Seq[Row] = {
    val rows = frame.limit(MostRows + 1).collect()
    if (rows.length > MostRows) throw new PaimonException(
      s"[UNSUPPORTED_FEATURE] The result has more than $MostRows rows, which are too many to show the changes of. " +
        "Aggregate or filter them, or write them to a table with INSERT.",
      "UNSUPPORTED_FEATURE")
    rows.toSeq
  }

  /** The columns that identify a row of a result: the keys of its table, or what it is grouped by. */
  def keys(plan: LogicalPlan): Option[Seq[ExprId]] = plan match {
    case r: DataSourceV2Relation => r.table match {
        case t: PaimonTable if t.primaryKeys.nonEmpty =>
          Some(t.primaryKeys.flatMap(k => r.output.find(_.name == k)).map(_.exprId))
        case _ => None
      }
    case a: Aggregate => among(a.groupingExpressions.map(_.canonicalized), a.aggregateExpressions)
    case p: Project => keys(p.child).flatMap { found =>
        val attributes = p.child.output.filter(o => found.contains(o.exprId))
        if (attributes.size == found.size) among(attributes.map(_.canonicalized), p.projectList) else None
      }
    case _: Filter | _: SubqueryAlias | _: Sort | _: View => keys(plan.children.head)
    case _ => None
  }

  private def among(wanted: Seq[Any], named: Seq[NamedExpression]): Option[Seq[ExprId]] = {
    val found = wanted.map(w =>
      named.find {
        case a: Alias => a.child.canonicalized == w
        case other => other.canonicalized == w
      })
    if (found.forall(_.nonEmpty)) Some(found.flatten.map(_.exprId)) else None
  }
}

/** The changes from one result to the next. `keys`: the positions of the columns that identify a row. */
private class ResultChanges(keys: Option[Seq[Int]]) {
  private var before: Map[Any, Seq[Row]] = Map.empty

  def to(rows: Seq[Row]): Seq[(String, Row)] = {
    val after = rows.groupBy(ResultChanges.content)
    val gone = beyond(before, after)
    val come = beyond(after, before)
    before = after
    val replaced = keys.fold(Map.empty[Any, Row])(at => gone.map(r => key(at, r) -> r).toMap)
    val updates = come.map(r => r -> keys.flatMap(at => replaced.get(key(at, r))))
    val left = mutable.Set.from(updates.flatMap(_._2))
    gone.filterNot(left).map("-D" -> _) ++ updates.flatMap {
      case (row, Some(old)) => Seq("-U" -> old, "+U" -> row)
      case (row, None) => Seq("+I" -> row)
    }
  }

  private def key(at: Seq[Int], row: Row): Any = at.map(i => ResultChanges.content(row.get(i)))

  private def beyond(these: Map[Any, Seq[Row]], those: Map[Any, Seq[Row]]): Seq[Row] =
    these.toSeq.flatMap { case (content, rows) => rows.drop(those.get(content).fold(0)(_.length)) }
}

private object ResultChanges {
  private object NotANumber

  /** A value that equals that of the same content: bytes are arrays, which are only equal to themselves, and NaN is not
    * even equal to itself. */
  def content(value: Any): Any = value match {
    case bytes: Array[Byte] => bytes.toSeq
    case row: Row => row.toSeq.map(content)
    case items: collection.Seq[_] => items.map(content)
    case entries: collection.Map[_, _] => entries.map { case (k, v) => content(k) -> content(v) }
    case d: Double if d.isNaN => NotANumber
    case f: Float if f.isNaN => NotANumber
    case other => other
  }
}

/** Where changes go: to the terminal of `spark-sql` as they happen, else into the result of the statement. */
private class ShownChanges(session: SparkSession, schema: StructType) {
  private val limit = session.conf.getOption("spark.paimon.streaming-select.max-rows").map(text =>
    text.toLongOption.filter(_ > 0).getOrElse(throw new PaimonException(
      s"[INVALID_OPTION] The session option " +
        s"'paimon.streaming-select.max-rows' holds '$text'. Give a whole number above 0.",
      "INVALID_OPTION")))
  private val live = ShownChanges.isLive
  if (live) println((StreamSelect.Op +: schema.fieldNames.toSeq).mkString("\t"))
  private val millis = session.conf.getOption("spark.paimon.streaming-select.timeout").map(ClientKeys.millis)
    .orElse(if (live || limit.nonEmpty) None else Some(ShownChanges.DefaultMillis))
  private val begun = System.nanoTime()
  private val rows = mutable.ArrayBuffer[Row]()
  private var count = 0L

  def add(change: (String, Row)): Unit = if (limit.forall(count < _)) {
    count += 1
    val row = Row.fromSeq(change._1 +: change._2.toSeq)
    if (live) println(row.toSeq.zip(StringType +: schema.fields.map(_.dataType).toSeq)
      .map { case (value, t) =>
        HiveResult.toHiveString((value, t), false, HiveResult.getTimeFormatters, HiveResult.getBinaryFormatter)
      }
      .mkString("\t"))
    else rows += row
  }

  def isDone: Boolean = Cancel.isInterrupted || limit.exists(count >= _) ||
    millis.exists(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun) >= _)

  def kept: Seq[Row] = rows.toSeq
}

private object ShownChanges {
  val DefaultMillis = 10000L
  private def program: String = sys.props.getOrElse("sun.java.command", "")
  def isLive: Boolean = program.contains("SparkSQLCLIDriver")

  /** Whether the program runs each statement for its result, so that no other code makes a streaming query of it. */
  def atOnce: Boolean = isLive || program.contains("HiveThriftServer2")
}
