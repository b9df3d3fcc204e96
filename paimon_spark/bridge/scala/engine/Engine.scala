package org.apache.spark.sql.paimonbridge

import java.io.File
import java.nio.file.{Files, Path}
import java.util.{ArrayList => JArrayList, List => JList, UUID}
import java.util.concurrent.{CompletableFuture, CountDownLatch, ExecutionException, TimeUnit, TimeoutException}
import java.util.function.BiFunction

import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.ShutdownHookManager

/** The entry point of the engine process: its configuration, and its readiness report. */
class EngineEntryPoint(val context: JavaSparkContext, val jvmFrames: JvmFrames) {
  val ready = new CompletableFuture[BiFunction[String, JList[Object], Object]]()
  def announce(endpoint: Object): Unit =
    ready.complete(endpoint.asInstanceOf[BiFunction[String, JList[Object], Object]])
}

/** A Python process attached to one SparkContext. It runs until its stdin is closed. */
private class EngineProcess(sc: SparkContext) extends Logging {
  private val token = "paimon.bridge." + UUID.randomUUID()
  private val conf: SparkConf = sc.getConf
  val application: String = sc.applicationId
  val logFile: Path = EngineLog.open(conf)
  private val logStart = Files.size(logFile)
  private val handover = new EngineEntryPoint(JavaSparkContext.fromSparkContext(sc), new JvmFrames)
  private val gateway = new Gateway
  System.getProperties.put(token, handover)
  gateway.start()
  val process: Process = launch()
  process.onExit().thenRun(() => abandon())

  private def launch(): Process = {
    val builder = new ProcessBuilder(Engine.python(conf), "-m", "paimon_spark.bridge")
    val env = builder.environment()
    env.put("PYSPARK_GATEWAY_PORT", gateway.port.toString)
    env.put("PYSPARK_GATEWAY_SECRET", gateway.secret)
    env.put("PAIMON_SPARK_GREETING", gateway.greeting)
    env.put("PAIMON_SPARK_HANDOVER", token)
    env.put("PAIMON_SPARK_BRIDGE", EngineProcess.jar)
    Seq(
      "PYTHONSTARTUP",
      "PYSPARK_PIN_THREAD",
      "SPARK_REMOTE",
      "SPARK_CONNECT_MODE_ENABLED",
      "SPARK_API_MODE",
      "PYSPARK_DRIVER_PYTHON").foreach(env.remove(_))
    conf.getOption("spark.paimon.pythonPath").filter(_.nonEmpty).foreach { extra =>
      val old = Option(env.get("PYTHONPATH")).filter(_.nonEmpty)
      env.put("PYTHONPATH", (extra +: old.toSeq).mkString(File.pathSeparator))
    }
    builder.redirectErrorStream(true)
    builder.redirectOutput(ProcessBuilder.Redirect.appendTo(logFile.toFile))
    try builder.start()
    catch {
      case e: java.io.IOException =>
        throw Engine.failure(
          s"The Python engine cannot start: ${Engine.messageOf(e)}.",
          logFile,
          "Set spark.paimon.python to a Python that has paimon-spark and pyspark.")
    }
  }

  /** Waits for the endpoint; if the process ends first, its last output becomes the error. */
  def endpoint(): BiFunction[String, JList[Object], Object] = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(120)
    while (System.nanoTime() < deadline) {
      try return handover.ready.get(200, TimeUnit.MILLISECONDS)
      catch {
        case _: TimeoutException if !process.isAlive && !handover.ready.isDone =>
          throw failedStart()
        case _: TimeoutException =>
        case e: ExecutionException => throw e.getCause
      }
    }
    throw Engine.failure("The Python engine did not start within 120 s.", logFile, "")
  }

  /** The error of a process that ended before it was ready. */
  private def failedStart(): PaimonException = {
    val words = EngineLog.lastWords(logFile, logStart)
    EngineProcess.Stated.findFirstMatchIn(words).foreach(m => return new PaimonException(m.matched, m.group(1)))
    EngineProcess.Absent.findFirstMatchIn(words).map(_.group(1)) match {
      case Some("paimon_spark") =>
        Engine.failure(
          s"The Python of the engine, ${Engine.python(conf)}, has no module 'paimon_spark'.",
          logFile,
          "Set spark.paimon.python to a Python that has it, or spark.paimon.pythonPath to a file that " +
            "`paimon-spark env --archive FILE` has written.",
          "ENVIRONMENT")
      case Some(module) =>
        Engine.failure(
          s"The Python of the engine, ${Engine.python(conf)}, has no module '$module'.",
          logFile,
          "Install it there, or set spark.paimon.python to a Python that has it.",
          "ENVIRONMENT")
      case None =>
        val ended = s"The Python engine ended with code ${process.exitValue()} before it was ready."
        Engine.failure(ended, logFile, words)
    }
  }

  def alive: Boolean = process.isAlive

  /** Cancels the jobs of an engine that has ended: their results cannot be committed. They run in threads that serve
    * its calls, including that of the statement, which would notice only at the end of its job. */
  private def abandon(): Unit =
    try if (!sc.isStopped) sc.cancelJobsWithTag(token)
    catch { case NonFatal(_) => }

  def stop(): Unit = {
    System.getProperties.remove(token)
    try process.getOutputStream.close()
    catch { case NonFatal(_) => }
    if (!process.waitFor(3, TimeUnit.SECONDS)) process.destroyForcibly()
    try gateway.shutdown()
    catch { case NonFatal(_) => }
  }
}

private object EngineProcess {

  /** Python's message for a missing module. */
  private val Absent = "No module named '?([A-Za-z0-9_]+)".r

  /** An error of the engine in the last line of its log. */
  private val Stated = "\\[([A-Z][A-Z_]+)\\] [^|]+$".r

  /** The identity of this jar: the version of its distribution, the hash of its sources, and its path. */
  def jar: String = {
    def entry(name: String) = Option(getClass.getClassLoader.getResourceAsStream(s"META-INF/paimon-spark-bridge.$name"))
      .fold("unknown") { in =>
        try new String(in.readAllBytes(), "UTF-8").trim
        finally in.close()
      }
    val place = Try(getClass.getProtectionDomain.getCodeSource.getLocation.getPath).getOrElse("unknown")
    Seq(entry("version"), entry("sha256"), place).mkString("\n")
  }
}

/** The engine as used by the bridge: requests that return JSON or a JVM object, or throw. */
object Engine extends Logging {
  val ProtocolVersion = 2

  /** How long a session may run before its engine starts without being needed: longer than programs that never do. */
  private val IdleMillis = 3000L

  private var current: CompletableFuture[EngineProcess] = _

  /** Released by the first statement that may need an engine that has not started yet. */
  @volatile private var wanted = new CountDownLatch(0)
  private lazy val hook: Unit =
    Runtime.getRuntime.addShutdownHook(new Thread(() => { Jobs.stopAll(); stop() }, "paimon-engine-stop"))

  /** Starts the engine for the active SparkContext without waiting for it. */
  def start(): Unit = SparkContext.getActive.foreach(sc => ensure(sc))

  /** Starts the engine for the active SparkContext when a statement may need it, or once its session is up. */
  def startWhenIdle(): Unit = SparkContext.getActive.foreach { sc =>
    hook
    val latch = new CountDownLatch(1)
    wanted = latch
    inBackground("paimon-engine-wait") {
      latch.await(IdleMillis, TimeUnit.MILLISECONDS)
      if (!sc.isStopped) ensure(sc)
    }
  }

  /** Starts an engine that waits for a statement; has no effect on any other. */
  def expectStatement(): Unit = wanted.countDown()

  private def inBackground(name: String)(body: => Unit): Unit = {
    val thread = new Thread(() => body, name)
    thread.setContextClassLoader(getClass.getClassLoader)
    thread.setDaemon(true)
    thread.start()
  }

  private def ensure(sc: SparkContext): CompletableFuture[EngineProcess] = synchronized {
    hook
    val usable = current != null && (!current.isDone ||
      (!current.isCompletedExceptionally && current.join().alive && current.join().application == sc.applicationId))
    if (!usable) {
      if (current != null && current.isDone && !current.isCompletedExceptionally) current.join().stop()
      val future = new CompletableFuture[EngineProcess]()
      inBackground("paimon-engine-start") {
        try {
          val engine = new EngineProcess(sc)
          try engine.endpoint()
          catch { case e: Throwable => engine.stop(); throw e }
          future.complete(engine)
        } catch { case e: Throwable => future.completeExceptionally(e) }
      }
      current = future
    }
    current
  }

  def stop(): Unit = synchronized {
    if (current != null && current.isDone && !current.isCompletedExceptionally) current.join().stop()
    current = null
  }

  /** Process id of the running engine. */
  def pid(): Long = engine().process.pid()

  private def engine(): EngineProcess = {
    val sc = SparkContext.getActive.getOrElse(throw failure("There is no active SparkContext.", null, ""))
    try ensure(sc).get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  /** Sends one request and returns the engine's JSON response; its errors become exceptions. */
  def json(
      method: String,
      args: Map[String, Any],
      catalog: CatalogRef,
      objects: Seq[Object] = Nil,
      idempotent: Boolean = true,
      namespace: Seq[String] = Nil,
      name: Seq[String] = Nil): JsonNode =
    send(method, args, catalog, objects, idempotent) match {
      case text: String =>
        val answer = Json.parse(text)
        Json.optional(answer, "error").foreach(Errors.raise(_, namespace, name))
        answer.get("ok")
      case other => throw failure(s"The engine answered $method with a ${other.getClass.getName}.", null, "")
    }

  /** Sends one request whose response is bytes, or None. */
  def bytes(method: String, args: Map[String, Any], catalog: CatalogRef): Option[Array[Byte]] =
    send(method, args, catalog, Nil, idempotent = true) match {
      case text: String => Json.optional(Json.parse(text), "error").foreach(Errors.raise(_, Nil, Nil)); None
      case found: Array[Byte] => Some(found)
      case other => throw failure(s"The engine answered $method with a ${other.getClass.getName}.", null, "")
    }

  /** Sends one request whose response is a JVM object. */
  def jvmObject(method: String, args: Map[String, Any], catalog: CatalogRef, objects: Seq[Object]): Object =
    send(method, args, catalog, objects, idempotent = true) match {
      case text: String =>
        Json.optional(Json.parse(text), "error").foreach(Errors.raise(_, Nil, Nil))
        throw failure(s"The engine answered $method without an object.", null, "")
      case other => other
    }

  private def send(
      method: String,
      args: Map[String, Any],
      catalog: CatalogRef,
      objects: Seq[Object],
      idempotent: Boolean): Object = {
    val session = SparkSession.active.asInstanceOf[org.apache.spark.sql.classic.SparkSession]
    val options = SQLConf.get.getAllConfs.filter { case (k, _) =>
      k.startsWith("spark.paimon.") || k.startsWith("paimon.")
    } +
      (SQLConf.SESSION_LOCAL_TIMEZONE.key -> SQLConf.get.sessionLocalTimeZone)
    val id = UUID.randomUUID().toString
    val request = text(method, id, session.sessionUUID, options, catalog.withStore(session), args)
    val attached = new JArrayList[Object]()
    attached.add(session)
    objects.foreach(attached.add)
    attempt(id, request, attached, if (idempotent) 2 else 1, method)
  }

  private def text(
      method: String,
      id: String,
      session: String,
      conf: Map[String, String],
      catalog: CatalogRef,
      args: Map[String, Any]): String =
    method + "\n" + Json.text(Map(
      "version" -> ProtocolVersion,
      "request" -> id,
      "session" -> session,
      "conf" -> conf,
      "catalog" -> catalog.describe,
      "args" -> args))

  /** Requests an engine to cancel a request; returns whether the engine has received the request. */
  private def cancel(target: EngineProcess, id: String): Boolean =
    target.endpoint().apply(
      text("cancel", "", "", Map.empty, CatalogRef.ofTexts, Map("request" -> id)),
      new JArrayList[Object]()) match {
      case answer: String => Json.optional(Json.parse(answer), "ok").exists(_.get("running").asBoolean())
      case _ => false
    }

  private def attempt(id: String, request: String, objects: JList[Object], tries: Int, method: String): Object = {
    val target = engine()
    val answer =
      try Cancel.during(() => cancel(target, id)) { target.endpoint().apply(request, objects) }
      catch {
        case e: Throwable if isTransport(e) =>
          val ending = ShutdownHookManager.inShutdown()
          val died = !target.alive || target.process.waitFor(2, TimeUnit.SECONDS)
          if (died && tries > 1 && !ending) return attempt(id, request, objects, tries - 1, method)
          val what =
            if (ending) "The program is shutting down"
            else if (died) s"The Python engine ended with code ${target.process.exitValue()}"
            else "The connection to the Python engine broke"
          throw failure(
            s"$what during $method: ${messageOf(e)}.",
            target.logFile,
            if (died && tries == 1 && !method.startsWith("load"))
              "Check whether the statement took effect, then run it again."
            else "")
      }
    answer match {
      case t: Throwable =>
        logInfo(s"The engine failed during $method", t)
        throw Errors.named(t)
      case other => other
    }
  }

  private def isTransport(e: Throwable): Boolean =
    e.isInstanceOf[py4j.Py4JException] || (e.getCause != null && e.getCause.isInstanceOf[py4j.Py4JException])

  def python(conf: SparkConf): String =
    conf.getOption("spark.paimon.python")
      .orElse(sys.env.get("PAIMON_SPARK_PYTHON"))
      .orElse(conf.getOption("spark.pyspark.driver.python"))
      .orElse(conf.getOption("spark.pyspark.python"))
      .orElse(sys.env.get("PYSPARK_PYTHON"))
      .getOrElse("python3")

  def failure(message: String, log: Path, hint: String, code: String = "ENGINE_FAILED"): PaimonException = {
    val where = if (log == null) "" else s" Its log is $log."
    new PaimonException(s"[$code] $message$where" + (if (hint.isEmpty) "" else " " + hint), code)
  }

  /** The message of a failure, formatted as part of a sentence. */
  def messageOf(e: Throwable): String = Option(e.getMessage).getOrElse(e.getClass.getSimpleName).stripSuffix(".")
}

/** The catalog of a request: its name in Spark and its options; `usesStore` is false if the request reads no table. */
case class CatalogRef(name: String, options: Map[String, String], usesStore: Boolean = true) {

  /** With the options of Hadoop by which an S3 store is reached. */
  def withStore(session: org.apache.spark.sql.classic.SparkSession): CatalogRef =
    if (usesStore) copy(options = HadoopS3.options(session, this) ++ options) else this
  def describe: Map[String, Any] = Map("name" -> name, "options" -> options)
}
object CatalogRef {
  val none: CatalogRef = CatalogRef("", Map.empty)
  val ofTexts: CatalogRef = CatalogRef("", Map.empty, usesStore = false)
}
