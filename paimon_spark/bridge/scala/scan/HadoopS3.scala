package org.apache.spark.sql.paimonbridge

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.Utils

/** The Hadoop configuration of S3 stores, and whether Hadoop's own client can read them. */
object HadoopS3 {
  private val Needed = Seq("org.apache.hadoop.fs.s3a.S3AFileSystem", "software.amazon.awssdk.services.s3.S3Client")
  private val Prefix = "fs.s3a."
  private val Mark = "hadoop."
  private val settingsOf = new ConcurrentHashMap[String, String]()

  private def isS3(location: String): Boolean = location.startsWith("s3:") || location.startsWith("s3a:")

  /** The options set explicitly in Spark's or Hadoop's configuration; empty for a warehouse elsewhere. */
  def options(session: SparkSession, catalog: CatalogRef): Map[String, String] =
    if (catalog.options.get("warehouse").exists(!isS3(_))) Map.empty
    else {
      val conf = session.sessionState.newHadoopConf()
      conf.getPropsWithPrefix(Prefix).asScala.keys.map(Prefix + _)
        .filterNot(key => Option(conf.getPropertySources(key)).flatMap(_.lastOption).contains("core-default.xml"))
        .map(key => (Mark + key) -> conf.get(key)).toMap
    }

  private lazy val present: Boolean =
    Needed.forall(name => Try(Utils.classForName[Any](name, initialize = false)).isSuccess)

  /** The reason why Spark's own scans cannot read `place` (scheme and bucket): `jars`, `settings`, or an empty text.
    *
    * Hadoop caches one client per bucket, with the settings of its first use. A read with other settings must not
    * use it. */
  def refusal(place: String, settings: String): String =
    if (!present) "jars"
    else Option(settingsOf.putIfAbsent(place, settings)).filterNot(_ == settings).fold("")(_ => "settings")
}
