package org.apache.spark.sql.paimonbridge

import java.lang.reflect.{InvocationHandler, InvocationTargetException, Method, Proxy}

import org.apache.spark.SparkContext
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.AnalysisContext
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OneRowRelation}
import org.apache.spark.sql.hive.thriftserver.paimonbridge.ThriftMetadata
import org.apache.spark.sql.internal.SQLConf

/** Installs the session extension: parser, rules, planner strategies, and engine start in the background. */
class Extensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    SparkContext.getActive.foreach { sc =>
      sc.conf.setIfMissing(Extensions.ArrowBatch, "65536")
      sc.conf.setIfMissing(Extensions.Hidden, Extensions.HiddenKeys)
    }
    if (Extensions.isSqlShell) Engine.startWhenIdle() else Engine.start()
    Cancel.onInterrupt
    extensions.injectParser { (session, delegate) =>
      Extensions.ofThriftServer()
      Extensions.parser(session, delegate)
    }
    ChangelogFunctions.install(extensions)
    extensions.injectHintResolutionRule(session => PaimonByDefault(session))
    extensions.injectHintResolutionRule(session => KeepNamesOfTables(session))
    extensions.injectHintResolutionRule(session => ChangesOfTables(session))
    extensions.injectHintResolutionRule(session => ProceduresAsFunctions(session))
    extensions.injectHintResolutionRule(session => OptionsOfReads(session))
    extensions.injectHintResolutionRule(session => MergeSchemas(session))
    extensions.injectHintResolutionRule(session => OptionsOfNewTables(session))
    extensions.injectHintResolutionRule(session => CheckAlteredNames(session))
    extensions.injectHintResolutionRule(session => KeepDropPartitions(session))
    extensions.injectHintResolutionRule(session => ViewCommands(session))
    extensions.injectResolutionRule(session => ResolveDropPartitions(session))
    extensions.injectResolutionRule(_ => FillDefaultColumns)
    extensions.injectResolutionRule(_ => ViewAliases)
    extensions.injectResolutionRule(_ => ResolveStreams)
    extensions.injectResolutionRule(session => MaxPartitions(session))
    extensions.injectCheckRule(_ => ChangelogFunctions.check)
    extensions.injectPostHocResolutionRule(session => StartJobs(session))
    extensions.injectPostHocResolutionRule(session => RefuseReadsAtOnce(session))
    extensions.injectPostHocResolutionRule(session => RowLevelRule(session))
    extensions.injectPostHocResolutionRule(_ => ResolveAnalyze)
    extensions.injectPostHocResolutionRule(_ => ViewDescriptions)
    extensions.injectPostHocResolutionRule(_ => TableListings)
    extensions.injectPostHocResolutionRule(session => ExplainUnresolvedTables(session))
    extensions.injectPostHocResolutionRule(session => ExplainUnresolvedDatabases(session))
    extensions.injectPostHocResolutionRule(session => ClearErrors(session))
    extensions.injectPlannerStrategy(session =>
      BucketReadStrategy(session.asInstanceOf[org.apache.spark.sql.classic.SparkSession]))
    extensions.injectPlannerStrategy(session =>
      PaimonStrategy(session.asInstanceOf[org.apache.spark.sql.classic.SparkSession]))
    extensions.injectQueryStagePrepRule(_ => GroupReads(group = false))
    extensions.injectColumnar(_ => GroupReads)
    extensions.injectColumnar(_ => BalancedFiles)
  }
}

object Extensions {
  val ArrowBatch = "spark.sql.execution.arrow.maxRecordsPerBatch"

  /** Settings whose values SET hides, in addition to those that Spark hides. */
  val Hidden = "spark.sql.redaction.options.regex"

  /** Spark's default, `url`, and the keys of secrets, as in `spec/secrets.py`. */
  val HiddenKeys = "(?i)url|secret|password|token|credential|authorization|\\.sas\\.|" +
    "(access|private|encryption|account|shared|api).?key"
  private val CatalogKey = "spark\\.sql\\.catalog\\.([^.]+)".r
  private val Ours = Set("paimon.spark.Catalog", "paimon.spark.GenericCatalog")

  /** A parser that handles Paimon statements and passes all other texts to Spark's. */
  def parser(session: SparkSession, delegate: ParserInterface): ParserInterface = {
    val handler = new InvocationHandler {
      override def invoke(proxy: Object, method: Method, args: Array[Object]): Object = {
        val plan = method.getName.startsWith("parsePlan")
        val text = if (plan || method.getName.startsWith("parseQuery")) Some(args(0).asInstanceOf[String]) else None
        if (plan) { Cancel.begin(); ofThriftServer() }
        try {
          text.filter(_ => plan).flatMap(claim(session, _)).getOrElse {
            try parsed(session, delegate, method, args, text)
            catch {
              case e: ParseException if plan =>
                FlinkStatements.rejected(session, text.get)
                  .orElse(CreateLike.rejected(session, delegate, text.get))
                  .orElse(OtherStatements.rejected(session, delegate, text.get)).getOrElse(throw e)
            }
          }
        } catch { case error: PaimonException if plan => FailedStatement(error) }
      }
    }
    Proxy.newProxyInstance(getClass.getClassLoader, Array[Class[_]](classOf[ParserInterface]), handler)
      .asInstanceOf[ParserInterface]
  }

  private def parsed(
      session: SparkSession,
      delegate: ParserInterface,
      method: Method,
      args: Array[Object],
      text: Option[String]): Object = {
    val hinted = text.exists(Hints.in)
    val found = parse(delegate, method, if (hinted) Hints.rewritten(text.get) +: args.tail else args)
    if (hinted) Hints.check(session, found.asInstanceOf[LogicalPlan])
    if (method.getName.startsWith("parsePlan")) {
      if (mayReadTables(found.asInstanceOf[LogicalPlan])) Engine.expectStatement()
      StreamSelect.claim(
        session,
        text.get,
        ChangesInsert.claim(session, Connectors.claim(session, CreateLike.claim(session, found))))
    } else found
  }

  /** Whether a parsed statement is more than a computation of one row, as in `SELECT 1`. */
  private def mayReadTables(plan: LogicalPlan): Boolean = !plan.collectLeaves().forall(_.isInstanceOf[OneRowRelation])

  private def parse(delegate: ParserInterface, method: Method, args: Array[Object]): Object =
    try method.invoke(delegate, (if (args == null) Array.empty[Object] else args): _*)
    catch { case e: InvocationTargetException => throw e.getCause }

  @volatile private var hasThriftServer = true

  /** Completes the metadata of a Thrift server; a Spark may come without one. */
  private def ofThriftServer(): Unit = if (hasThriftServer)
    try ThriftMetadata.install()
    catch { case _: NoClassDefFoundError => hasThriftServer = false }

  private def claim(session: SparkSession, text: String) =
    Calls.claim(session, text).orElse(Settings.claim(text)).orElse(FlinkStatements.keyed(session, text))

  /** Whether this is `spark-sql`, which is also run for statements that need no table, as in `-e 'SELECT 1'`. */
  private def isSqlShell: Boolean = sys.props.get("sun.java.command").exists(_.contains("SparkSQLCLIDriver"))

  /** The session's Paimon catalogs with their options. */
  def catalogs(session: SparkSession): Map[String, Map[String, String]] = {
    val confs = SQLConf.get.getAllConfs
    confs.collect {
      case (CatalogKey(name), c) if Ours(c) =>
        val prefix = s"spark.sql.catalog.$name."
        val given = confs.collect { case (k, v) if k.startsWith(prefix) => k.substring(prefix.length) -> v }
        name -> (if (name == PaimonGeneric.Name) PaimonGeneric.options(session, given) else given)
    }
  }

  /** Whether a table name refers to a Paimon catalog; inside a view, the current catalog is the view's. */
  def ours(session: SparkSession, name: Seq[String]): Boolean = {
    val manager = CreateLike.manager(session)
    val current = AnalysisContext.get.catalogAndNamespace.headOption.getOrElse(manager.currentCatalog.name())
    val catalog = if (name.length > 1 && manager.isCatalogRegistered(name.head)) name.head else current
    catalogs(session).keys.exists(_.equalsIgnoreCase(catalog))
  }

  /** Rejects a catalog without the extension, because its reads could not be planned. */
  def check(): Unit = {
    val conf = SQLConf.get
    val wanted = conf.getConfString("spark.paimon.requiredSparkConfsCheck.enabled", "true").toBoolean
    val installed = conf.getConfString("spark.sql.extensions", "").split(",").map(_.trim)
    if (wanted && !installed.contains("paimon.spark.SessionExtension")) throw new PaimonException(
      "[ENVIRONMENT] The catalog needs the session extension. " +
        "Start Spark with --conf spark.sql.extensions=paimon.spark.SessionExtension.",
      "ENVIRONMENT")
  }
}
