package quiver.spark;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import scala.collection.immutable.List$;
import scala.collection.immutable.Seq;

/**
 * Reads the quiver source without copying every row once more.
 *
 * Spark 4.3 copies the rows of a Python source into its own format when they arrive, and then, because the source
 * might not have done so, again.
 */
public final class PlainScans extends SparkStrategy {
    public Seq apply(LogicalPlan plan) {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
            Table table = relation.relation().table();
            if (relation.scan() instanceof PythonScan && "quiver".equalsIgnoreCase(table.name())) {
                return nothing().prepended(new BatchScanExec(relation.output(), relation.scan(), nothing(),
                    relation.ordering(), table, relation.keyGroupedPartitioning()));
            }
        }
        return nothing();
    }

    private static scala.collection.immutable.List nothing() {
        return (scala.collection.immutable.List) List$.MODULE$.empty();
    }
}
