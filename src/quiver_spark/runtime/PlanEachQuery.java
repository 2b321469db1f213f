package quiver.spark;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import scala.Option;
import scala.collection.Iterator;

/**
 * Has Spark ask the quiver source for its slices in every query.
 *
 * Spark 4.3 asks a Python source once and keeps the answer with the relation, so a DataFrame or view would show the
 * topic as it was at its first action. The rule changes no plan: it drops the answer while a query is optimized, and
 * the query's physical plan asks again. All uses of a relation in one query get the same slices.
 *
 * It refuses tables of the catalog: Spark 4.3 keeps their options and never gives them to a Python source.
 */
public final class PlanEachQuery extends Rule {
    private static final String REFUSED =
        "a topic is no table of the catalog: Spark does not pass the options of CREATE TABLE or saveAsTable on."
        + " Use the table quiver.orders for the topic 'orders', or CREATE TEMPORARY VIEW name USING quiver OPTIONS"
        + " (bootstrap 'host:7481', topic 'orders') to read,"
        + " and df.write.format(\"quiver\").option(\"topic\", \"orders\").mode(\"append\").save() to write";
    private final Field source;
    private final Field name;

    public PlanEachQuery() throws Exception {
        source = PythonScan.class.getDeclaredField("ds");
        source.setAccessible(true);
        name = PythonScan.class.getDeclaredField("shortName");
        name.setAccessible(true);
    }

    public TreeNode apply(TreeNode plan) {
        refuseTable(plan);
        Iterator leaves = plan.collectLeaves().iterator();
        while (leaves.hasNext()) {
            Object leaf = leaves.next();
            if (leaf instanceof DataSourceV2ScanRelation) {
                Object scan = ((DataSourceV2ScanRelation) leaf).scan();
                if (scan instanceof PythonScan && "quiver".equalsIgnoreCase((String) get(name, scan))) {
                    ((PythonDataSourceV2) get(source, scan)).setReadInfo(null);
                }
            }
        }
        return plan;
    }

    private void refuseTable(TreeNode plan) {
        Object spec;
        try {
            spec = plan.getClass().getMethod("tableSpec", new Class[0]).invoke(plan, new Object[0]);
        } catch (ReflectiveOperationException error) {
            return; // it makes no table
        }
        if (spec instanceof TableSpecBase) {
            Option provider = ((TableSpecBase) spec).provider();
            if (provider.isDefined() && "quiver".equalsIgnoreCase(provider.get().toString())) {
                throw new UnsupportedOperationException(REFUSED);
            }
        }
    }

    private static Object get(Field field, Object owner) {
        try {
            return field.get(owner);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }
}
