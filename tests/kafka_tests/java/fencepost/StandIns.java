package fencepost;

import org.mockito.MockMakers;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

import java.util.Map;
import java.util.function.Function;

/** Objects of Kafka's classes that answer what a node can be asked from outside, and refuse the rest. */
public final class StandIns {
    private StandIns() { }

    /** One of this class that answers these methods, by name. */
    public static <T> T of(Class<T> type, Map<String, Function<InvocationOnMock, Object>> answers) {
        return Mockito.mock(type, Mockito.withSettings().mockMaker(MockMakers.SUBCLASS).stubOnly()
            .defaultAnswer(call -> {
                Function<InvocationOnMock, Object> answer = answers.get(call.getMethod().getName());
                if (answer != null) {
                    return answer.apply(call);
                }
                if (call.getMethod().getDeclaringClass() == Object.class) {
                    return call.getMethod().getName().equals("toString") ? "a stand-in of " + type : 0;
                }
                throw new NeedsInternals(type.getSimpleName() + "." + call.getMethod().getName());
            }));
    }
}
