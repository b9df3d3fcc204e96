package paimon.spark

import org.apache.spark.sql.paimonbridge.{Extensions, PaimonCatalog, PaimonDataSource, PaimonGenericCatalog}

/** `spark.sql.extensions=paimon.spark.SessionExtension` */
class SessionExtension extends Extensions

/** `spark.sql.catalog.<name>=paimon.spark.Catalog` */
class Catalog extends PaimonCatalog

/** `spark.sql.catalog.spark_catalog=paimon.spark.GenericCatalog` */
class GenericCatalog extends PaimonGenericCatalog

/** `format("paimon")` */
class DataSource extends PaimonDataSource
