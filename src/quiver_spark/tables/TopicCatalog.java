package quiver.spark;

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog whose tables are the topics of a broker: each is the Python source `quiver` with the options of the catalog.
 *
 * Spark passes no options to a Python source behind a table, so the tables here add them to those of a query. The
 * topics are asked of the driver's Python process whenever a table is looked up.
 */
public final class TopicCatalog implements TableCatalog {
    private static final String SOURCE = "quiver";
    private static final String UNSUPPORTED =
        "the tables of this catalog are the topics of a broker: create, alter and delete topics with quiver topic or"
        + " the SDK";
    private String catalogName;
    private Map options;
    private StructType messageSchema;
    private Supplier topics;

    /**
     * Makes it a catalog of a session, in the place of one with the same name.
     *
     * Names of options are in lower case. `topics` gives the names of all topics, one per line, with a tab and the columns
     * of a topic whose values have a schema; or, after a tab, why it cannot. Without a schema here the source is asked for that of each topic.
     */
    public void install(CatalogManager manager, String name, Map options, StructType messageSchema, Supplier topics)
            throws Exception {
        this.catalogName = name;
        this.options = new HashMap(options);
        this.messageSchema = messageSchema;
        this.topics = topics;
        Field field = manager.getClass().getDeclaredField("catalogs");
        field.setAccessible(true);
        synchronized (manager) {
            ((scala.collection.mutable.Map) field.get(manager)).put(name, this);
        }
    }

    public void initialize(String name, CaseInsensitiveStringMap given) {}

    public String name() {
        return catalogName;
    }

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        if (namespace.length > 0) {
            throw new NoSuchNamespaceException(namespace);
        }
        String[] lines = lines();
        Identifier[] found = new Identifier[lines.length];
        for (int i = 0; i < lines.length; i++) {
            found[i] = new TopicName(lines[i].split("\t")[0]);
        }
        return found;
    }

    public boolean tableExists(Identifier table) {
        return lineOf(table) != null;
    }

    /** For a table that it is told to be missing, Spark would look for files of the format `quiver`, and say so. */
    public Table loadTable(Identifier table) throws NoSuchTableException {
        String line = lineOf(table);
        if (line == null) {
            throw new IllegalArgumentException("there is no topic '" + table.name() + "' at " + options.get("bootstrap"));
        }
        Map own = new HashMap(options);
        own.put("topic", table.name());
        StructType schema = messageSchema;
        if (schema != null && line.length() > table.name().length()) {
            schema = StructType.fromDDL(line.substring(table.name().length() + 1));
        }
        if (schema == null) {
            schema = source().inferSchema(new CaseInsensitiveStringMap(own));
        }
        return new TopicTable(catalogName + "." + table.name(), own, schema);
    }

    /** The line about a topic; null if there is no such topic. */
    private String lineOf(Identifier table) {
        String[] lines = lines();
        for (int i = 0; i < lines.length && table.namespace().length == 0; i++) {
            if (lines[i].split("\t")[0].equals(table.name())) {
                return lines[i];
            }
        }
        return null;
    }

    private String[] lines() {
        String listed = (String) topics.get();
        if (listed.startsWith("\t")) {
            throw new IllegalArgumentException(listed.substring(1));
        }
        return listed.isEmpty() ? new String[0] : listed.split("\n");
    }

    public Table createTable(Identifier table, TableInfo wanted) {
        throw new UnsupportedOperationException(UNSUPPORTED);
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        throw new UnsupportedOperationException(UNSUPPORTED);
    }

    public boolean dropTable(Identifier table) {
        throw new UnsupportedOperationException(UNSUPPORTED);
    }

    public void renameTable(Identifier table, Identifier name) {
        throw new UnsupportedOperationException(UNSUPPORTED);
    }

    private static PythonDataSourceV2 source() {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(SOURCE);
        return source;
    }

    private static final class TopicName implements Identifier {
        private final String topic;

        TopicName(String topic) {
            this.topic = topic;
        }

        public String[] namespace() {
            return new String[0];
        }

        public String name() {
            return topic;
        }
    }

    /** A topic. All its uses in a query with the same options share a source, so that they read the same messages. */
    public static final class TopicTable implements SupportsRead, SupportsWrite {
        private static final String[] OF_WRITES = {"topic", "bootstrap", "timeout"};
        private static final String[] OF_COLUMNS = {"valueSchema", "includeHeaders"};
        private final String tableName;
        private final Map options;
        private final StructType tableSchema;
        private final Map tables = new HashMap(); // by the options of a read

        TopicTable(String tableName, Map options, StructType tableSchema) {
            this.tableName = tableName;
            this.options = options;
            this.tableSchema = tableSchema;
        }

        public String name() {
            return tableName;
        }

        public StructType schema() {
            return tableSchema;
        }

        public Map properties() {
            Map shown = new HashMap(options);
            shown.put("provider", SOURCE);
            return shown;
        }

        public Set capabilities() {
            Set found = new HashSet();
            found.add(TableCapability.BATCH_READ);
            found.add(TableCapability.BATCH_WRITE);
            found.add(TableCapability.MICRO_BATCH_READ);
            found.add(TableCapability.STREAMING_WRITE);
            found.add(TableCapability.ACCEPT_ANY_SCHEMA); // the sink checks the columns itself
            return found;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
            for (int i = 0; i < OF_COLUMNS.length; i++) {
                if (given.containsKey(OF_COLUMNS[i])) {
                    throw new IllegalArgumentException(
                        "option '" + OF_COLUMNS[i] + "' comes too late for a table, whose columns are known before the"
                        + " options of a query: store a schema (store_schema), or make a catalog with the option"
                        + " (register_tables)");
                }
            }
            Map all = new HashMap(options);
            all.putAll(given);
            CaseInsensitiveStringMap read = new CaseInsensitiveStringMap(all);
            synchronized (tables) {
                if (!tables.containsKey(read)) {
                    tables.put(read, table(tableSchema, read));
                }
                return ((PythonTable) tables.get(read)).newScanBuilder(read);
            }
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            Map all = new HashMap(options);
            all.keySet().retainAll(Arrays.asList(OF_WRITES));
            all.putAll(info.options());
            CaseInsensitiveStringMap written = new CaseInsensitiveStringMap(all);
            return table(info.schema(), written).newWriteBuilder(new OptionsOfTable(info, written));
        }

        private static PythonTable table(StructType schema, CaseInsensitiveStringMap all) {
            return (PythonTable) source().getTable(schema, new Transform[0], all.asCaseSensitiveMap());
        }
    }

    /** A write with the options of the table. */
    private static final class OptionsOfTable implements LogicalWriteInfo {
        private final LogicalWriteInfo info;
        private final CaseInsensitiveStringMap written;

        OptionsOfTable(LogicalWriteInfo info, CaseInsensitiveStringMap written) {
            this.info = info;
            this.written = written;
        }

        public CaseInsensitiveStringMap options() {
            return written;
        }

        public String queryId() {
            return info.queryId();
        }

        public StructType schema() {
            return info.schema();
        }
    }
}
