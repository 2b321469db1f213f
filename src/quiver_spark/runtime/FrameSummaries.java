package quiver.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Aggregates that the headers of frames answer. The source gives a row for a frame, with the number of its messages, or
 * two, with the least and the greatest values of its messages.
 */
public final class FrameSummaries {
    private static final List SAME_IN_A_FRAME =
        Arrays.asList(new String[] {"topic", "partition", "priority", "append_time"});
    private static final List IN_SUMMARIES =
        Arrays.asList(new String[] {"topic", "partition", "priority", "append_time", "offset", "timestamp"});

    private FrameSummaries() {
    }

    /** Whether an aggregate over a relation can be computed from summaries of frames. */
    public static boolean isSummary(Aggregate node, LogicalPlan relation) {
        LogicalPlan below = node.child();
        if (below instanceof Project) {
            List kept = CollectionConverters.asJava(((Project) below).projectList());
            for (int i = 0; i < kept.size(); i++) {
                if (!(kept.get(i) instanceof AttributeReference)) {
                    return false;
                }
            }
            below = ((Project) below).child();
        }
        if (below != relation) {
            return false;
        }
        for (Iterator all = CollectionConverters.asJava(node.groupingExpressions()).iterator(); all.hasNext();) {
            if (!isOneOf(all.next(), SAME_IN_A_FRAME)) {
                return false;
            }
        }
        boolean isSummary = true;
        for (Iterator all = CollectionConverters.asJava(node.aggregateExpressions()).iterator(); all.hasNext();) {
            isSummary &= isSummarized((Expression) all.next());
        }
        return isSummary;
    }

    private static boolean isSummarized(Expression expression) {
        if (expression instanceof AggregateExpression) {
            AggregateExpression aggregate = (AggregateExpression) expression;
            AggregateFunction function = aggregate.aggregateFunction();
            if (aggregate.isDistinct() || aggregate.filter().isDefined()
                || !(function instanceof Count || function instanceof Min || function instanceof Max)) {
                return false;
            }
            for (Iterator all = CollectionConverters.asJava(function.children()).iterator(); all.hasNext();) {
                Object child = all.next();
                boolean isCounted = function instanceof Count && child instanceof Literal
                    && ((Literal) child).value() != null;
                if (!isCounted && !isOneOf(child, IN_SUMMARIES)) {
                    return false;
                }
            }
            return true;
        }
        boolean isSummarized = true;
        for (Iterator all = CollectionConverters.asJava(expression.children()).iterator(); all.hasNext();) {
            isSummarized &= isSummarized((Expression) all.next());
        }
        return isSummarized;
    }

    private static boolean isOneOf(Object expression, List names) {
        return expression instanceof AttributeReference && names.contains(((AttributeReference) expression).name());
    }

    /** The expression with sums of the messages that rows stand for instead of counts of rows. */
    public static Expression withoutCounts(Expression expression, AttributeReference rows) {
        if (expression instanceof AggregateExpression) {
            AggregateExpression aggregate = (AggregateExpression) expression;
            if (!(aggregate.aggregateFunction() instanceof Count)) {
                return aggregate;
            }
            Expression sum = new AggregateExpression(new Sum(rows), aggregate.mode(), false, aggregate.filter(),
                NamedExpression$.MODULE$.newExprId());
            Expression none = new Literal(Long.valueOf(0), DataTypes.LongType);
            return new Coalesce(seq(Arrays.asList(new Object[] {sum, none})));
        }
        List children = new ArrayList();
        for (Iterator all = CollectionConverters.asJava(expression.children()).iterator(); all.hasNext();) {
            children.add(withoutCounts((Expression) all.next(), rows));
        }
        return (Expression) expression.withNewChildren(seq(children));
    }

    private static Seq seq(List items) {
        return CollectionConverters.asScala(items).toList();
    }
}
