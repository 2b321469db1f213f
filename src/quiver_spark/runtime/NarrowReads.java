package quiver.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells the quiver source what a query needs, which Spark 4.3 does not tell a Python source: the columns, by the schema
 * that the reader gets, and the filters, as a hint in the metadata of that schema, which also has the whole schema.
 * Spark still applies the filters.
 *
 * Every query gets a source of its own, so nothing of it is left for the next one. All uses of a relation in a query
 * share one, which has the columns of all of them, and filters only if there is one use: so they read the same slices.
 * Queries with subqueries, which are optimized separately, are left alone for the same reason.
 *
 * Counts, and least and greatest values of what the headers of frames have, are computed from a summary of each
 * frame: rows with a column that says how many messages they stand for.
 */
public final class NarrowReads extends Rule {
    private static final String ROWS = "quiver_rows";
    private static final String HINT = "quiver.filters";
    private static final String SCHEMA = "quiver.schema";
    private final Field scanSource;
    private final Field scanName;
    private final Field scanOptions;
    private final Field created;

    public NarrowReads() throws Exception {
        scanSource = field(PythonScan.class, "ds");
        scanName = field(PythonScan.class, "shortName");
        scanOptions = field(PythonScan.class, "options");
        created = field(PythonDataSourceV2.class, "dataSourceInPython");
    }

    private static Field field(Class owner, String name) throws Exception {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    /** How a query uses a relation. */
    static final class Use {
        DataSourceV2ScanRelation relation;
        int count;
        boolean isWhole;
        List needed = new ArrayList();
        List filters = new ArrayList();
        Aggregate summary;
        DataSourceV2ScanRelation narrowed;
        AttributeReference rows;
    }

    public TreeNode apply(TreeNode plan) {
        if (plan instanceof Subquery || !((LogicalPlan) plan).subqueriesAll().isEmpty()) {
            return plan;
        }
        Map uses = new IdentityHashMap();
        find((LogicalPlan) plan, uses);
        boolean isChanged = false;
        for (Iterator all = uses.values().iterator(); all.hasNext();) {
            isChanged |= narrow((Use) all.next());
        }
        return isChanged ? replaced((LogicalPlan) plan, uses) : plan;
    }

    private void find(LogicalPlan node, Map uses) {
        List filters = new ArrayList();
        LogicalPlan below = node instanceof Project || node instanceof Aggregate ? child(node) : node;
        LogicalPlan projected = below;
        if (node instanceof Aggregate && below instanceof Project) {
            below = child(below);
        }
        while (below instanceof Filter) {
            filters.add(((Filter) below).condition());
            below = child(below);
        }
        if (!isOurs(below)) {
            for (Iterator children = CollectionConverters.asJava(node.children()).iterator(); children.hasNext();) {
                find((LogicalPlan) children.next(), uses);
            }
            return;
        }
        if (node instanceof Aggregate && projected instanceof Project
            && !FrameSummaries.isSummary((Aggregate) node, below)) {
            find(projected, uses);
            return;
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) below;
        Object source = get(scanSource, relation.scan());
        Use use = (Use) uses.get(source);
        if (use == null) {
            use = new Use();
            use.relation = relation;
            uses.put(source, use);
        }
        use.count++;
        use.filters.addAll(filters);
        note(use, node, relation);
    }

    private void note(Use use, LogicalPlan node, DataSourceV2ScanRelation relation) {
        if (node instanceof Aggregate && use.filters.isEmpty()
            && FrameSummaries.isSummary((Aggregate) node, relation)) {
            use.summary = (Aggregate) node;
        }
        if (!(node instanceof Project || node instanceof Aggregate)) {
            use.isWhole = true;
        }
        for (Iterator columns = columns(relation).iterator(); columns.hasNext();) {
            AttributeReference column = (AttributeReference) columns.next();
            boolean isNeeded = node.references().contains(column);
            for (int i = 0; i < use.filters.size(); i++) {
                isNeeded |= ((Expression) use.filters.get(i)).references().contains(column);
            }
            if (isNeeded && !use.needed.contains(column.name())) {
                use.needed.add(column.name());
            }
        }
    }

    /** A relation of the quiver source that is as Spark made it. */
    private boolean isOurs(LogicalPlan node) {
        if (!(node instanceof DataSourceV2ScanRelation)) {
            return false;
        }
        Object scan = ((DataSourceV2ScanRelation) node).scan();
        return scan instanceof PythonScan
            && "quiver".equalsIgnoreCase((String) get(scanName, scan))
            && !isNarrowed(((PythonScan) scan).readSchema());
    }

    private static boolean isNarrowed(StructType schema) {
        return schema.fields().length > 0 && schema.fields()[0].metadata().contains(SCHEMA);
    }

    private boolean narrow(Use use) {
        if (use.count > 1) {
            use.summary = null;
            use.filters.clear();
        }
        String hint = FilterHints.text(use.filters);
        List columns = columns(use.relation);
        if (use.summary == null && hint == null && (use.isWhole || use.needed.size() == columns.size())) {
            return false;
        }
        List kept = new ArrayList();
        for (Iterator all = columns.iterator(); all.hasNext();) {
            AttributeReference column = (AttributeReference) all.next();
            if (use.isWhole || use.needed.contains(column.name())) {
                kept.add(column);
            }
        }
        if (use.summary != null) {
            use.rows = new AttributeReference(ROWS, DataTypes.LongType, false, Metadata.empty(),
                NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()));
            kept.add(use.rows);
        } else if (kept.isEmpty()) {
            kept.add(columns.get(0));
        }
        use.narrowed = narrowed(use.relation, kept, hint);
        return true;
    }

    private DataSourceV2ScanRelation narrowed(DataSourceV2ScanRelation relation, List kept, String hint) {
        StructType whole = relation.relation().table().schema();
        String name = (String) get(scanName, relation.scan());
        PythonDataSourceV2 base = (PythonDataSourceV2) get(scanSource, relation.scan());
        CaseInsensitiveStringMap options = (CaseInsensitiveStringMap) get(scanOptions, relation.scan());
        StructField[] fields = new StructField[kept.size()];
        for (int i = 0; i < fields.length; i++) {
            AttributeReference column = (AttributeReference) kept.get(i);
            Metadata metadata = i == 0 ? metadata(whole, hint) : Metadata.empty();
            fields[i] = new StructField(column.name(), column.dataType(), column.nullable(), metadata);
        }
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(name);
        set(created, source, base.getOrCreateDataSourceInPython(name, options, new Some(whole)));
        PythonScan scan = new PythonScan(source, name, new StructType(fields), options,
            new org.apache.spark.sql.sources.Filter[0]);
        return new DataSourceV2ScanRelation(relation.relation(), scan, seq(kept), relation.keyGroupedPartitioning(),
            relation.ordering(), relation.pushedFilters(), relation.mergeableScan());
    }

    private static Metadata metadata(StructType whole, String hint) {
        MetadataBuilder metadata = new MetadataBuilder().putString(SCHEMA, whole.json());
        return (hint == null ? metadata : metadata.putString(HINT, hint)).build();
    }

    private LogicalPlan replaced(LogicalPlan node, Map uses) {
        for (Iterator all = uses.values().iterator(); all.hasNext();) {
            Use use = (Use) all.next();
            if (use.narrowed != null && use.summary == node) {
                return summarized(use);
            }
        }
        if (isOurs(node)) {
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
            Use use = (Use) uses.get(get(scanSource, relation.scan()));
            return use.narrowed == null ? node : outputOf(relation, use.narrowed);
        }
        List children = new ArrayList();
        for (Iterator all = CollectionConverters.asJava(node.children()).iterator(); all.hasNext();) {
            children.add(replaced((LogicalPlan) all.next(), uses));
        }
        LogicalPlan changed = (LogicalPlan) node.withNewChildren(seq(children));
        boolean isNothing = changed instanceof Project
            && ((Project) changed).projectList().equals(child(changed).output());
        return isNothing ? child(changed) : changed;
    }

    /** The narrowed relation with the ids that this use of it has for the columns. */
    private DataSourceV2ScanRelation outputOf(DataSourceV2ScanRelation relation, DataSourceV2ScanRelation narrowed) {
        List output = new ArrayList();
        for (Iterator all = columns(narrowed).iterator(); all.hasNext();) {
            String name = ((AttributeReference) all.next()).name();
            for (Iterator own = columns(relation).iterator(); own.hasNext();) {
                AttributeReference column = (AttributeReference) own.next();
                if (column.name().equals(name)) {
                    output.add(column);
                }
            }
        }
        return new DataSourceV2ScanRelation(relation.relation(), narrowed.scan(), seq(output),
            relation.keyGroupedPartitioning(), relation.ordering(), relation.pushedFilters(), relation.mergeableScan());
    }

    private LogicalPlan summarized(Use use) {
        List results = new ArrayList();
        List asked = CollectionConverters.asJava(use.summary.aggregateExpressions());
        for (int i = 0; i < asked.size(); i++) {
            results.add(FrameSummaries.withoutCounts((Expression) asked.get(i), use.rows));
        }
        return new Aggregate(use.summary.groupingExpressions(), seq(results), use.narrowed, use.summary.hint());
    }

    // Scala

    private static LogicalPlan child(LogicalPlan node) {
        return (LogicalPlan) node.children().head();
    }

    private static List columns(DataSourceV2ScanRelation relation) {
        return CollectionConverters.asJava(relation.output());
    }

    static Seq seq(List items) {
        return CollectionConverters.asScala(items).toList();
    }

    private static Object get(Field field, Object owner) {
        try {
            return field.get(owner);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void set(Field field, Object owner, Object value) {
        try {
            field.set(owner, value);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }
}
