package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** OPTIONS hints: rewritten before Spark parses the text, and rejected on names that cannot have options. */
object Hints {
  private val Maybe = "(?is).*/\\*\\+\\s*OPTIONS\\b.*".r.pattern

  def in(text: String): Boolean = Maybe.matcher(text).matches()

  def rewritten(text: String): String =
    Engine.json("rewrite_hints", Map("text" -> text), CatalogRef.ofTexts).get("text").asText()

  /** Rejects options on a name that refers to a query: Spark would ignore them silently. */
  def check(session: SparkSession, plan: LogicalPlan): Unit = check(session, plan, Set.empty)

  private def check(session: SparkSession, plan: LogicalPlan, queries: Set[String]): Unit = plan match {
    case w: UnresolvedWith =>
      val inside = w.cteRelations.foldLeft(queries) { (known, one) =>
        val parts = one.asInstanceOf[Product]
        check(session, parts.productElement(1).asInstanceOf[LogicalPlan], known)
        known + parts.productElement(0).asInstanceOf[String].toLowerCase
      }
      check(session, w.child, inside)
    case u: UnresolvedRelation => if (ReferenceOptions.given(u).nonEmpty) {
        val name = u.multipartIdentifier
        if (name.length == 1 && queries.contains(name.head.toLowerCase)) throw refused(name.head, "the query")
        if (CreateLike.manager(session).v1SessionCatalog.isTempView(name)) throw refused(name.mkString("."), "the view")
      }
    case other =>
      val targets = other match { case i: InsertIntoStatement => Seq(i.table); case _ => Nil }
      (targets ++ other.children).foreach(check(session, _, queries))
      other.expressions.foreach(_.foreach {
        case s: SubqueryExpression => check(session, s.plan, queries)
        case _ =>
      })
  }

  private def refused(name: String, what: String) = new PaimonException(
    s"[UNSUPPORTED_FEATURE] $what '$name' cannot have an OPTIONS hint. Write it after the table that it reads.",
    "UNSUPPORTED_FEATURE")
}

/** Passes the options of one table reference to the catalog as its version, so that the table is loaded with them. */
object ReferenceOptions {
  private val Prefix = "OPTIONS {"
  private def versionKey: String = SQLConf.get.getConfString("spark.sql.timeTravelVersionKey", "versionAsOf")
  private def timestampKey: String = SQLConf.get.getConfString("spark.sql.timeTravelTimestampKey", "timestampAsOf")
  val Kept: TreeNodeTag[Boolean] = TreeNodeTag[Boolean]("paimon_options_kept")

  def writes(u: UnresolvedRelation): Boolean = u.options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES)

  /** The version or time of Spark's own options of a reader. */
  def travel(options: CaseInsensitiveStringMap): Option[TimeTravelSpec] =
    TimeTravelSpec.fromOptions(options, timestampKey, versionKey, SQLConf.get.sessionLocalTimeZone)

  /** The options of the statement, without Spark's internal ones. */
  def given(u: UnresolvedRelation): Map[String, String] = {
    val own = Set(versionKey, timestampKey, UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES).map(_.toLowerCase)
    u.options.asCaseSensitiveMap().asScala.toMap.filterNot { case (k, _) => own.contains(k.toLowerCase) }
  }

  def isEncoded(version: String): Boolean = version != null && version.startsWith(Prefix)

  def isEncoded(u: UnresolvedRelation): Boolean = isEncoded(u.options.get(versionKey))

  /** The reference, to be loaded with its options, at a version or at the one in its options. */
  def encoded(u: UnresolvedRelation, version: Option[String]): UnresolvedRelation = {
    val at = version.orElse(Option(u.options.get(versionKey)))
    val text = Prefix.dropRight(1) + Json.text(Map("version" -> at, "options" -> given(u)))
    val others = u.options.asCaseSensitiveMap().asScala.toMap.filterNot(_._1.equalsIgnoreCase(versionKey))
    u.copy(options = new CaseInsensitiveStringMap((others + (versionKey -> text)).asJava))
  }

  def isTimed(u: UnresolvedRelation): Boolean = u.options.containsKey(timestampKey)

  /** Whether a stream is to begin at a version or a time by the options of a batch, for which Spark has no error. */
  def travels(u: UnresolvedRelation): Boolean = u.isStreaming && (isTimed(u) || u.options.containsKey(versionKey))

  def refuseStream(table: String): Nothing = throw new PaimonException(
    s"[INVALID_OPTION] A stream of $table cannot begin at a version or a time of a batch. Set 'scan.snapshot-id', " +
      "'scan.tag-name' or 'scan.timestamp'.",
    "INVALID_OPTION")

  /** The version for the catalog: a version, and the options of the statement. */
  def decoded(version: String): (Map[String, Any], Option[Map[String, String]]) =
    if (!isEncoded(version)) (Map("version" -> version), None)
    else {
      val json = Json.parse(version.drop(Prefix.length - 1))
      (Json.optional(json, "version").map("version" -> _.asText()).toMap, Some(Json.stringMap(json.get("options"))))
    }
}

/**
 * Before tables are loaded: passes the options of each table reference to its catalog. Spark caches the tables of a
 * statement by name and version only, and would use the options of the first reference to a table for all of them.
 */
case class OptionsOfReads(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val written = targets(plan)
    def wanted(u: UnresolvedRelation) =
      !u.isStreaming && !ReferenceOptions.writes(u) && !ReferenceOptions.isEncoded(u) &&
        !ReferenceOptions.isTimed(u) && u.getTagValue(ReferenceOptions.Kept).isEmpty && plainTable(u) &&
        (ReferenceOptions.given(u).nonEmpty || written.contains(u.multipartIdentifier.last.toLowerCase))
    AnalysisHelper.allowInvokingTransformsInAnalyzer {
      plan.transformDownWithSubqueries {
        case RelationTimeTravel(u: UnresolvedRelation, None, Some(version)) if wanted(u) =>
          ReferenceOptions.encoded(u, Some(version))
        case t @ RelationTimeTravel(u: UnresolvedRelation, _, _) =>
          u.setTagValue(ReferenceOptions.Kept, true)
          t
        case u: UnresolvedRelation if wanted(u) => ReferenceOptions.encoded(u, None)
        case u: UnresolvedRelation if ReferenceOptions.travels(u) && plainTable(u) =>
          ReferenceOptions.refuseStream(u.multipartIdentifier.mkString("."))
      }
    }
  }

  private def targets(plan: LogicalPlan): Set[String] = plan.collect {
    case i: InsertIntoStatement => i.table
    case w: V2WriteCommand => w.table
    case u: UnresolvedRelation if ReferenceOptions.writes(u) => u
  }.collect { case u: UnresolvedRelation => u.multipartIdentifier.last.toLowerCase }.toSet

  private def plainTable(u: UnresolvedRelation): Boolean =
    !CreateLike.manager(session).v1SessionCatalog.isTempView(u.multipartIdentifier) &&
      Extensions.ours(session, u.multipartIdentifier)
}

/** Creates a table of a DataFrame writer with the writer's options. */
case class OptionsOfNewTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case c: CreateTableAsSelect if c.writeOptions.nonEmpty =>
      stored(c.name, c.tableSpec, c.writeOptions).fold(plan)(s => c.copy(tableSpec = s, writeOptions = Map.empty))
    case r: ReplaceTableAsSelect if r.writeOptions.nonEmpty =>
      stored(r.name, r.tableSpec, r.writeOptions).fold(plan)(s => r.copy(tableSpec = s, writeOptions = Map.empty))
    case other => other
  }

  private def stored(name: LogicalPlan, spec: TableSpecBase, options: Map[String, String]) = (name, spec) match {
    case (id: UnresolvedIdentifier, s: UnresolvedTableSpec)
        if Extensions.ours(session, id.nameParts) && PaimonGeneric.isPaimon(s.provider) =>
      Some(s.copy(properties = s.properties ++ options.filterNot(_._1.equalsIgnoreCase("path"))))
    case _ => None
  }
}
