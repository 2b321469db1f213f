package quiver.spark;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
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
    private final Field name;

    public PlainScans() throws Exception {
        name = PythonScan.class.getDeclaredField("shortName");
        name.setAccessible(true);
    }

    public Seq apply(LogicalPlan plan) {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
            if (relation.scan() instanceof PythonScan && "quiver".equalsIgnoreCase(nameOf(relation.scan()))) {
                return nothing().prepended(new BatchScanExec(relation.output(), relation.scan(), nothing(),
                    relation.ordering(), relation.relation().table(), relation.keyGroupedPartitioning()));
            }
        }
        return nothing();
    }

    private String nameOf(Object scan) {
        try {
            return (String) name.get(scan);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static scala.collection.immutable.List nothing() {
        return (scala.collection.immutable.List) List$.MODULE$.empty();
    }
}
