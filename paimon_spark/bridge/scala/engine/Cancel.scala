package org.apache.spark.sql.paimonbridge

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.hive.common.HiveInterruptUtils

import sun.misc.{Signal, SignalHandler}

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging

/** Ends the engine's part of a statement when the statement is cancelled.
  *
  * Spark cancels jobs, and interrupts the threads that run statements. While a thread waits for the engine no job need
  * run, and nothing interrupts the read of a socket: so another thread looks at those that wait, and tells the engine.
  */
object Cancel extends Logging {
  private val PollMillis = 100L
  @volatile private var interrupted = false

  private class Waiting(val thread: Thread, val tell: () => Boolean) {
    @volatile var wanted = false
    @volatile var notified = false
  }

  private val waiting = ConcurrentHashMap.newKeySet[Waiting]()
  private lazy val watcher: Thread = {
    val thread = new Thread(() => watch(), "paimon-cancel")
    thread.setDaemon(true)
    thread.start()
    thread
  }

  /** Run a call of the engine; `tell` ends it from another thread, and returns false while the engine knows nothing of it. */
  def during[T](tell: () => Boolean)(call: => T): T = {
    val entry = new Waiting(Thread.currentThread(), tell)
    watcher
    waiting.synchronized { waiting.add(entry); waiting.notify() }
    try call finally waiting.remove(entry)
  }

  /** End everything that the engine does now. */
  def all(): Unit = waiting.asScala.foreach(_.wanted = true)

  /** In spark-sql, Ctrl-C ends the statement. The class is missing where Spark was built without Hive. While no statement
    * runs, a Ctrl-C of the launcher's shell that came too late is to end nothing; spark-sql brings its own handler. */
  lazy val onInterrupt: Unit = {
    try HiveInterruptUtils.add(() => interrupt())
    catch { case _: LinkageError => }
    if (sys.env.contains("PAIMON_SPARK_SHELL")) Signal.handle(new Signal("INT"), Nothing)
  }

  /** Spark cancels the jobs that run when Ctrl-C is pressed. A statement that is still being planned has none yet: so what
    * it starts is ended too, until the next statement begins. */
  private def interrupt(): Unit = {
    interrupted = true
    val until = System.nanoTime() + TimeUnit.MINUTES.toNanos(1)
    val thread = new Thread(() => while (interrupted && System.nanoTime() < until) {
      all()
      SparkContext.getActive.foreach(_.cancelAllJobs())
      Thread.sleep(2 * PollMillis)
    }, "paimon-interrupt")
    thread.setDaemon(true)
    thread.start()
  }

  /** A text is parsed. If that begins a statement, no interrupt of an earlier one concerns it; what a statement parses
    * itself, as EXECUTE IMMEDIATE does, and what the engine has Spark run are parts of the statement that runs. */
  def begin(): Unit = if (interrupted && waiting.isEmpty && !isNested) interrupted = false

  /** Whether this thread analyses or runs a statement already. */
  private def isNested: Boolean = StackWalker.getInstance().walk(_.anyMatch(f => Running.contains(f.getClassName)))

  private val Running = Set("org.apache.spark.sql.execution.QueryExecution",
    "org.apache.spark.sql.catalyst.rules.RuleExecutor")

  /** Unlike SIG_IGN, behind which Java installs no other handler. */
  private object Nothing extends SignalHandler { override def handle(signal: Signal): Unit = () }

  private def watch(): Unit = while (true) {
    waiting.synchronized { while (waiting.isEmpty) waiting.wait() }
    Thread.sleep(PollMillis)
    waiting.asScala.filter(w => !w.notified && (w.wanted || w.thread.isInterrupted)).foreach { w =>
      try w.notified = w.tell()
      catch { case NonFatal(e) => logWarning("The engine could not be told of a cancelled statement.", e) }
    }
  }
}
