import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Utils;

/**
 * What Kafka's clients say of values of properties: for each line of input, which has a property and
 * a value as a JSON-like escaped text, parted by a tab, one line of output.
 *
 * <p>Three words, of the producer, the consumer and the admin client: {@code taken}, {@code refused},
 * or {@code -} where it has no such property. For bootstrap.servers, the hosts and ports that all
 * read from the value, as {@code host port} parted by commas, or {@code refused}.
 */
public final class ClientValuesOracle {
    private ClientValuesOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ConfigDef[] all = {
            ProducerConfig.configDef(), ConsumerConfig.configDef(), AdminClientConfig.configDef()
        };
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int tab = line.indexOf('\t');
            String key = line.substring(0, tab);
            String value = line.substring(tab + 1);
            if (key.equals("bootstrap.servers")) {
                out.println(servers(all[0], value));
                continue;
            }
            List<String> words = new ArrayList<>();
            for (ConfigDef definition : all) {
                ConfigDef.ConfigKey known = definition.configKeys().get(key);
                words.add(known == null ? "-" : judged(known, value) == null ? "refused" : "taken");
            }
            out.println(String.join(" ", words));
        }
        out.flush();
    }

    private static Object judged(ConfigDef.ConfigKey known, String value) {
        try {
            Object parsed = ConfigDef.parseType(known.name, value, known.type);
            if (known.validator != null) {
                known.validator.ensureValid(known.name, parsed);
            }
            return parsed == null ? "null" : parsed;
        } catch (ConfigException error) {
            return null;
        }
    }

    private static String servers(ConfigDef definition, String value) {
        ConfigDef.ConfigKey known = definition.configKeys().get("bootstrap.servers");
        Object parsed = judged(known, value);
        if (parsed == null) {
            return "refused";
        }
        List<String> found = new ArrayList<>();
        for (Object one : (List<?>) parsed) {
            String url = (String) one;
            if (url.isEmpty()) {
                continue;
            }
            try {
                String host = Utils.getHost(url);
                Integer port = Utils.getPort(url);
                if (host == null || port == null || port > 65535) {
                    return "refused";
                }
                found.add(host + " " + port);
            } catch (IllegalArgumentException error) {
                return "refused";
            }
        }
        return found.isEmpty() ? "refused" : String.join(",", found);
    }
}
