package fencepost;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

import java.util.Map;

/** Skips what would wait in vain for groups of kinds that are not offered. */
public final class Offered implements ExecutionCondition {
    private static final Map<String, String> OF_CLASSES = Map.of(
        "Share", "share groups (KIP-932)", "StreamsGroup", "streams groups (KIP-1071)");

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        String name = context.getTestClass().map(Class::getSimpleName).orElse("");
        for (Map.Entry<String, String> kind : OF_CLASSES.entrySet()) {
            if (context.getTestMethod().isPresent() && name.contains(kind.getKey())) {
                return ConditionEvaluationResult.disabled("not offered: " + kind.getValue());
            }
        }
        return context.getDisplayName().contains("groupProtocol=consumer")
            ? ConditionEvaluationResult.disabled("not offered: groupProtocol=consumer")
            : ConditionEvaluationResult.enabled("offered");
    }
}
