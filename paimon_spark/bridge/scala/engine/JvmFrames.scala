package org.apache.spark.sql.paimonbridge

import java.nio.file.{Files, Paths}
import java.util.{Set => JSet}

import scala.collection.mutable
import scala.util.Using

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.SparkException
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.EliminateSorts
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.catalog.{Identifier, TableWritePrivilege}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Services of the JVM for the engine; each method is one round trip. */
class JvmFrames {

  /** Why Spark's own scans cannot read a bucket with these settings, or an empty text. */
  def nativeRefusal(place: String, settings: String): String = HadoopS3.refusal(place, settings)

  /** The known superseded rows of splits. `keys` has one key of a split per line, or is `@file` with these lines. */
  def supersededRows(splits: String): SupersededRows = new SupersededRows(JvmFrames.lines(splits)(_.toIndexedSeq))

  /** A native vectorised scan: the first line is a description in JSON, each further one names files (or `@file` with
    * them). `access` is the Hadoop configuration of their store as JSON. `superseded` has the rows to leave out, or is
    * null. */
  def nativeFrame(session: SparkSession, spec: String, access: String, superseded: SupersededRows): Dataset[Row] = {
    val (json, index) = JvmFrames.lines(spec) { lines =>
      val json = Json.parse(lines.next())
      (json, PaimonFileIndex(json, lines.map(Json.parse)))
    }
    val rowIndex = Json.optional(json, "row_index").map(_.asText())
    val dataSchema = rowIndex.foldLeft(JvmFrames.schema(json.get("data_schema"))) { (columns, _) =>
      columns.add(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME, LongType)
    }
    val format = json.get("format").asText() match {
      case "parquet" => new ParquetFileFormat
      case "orc" => new OrcFileFormat
    }
    val relation = HadoopFsRelation(
      index,
      index.partitionSchema,
      dataSchema,
      None,
      format,
      Json.stringMap(json.get("options")) ++ Json.stringMap(Json.parse(access)))(session)
    val scan = LogicalRelation(relation, false)
    val byName = scan.output.map(a => a.name -> a).toMap
    val bySource = byName ++ rowIndex.map(_ -> byName(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME))
    val columns = Json.items(json.get("select")).map { c =>
      val source: Expression = Json.optional(c, "from").map(f => bySource(f.asText()))
        .getOrElse(Literal.create(null, DataType.fromJson(c.get("type").toString)))
      Alias(if (JvmFrames.mayHoldNaN(source.dataType)) NoPushdown(source) else source, c.get("name").asText())()
    }
    val filtered = Option(superseded).fold[LogicalPlan](scan) { rows =>
      Filter(NotSuperseded(bySource(json.get("file_path").asText()), bySource(rowIndex.get), rows), scan)
    }
    JvmFrames.analyzed(session, Project(columns, filtered))
  }

  /** The rows of a table that a statement changes, whatever the options of the session select, and although Spark may
    * have cached them. */
  def targetFrame(session: SparkSession, catalog: String, database: String, name: String): Dataset[Row] =
    session.withActive {
      val owner = session.sessionState.catalogManager.catalog(catalog).asTableCatalog
      val ident = Identifier.of(Array(database), name)
      val table = owner.loadTable(ident, JSet.of(TableWritePrivilege.INSERT)).asInstanceOf[PaimonTable]
      val relation = DataSourceV2Relation.create(table.uncached, Some(owner), Some(ident))
      Dataset.ofRows(session, SubqueryAlias(Seq(catalog, database, name), relation))
    }

  /** A frame of one string column `split`, one task a row: the lines, or `@file` with them. */
  def textFrame(session: SparkSession, lines: String): Dataset[Row] = {
    val rows = JvmFrames.lines(lines)(_.toIndexedSeq)
    val rdd = session.sparkContext.parallelize(rows, math.max(rows.size, 1))
      .map(text => InternalRow(UTF8String.fromString(text)): InternalRow)
    session.internalCreateDataFrame(rdd, StructType(Seq(StructField("split", StringType))))
  }

  /** `textFrame` for tasks that can be grouped by bucket: lines of task, bucket and text, or `@file` with them. */
  def bucketSplits(session: SparkSession, lines: String): Dataset[Row] = BucketSplits.frame(session, lines)

  /** Adds the bucket (or key hash) column and shuffles once by (partition, bucket), or evenly without one. Few rows are
    * one task, unless a number of tasks is given. */
  def bucketShuffle(frame: Dataset[Row], spec: String): Dataset[Row] =
    shuffle(frame, ShuffleSpec.fromJson(spec), pack = false)

  /** `bucketShuffle` with its rows in Arrow batches, as of `arrowBatches`; they are packed before the shuffle if that
    * is cheaper. */
  def bucketShufflePacked(frame: Dataset[Row], spec: String): Dataset[Row] =
    shuffle(frame, ShuffleSpec.fromJson(spec), pack = true)

  /** The rows of each task in Arrow batches: a frame of the one column `rows`. */
  def arrowBatches(frame: Dataset[Row]): Dataset[Row] =
    JvmFrames.analyzed(sessionOf(frame), pack(frame.queryExecution.analyzed))

  /** The rows of a frame of file, position and deletion vector, as bitmaps of positions; see `PositionBitmaps`. */
  def positionBitmaps(frame: Dataset[Row]): Dataset[Row] =
    JvmFrames.analyzed(sessionOf(frame), PositionBitmaps.of(frame.queryExecution.analyzed))

  /** The same frame, run by another session: in a Spark Connect server, each session has Python workers of its own. */
  def onSession(frame: Dataset[Row], session: SparkSession): Dataset[Row] =
    JvmFrames.analyzed(session, frame.queryExecution.analyzed)

  /** The same frame, run so that the Python function in it gets one row in a batch. */
  def singleRowBatches(frame: Dataset[Row]): Dataset[Row] =
    JvmFrames.analyzed(sessionOf(frame), SingleRowBatches(frame.queryExecution.analyzed))

  /** The same frame, whose Python function is ours: failures of its tasks have the engine's message. */
  def describe(frame: Dataset[Row]): Dataset[Row] =
    JvmFrames.analyzed(sessionOf(frame), PaimonTasks(frame.queryExecution.analyzed))

  /** The same frame, a read by a Python function of ours, whose batches are not divided into rows. */
  def workerBatches(frame: Dataset[Row]): Dataset[Row] =
    JvmFrames.analyzed(sessionOf(frame), WorkerBatches.of(frame.queryExecution.analyzed))

  /** The failure of a job, as found by `TaskFailure`. */
  def failure(error: Throwable): String = TaskFailure.description(error)

  /** Whether the rows are known to be too few for a shuffle. */
  def fewRows(frame: Dataset[Row]): Boolean =
    frame.queryExecution.optimizedPlan.maxRows.exists(_ <= JvmFrames.FewRows)

  /** The rows of a frame, or null unless they are few and cheap to compute; see `SmallRows`. Python decodes text many
    * times faster than py4j decodes an array of bytes. */
  def smallRows(frame: Dataset[Row], rows: Int, bytes: Int, run: Boolean): String =
    SmallRows.packed(frame, rows, bytes, run)

  /** All rows of a frame that has few of them, in the form of `smallRows`; null if the frame shuffles. */
  def unshuffled(frame: Dataset[Row]): String = SmallRows.unshuffled(frame)

  /** A Paimon table that is a directory or below it, or null. */
  def tableWithin(store: FileSystem, directory: Path): String = TablesWithin.first(store, directory)

  private def sessionOf(frame: Dataset[Row]): SparkSession = frame.sparkSession.asInstanceOf[SparkSession]

  private def pack(plan: LogicalPlan): LogicalPlan = ArrowBatches(plan, plan.output, None, 0)

  private def shuffle(frame: Dataset[Row], spec: ShuffleSpec, pack: Boolean): Dataset[Row] = {
    val plan = frame.queryExecution.analyzed
    val few = fewRows(frame)
    val byName = spec.columns.zip(plan.output).toMap
    val hashed = spec.hash.fold(plan)(withHash(plan, byName, _))
    val packedLater: LogicalPlan => LogicalPlan = placed => if (pack) this.pack(placed) else placed
    val placed = spec.tasks match {
      case _ if few && !spec.exact => packedLater(Repartition(1, shuffle = false, hashed))
      case Some(tasks) if spec.hash.isEmpty => packedLater(Repartition(tasks, shuffle = true, hashed))
      case Some(tasks) =>
        val parts = spec.partition.map(byName)
        val spread: Expression = if (parts.isEmpty) Literal(0) else new Murmur3Hash(parts)
        val task = TaskOf(spread, hashed.output.last, spec.classes, tasks)
        if (pack && BatchLimits.allow(tasks, hashed.output.size)) shufflePacked(hashed, task, tasks)
        else packedLater(RepartitionByExpression(Seq(task), hashed, tasks))
      case None => packedLater(hashed)
    }
    JvmFrames.analyzed(sessionOf(frame), placed)
  }

  private def shufflePacked(plan: LogicalPlan, task: Expression, tasks: Int): LogicalPlan = {
    val unsorted = withoutUselessSorts(plan, task)
    val numbered = Project(plan.output :+ Alias(task, "task")(), unsorted)
    val packed = ArrowBatches(numbered, plan.output, Some(numbered.output.last), tasks)
    Project(packed.output.tail, RepartitionByExpression(packed.output.take(1), packed, tasks))
  }

  /** The plan without sorts whose order a following shuffle destroys, as Spark removes them before another sort. */
  private def withoutUselessSorts(plan: LogicalPlan, task: Expression): LogicalPlan =
    EliminateSorts(Sort(Seq(SortOrder(task, Ascending)), global = true, EliminateSubqueryAliases(plan))) match {
      case sorted: Sort => sorted.child
      case _ => plan
    }

  private def withHash(plan: LogicalPlan, byName: Map[String, Attribute], hash: HashColumn): LogicalPlan = {
    val counts = hash.counts.map(name => plan.output.find(_.name == name).get)
    val total = counts.orElse(if (hash.buckets > 0) Some(Literal(hash.buckets)) else None)
    val key = PaimonKeyHash(hash.function, hash.fields.map(f => byName(f.name)) ++ total, hash.fields.map(_.precision))
    Project(plan.output.filterNot(counts.contains) :+ Alias(key, hash.name)(), plan)
  }

  /** Begins a block whose jobs have these tags, one a line; see `JobLabels`. */
  def enterJobs(session: SparkSession, tags: String, description: String, interrupts: Boolean): Unit =
    JobLabels.enter(session.sparkContext, tags.linesIterator.toSet, description, interrupts)

  /** Ends that block. */
  def leaveJobs(session: SparkSession): Unit = JobLabels.leave(session.sparkContext)

  /** A line on the terminal of the program that the user started. */
  def printToTerminal(text: String): Unit = { System.err.print(text); System.err.flush() }
}

object JvmFrames {

  /** So few rows are not worth a shuffle, nor several files. */
  val FewRows = 10000L

  /** Applies `use` to the lines of a text, or to those of the file that it names, which is read lazily. */
  def lines[T](text: String)(use: Iterator[String] => T): T =
    if (!text.startsWith("@")) use(text.linesIterator)
    else Using.resource(Files.newBufferedReader(Paths.get(text.substring(1)))) { reader =>
      use(Iterator.continually(reader.readLine()).takeWhile(_ != null))
    }

  /** The frame of a plan in which nothing is left to resolve: Spark's analyzer, with the rules of all extensions, would
    * take longer than the rest of the planning of a scan. */
  def analyzed(session: SparkSession, plan: LogicalPlan): Dataset[Row] = {
    if (!plan.resolved) throw SparkException.internalError(s"A plan has unresolved expressions.\n$plan")
    plan.setAnalyzed()
    Dataset.ofRows(session, plan)
  }

  def mayHoldNaN(dataType: DataType): Boolean = dataType.existsRecursively {
    case FloatType | DoubleType => true
    case _ => false
  }

  def schema(node: JsonNode): StructType = DataType.fromJson(node.toString).asInstanceOf[StructType]
}

object DataTypesBridge {
  def attributes(schema: StructType): Seq[AttributeReference] =
    schema.fields.toSeq.map(f => AttributeReference(f.name, f.dataType, f.nullable, f.metadata)())
}

/** Exactly these files, each group with its partition values; no directory is listed. `hasMillis`: whether some
  * timestamps in them have milliseconds only. */
class PaimonFileIndex(
    val identity: String,
    override val partitionSchema: StructType,
    groups: Seq[(InternalRow, Seq[FileStatusWithMetadata])],
    root: Path,
    val hasMillis: Boolean) extends FileIndex {
  override def rootPaths: Seq[Path] = Seq(root)
  override def inputFiles: Array[String] = groups.flatMap(_._2.map(_.getPath.toString)).toArray
  override def refresh(): Unit = {}

  /** Whether the bucket of each file is known. */
  lazy val hasBuckets: Boolean = groups.forall(_._2.forall(_.metadata.contains(BucketTasks.Bucket)))
  override val sizeInBytes: Long = groups.flatMap(_._2.map(_.getLen)).sum

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val kept =
      if (partitionFilters.isEmpty || partitionSchema.isEmpty) groups
      else {
        val positions = partitionSchema.fieldNames.zipWithIndex.toMap
        val bound = partitionFilters.reduce(And).transform { case a: AttributeReference =>
          BoundReference(positions(a.name), a.dataType, nullable = true)
        }
        val predicate = Predicate.createInterpreted(bound)
        groups.filter { case (values, _) => predicate.eval(values) }
      }
    kept.map { case (values, files) => PartitionDirectory(values, files) }
  }

  override def equals(other: Any): Boolean = other match {
    case that: PaimonFileIndex => that.identity == identity
    case _ => false
  }
  override def hashCode(): Int = identity.hashCode
  override def toString: String = s"PaimonFileIndex($root)"
}

object PaimonFileIndex {
  def apply(json: JsonNode, files: Iterator[JsonNode]): PaimonFileIndex = {
    val schema = JvmFrames.schema(json.get("partition_schema"))
    val groups = mutable.LinkedHashMap[JsonNode, mutable.ArrayBuffer[FileStatusWithMetadata]]()
    var seen = 0
    files.foreach { g =>
      val bucket = Json.optional(g, "bucket").map(_.asInt())
      groups.getOrElseUpdate(g.get("values"), mutable.ArrayBuffer()) ++= Json.items(g.get("files")).map { f =>
        val status =
          new FileStatus(f.get(1).asLong(), false, 1, 128L << 20, f.get(2).asLong(), new Path(f.get(0).asText()))
        seen += 1
        FileStatusWithMetadata(
          status,
          bucket.fold(Map.empty[String, Any])(b => Map(BucketTasks.Bucket -> b, BucketTasks.Order -> seen)))
      }
    }
    val rows = groups.toSeq.map { case (values, found) => (Values.row(Json.items(values), schema), found.toIndexedSeq) }
    new PaimonFileIndex(
      json.get("identity").asText(),
      schema,
      rows,
      new Path(json.get("root").asText()),
      json.get("has_millis").asBoolean())
  }
}
