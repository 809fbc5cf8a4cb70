import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * What Apache Kafka's own classes know of configuration keys.
 *
 * <p>First one line for each key, in columns parted by tabs: table, name, type, default (or {@code
 * -} where there is none), {@code internal} or {@code -}, update mode, and what its validator says
 * of itself. Behind an empty line, one answer ({@code OK} or {@code REFUSED}) for each line of
 * standard input, which has a table, a name and a value, parted by tabs.
 */
public final class ConfigOracle {
    private ConfigOracle() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> tables = new TreeMap<>();
        tables.put("broker", AbstractKafkaConfig.CONFIG_DEF);
        tables.put("topic", topicKeys());
        tables.put("group", GroupConfig.CONFIG_DEF);
        Field metrics = ClientMetricsConfigs.class.getDeclaredField("CONFIG");
        metrics.setAccessible(true);
        tables.put("client-metrics", (ConfigDef) metrics.get(null));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (Map.Entry<String, ConfigDef> table : tables.entrySet()) {
            for (ConfigDef.ConfigKey key : new TreeMap<>(table.getValue().configKeys()).values()) {
                boolean isBroker = table.getKey().equals("broker");
                out.println(String.join("\t", table.getKey(), key.name, key.type.name(),
                    text(key), key.internalConfig ? "internal" : "-",
                    isBroker ? modes.getOrDefault(key.name, "read-only") : "-",
                    String.valueOf(key.validator).replace('\n', ' ').replace('\t', ' ')));
            }
        }
        out.println();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            ConfigDef.ConfigKey key = tables.get(words[0]).configKeys().get(words[1]);
            out.println(accepts(key, words[2]) ? "OK" : "REFUSED");
        }
        out.flush();
    }

    private static ConfigDef topicKeys() throws Exception {
        Field field = LogConfig.class.getDeclaredField("CONFIG");
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static String text(ConfigDef.ConfigKey key) {
        if (!key.hasDefault() || key.defaultValue == null) {
            return "-";
        }
        return ConfigDef.convertToString(key.defaultValue, key.type);
    }

    private static boolean accepts(ConfigDef.ConfigKey key, String text) {
        try {
            // It drops what a list has twice before it asks the validator.
            new ConfigDef().define(key).parse(Map.of(key.name, text));
            return true;
        } catch (ConfigException refused) {
            return false;
        }
    }
}
