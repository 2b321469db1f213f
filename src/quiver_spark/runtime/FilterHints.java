package quiver.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import scala.Option;

/** Filters as JSON: a list of [operation, column, values], without those that the source has no use for. */
public final class FilterHints {
    private FilterHints() {
    }

    /** Null if there is none. */
    public static String text(List conditions) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < conditions.size(); i++) {
            add((Expression) conditions.get(i), text);
        }
        return text.length() == 0 ? null : "[" + text + "]";
    }

    private static void add(Expression condition, StringBuilder text) {
        if (condition instanceof And) {
            add(((And) condition).left(), text);
            add(((And) condition).right(), text);
            return;
        }
        Option translated = DataSourceStrategy$.MODULE$.translateFilter(condition, false);
        if (!translated.isDefined()) {
            return;
        }
        Object filter = translated.get();
        if (filter instanceof EqualTo) {
            EqualTo equal = (EqualTo) filter;
            put(text, "=", equal.attribute(), new Object[] {equal.value()});
        } else if (filter instanceof In) {
            In in = (In) filter;
            put(text, "=", in.attribute(), in.values());
        } else if (filter instanceof GreaterThan) {
            GreaterThan greater = (GreaterThan) filter;
            put(text, ">=", greater.attribute(), new Object[] {greater.value()});
        } else if (filter instanceof GreaterThanOrEqual) {
            GreaterThanOrEqual least = (GreaterThanOrEqual) filter;
            put(text, ">=", least.attribute(), new Object[] {least.value()});
        } else if (filter instanceof LessThan) {
            LessThan less = (LessThan) filter;
            put(text, "<=", less.attribute(), new Object[] {less.value()});
        } else if (filter instanceof LessThanOrEqual) {
            LessThanOrEqual most = (LessThanOrEqual) filter;
            put(text, "<=", most.attribute(), new Object[] {most.value()});
        }
    }

    private static void put(StringBuilder text, String operation, String column, Object[] values) {
        StringBuilder items = new StringBuilder();
        for (int i = 0; i < values.length; i++) {
            String item = item(column, values[i]);
            if (item == null) {
                return;
            }
            items.append(i == 0 ? "" : ",").append(item);
        }
        text.append(text.length() == 0 ? "" : ",");
        text.append("[\"").append(operation).append("\",\"").append(column).append("\",[").append(items).append("]]");
    }

    /** Null for a value that the source has no use for. */
    private static String item(String column, Object value) {
        if (column.equals("key") && value instanceof byte[]) {
            StringBuilder hex = new StringBuilder("\"");
            byte[] bytes = (byte[]) value;
            for (int i = 0; i < bytes.length; i++) {
                hex.append(Character.forDigit((bytes[i] >> 4) & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
            }
            return hex.append("\"").toString();
        }
        boolean isNumber = value instanceof Integer || value instanceof Long;
        if (isNumber && (column.equals("partition") || column.equals("offset"))) {
            return value.toString();
        }
        if (column.equals("append_time") && value instanceof java.sql.Timestamp) {
            return Long.toString(((java.sql.Timestamp) value).getTime());
        }
        if (column.equals("append_time") && value instanceof java.time.Instant) {
            return Long.toString(((java.time.Instant) value).toEpochMilli());
        }
        return null;
    }
}
