package fencepost;

import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.MetricName;

import org.apache.kafka.common.metrics.Measurable;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What nodes count of logins, where tests look for it: in metrics of the JVM. */
public final class SocketMetrics {
    private static final String GROUP = "socket-server-metrics";
    private static final String EXPIRED = "expired-connections-killed-count";
    private static final List<String> NAMES = List.of(
        EXPIRED, "failed-authentication-total", "failed-reauthentication-total",
        "successful-authentication-total", "successful-reauthentication-total",
        "successful-authentication-no-reauth-total");
    private static final Set<NodeProcess> NODES = ConcurrentHashMap.newKeySet();

    private SocketMetrics() { }

    /** Have the gauge of all nodes together count this one's connections, too. */
    public static void add(NodeProcess node) {
        NODES.add(node);
        KafkaYammerMetrics.defaultRegistry().newGauge(
            new MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount"),
            new Gauge<Double>() {
                @Override
                public Double value() {
                    return NODES.stream().mapToDouble(one -> total(one, EXPIRED)).sum();
                }
            });
    }

    public static void remove(NodeProcess node) {
        NODES.remove(node);
    }

    /** The metrics of one node: these, and no others. */
    public static Metrics of(NodeProcess node) {
        Metrics made = new Metrics();
        for (String name : NAMES) {
            Measurable measured = (config, now) -> total(node, name);
            made.addMetric(made.metricName(name, GROUP), measured);
        }
        return made;
    }

    private static double total(NodeProcess node, String name) {
        return node.total("kafka_server_socket_server_metrics_" + name.replace('-', '_'));
    }
}
