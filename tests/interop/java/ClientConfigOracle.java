import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** What Kafka's own client classes know of properties: one line each, name and type, by tabs. */
public final class ClientConfigOracle {
    private ClientConfigOracle() {}

    public static void main(String[] arguments) {
        TreeMap<String, String> found = new TreeMap<>();
        ConfigDef[] all = {
            ProducerConfig.configDef(), ConsumerConfig.configDef(), AdminClientConfig.configDef()
        };
        for (ConfigDef definition : all) {
            for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
                found.put(key.name, key.type.name());
            }
        }
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        found.forEach((name, type) -> out.println(name + "\t" + type));
        out.flush();
    }
}
