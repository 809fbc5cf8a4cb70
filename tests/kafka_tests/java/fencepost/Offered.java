package fencepost;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Skips what waits in vain for a protocol that is not offered: consumer groups of KIP-848. */
public final class Offered implements ExecutionCondition {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return context.getDisplayName().contains("groupProtocol=consumer")
            ? ConditionEvaluationResult.disabled("not offered: groupProtocol=consumer")
            : ConditionEvaluationResult.enabled("offered");
    }
}
