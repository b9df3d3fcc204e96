package org.apache.spark.sql.paimonbridge

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.hive.common.HiveInterruptUtils

import sun.misc.{Signal, SignalHandler}

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging

/** Cancels engine requests when their statement is cancelled.
  *
  * Spark cancels jobs, and interrupts the threads that run statements. While a thread waits for the engine, there may
  * be no job to cancel, and an interrupt does not end a socket read. A watcher thread therefore polls the waiting
  * threads and notifies the engine.
  */
object Cancel extends Logging {
  private val PollMillis = 100L
  @volatile private var interrupted = false

  private class Waiting(val thread: Thread, val cancelRequest: () => Boolean) {
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

  /** Runs an engine request; `cancelRequest` cancels it from another thread, and returns false if the engine has not
    * received it yet. */
  def during[T](cancelRequest: () => Boolean)(call: => T): T = {
    val entry = new Waiting(Thread.currentThread(), cancelRequest)
    watcher
    waiting.synchronized { waiting.add(entry); waiting.notify() }
    try call
    finally waiting.remove(entry)
  }

  /** Whether the running statement was interrupted from the terminal. */
  def isInterrupted: Boolean = interrupted

  /** Cancels all running engine requests. */
  def all(): Unit = waiting.asScala.foreach(_.wanted = true)

  /** In spark-sql, Ctrl-C cancels the statement. The class is missing in builds of Spark without Hive. Between
    * statements, a late Ctrl-C of the launcher's shell is ignored; spark-sql installs a handler of its own while one
    * runs. */
  lazy val onInterrupt: Unit = {
    try HiveInterruptUtils.add(() => interrupt())
    catch { case _: LinkageError => }
    if (sys.env.contains("PAIMON_SPARK_SHELL")) Signal.handle(new Signal("INT"), Nothing)
  }

  /** Spark cancels the running jobs on Ctrl-C. A statement that is still being planned has none yet, so the jobs
    * that it starts later are cancelled too, until the next statement begins. */
  private def interrupt(): Unit = {
    interrupted = true
    val until = System.nanoTime() + TimeUnit.MINUTES.toNanos(1)
    val thread = new Thread(
      () =>
        while (interrupted && System.nanoTime() < until) {
          all()
          SparkContext.getActive.foreach(_.cancelAllJobs())
          Thread.sleep(2 * PollMillis)
        },
      "paimon-interrupt")
    thread.setDaemon(true)
    thread.start()
  }

  /** Called when a text is parsed. If it begins a statement, earlier interrupts no longer apply. Texts that a
    * statement parses itself, as EXECUTE IMMEDIATE does, and those of the engine are part of the running statement. */
  def begin(): Unit = if (interrupted && waiting.isEmpty && !isNested) interrupted = false

  /** Whether this thread is already analyzing or running a statement. */
  private def isNested: Boolean = StackWalker.getInstance().walk(_.anyMatch(f => Running.contains(f.getClassName)))

  private val Running =
    Set("org.apache.spark.sql.execution.QueryExecution", "org.apache.spark.sql.catalyst.rules.RuleExecutor")

  /** Used instead of SIG_IGN, after which Java cannot install another handler. */
  private object Nothing extends SignalHandler { override def handle(signal: Signal): Unit = () }

  private def watch(): Unit = while (true) {
    waiting.synchronized { while (waiting.isEmpty) waiting.wait() }
    Thread.sleep(PollMillis)
    waiting.asScala.filter(w => !w.notified && (w.wanted || w.thread.isInterrupted)).foreach { w =>
      try w.notified = w.cancelRequest()
      catch { case NonFatal(e) => logWarning("The engine could not be notified of a cancelled statement.", e) }
    }
  }
}
