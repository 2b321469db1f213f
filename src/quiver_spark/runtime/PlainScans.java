package quiver.spark;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import scala.Option;
import scala.collection.immutable.List$;
import scala.collection.immutable.Seq;

/**
 * Reads the quiver source, in batches and streams, without copying every row once more.
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
            DataSourceV2ScanRelation batch = (DataSourceV2ScanRelation) plan;
            Table table = batch.relation().table();
            if (isOurs(batch.scan())) {
                return nothing().prepended(new BatchScanExec(batch.output(), batch.scan(), nothing(), batch.ordering(),
                    table, batch.keyGroupedPartitioning()));
            }
        }
        if (plan instanceof StreamingDataSourceV2ScanRelation) {
            StreamingDataSourceV2ScanRelation stream = (StreamingDataSourceV2ScanRelation) plan;
            boolean isBatch = stream.startOffset().isDefined() && stream.endOffset().isDefined();
            if (isBatch && isOurs(stream.scan())) {
                return nothing().prepended(new MicroBatchScanExec(stream.output(), stream.scan(),
                    (MicroBatchStream) stream.stream(), (Offset) stream.startOffset().get(),
                    (Offset) stream.endOffset().get(), Option.empty(), Option.empty()));
            }
        }
        return nothing();
    }

    private boolean isOurs(Scan scan) {
        try {
            return scan instanceof PythonScan && "quiver".equalsIgnoreCase((String) name.get(scan));
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static scala.collection.immutable.List nothing() {
        return (scala.collection.immutable.List) List$.MODULE$.empty();
    }
}
