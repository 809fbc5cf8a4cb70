import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Charges clients with Apache Kafka's own quota managers, at the times that it is given.
 *
 * <p>A line on standard input is one of
 *
 * <ul>
 *   <li>{@code MANAGER type windows seconds}: a new one;
 *   <li>{@code QUOTA user client value}: sets a quota, or removes it with {@code -} as its value;
 *       {@code *} stands for a default, {@code -} for none;
 *   <li>{@code RECORD user client value ms}: the throttle time is printed;
 *   <li>{@code UNRECORD user client value ms};
 *   <li>{@code BURST user client}: the most for one window is printed.
 * </ul>
 */
public final class QuotaOracle {
    private QuotaOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ClientQuotaManager manager = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "MANAGER" -> {
                    if (manager != null) {
                        manager.shutdown();
                    }
                    manager = managerOf(words);
                }
                case "QUOTA" -> set(manager, words);
                case "RECORD" -> out.println(manager.maybeRecordAndGetThrottleTimeMs(
                    session(words[1]), words[2], Double.parseDouble(words[3]),
                    Long.parseLong(words[4])));
                case "UNRECORD" -> manager.unrecordQuotaSensor(
                    session(words[1]), words[2], Double.parseDouble(words[3]),
                    Long.parseLong(words[4]));
                case "BURST" ->
                    out.println(manager.maxValueInQuotaWindow(session(words[1]), words[2]));
                default -> throw new IllegalArgumentException(line);
            }
        }
        if (manager != null) {
            manager.shutdown();
        }
        out.flush();
    }

    private static ClientQuotaManager managerOf(String[] words) {
        QuotaType type = QuotaType.valueOf(words[1]);
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(
            Integer.parseInt(words[2]), Integer.parseInt(words[3]));
        Metrics metrics = new Metrics();
        return switch (type) {
            case REQUEST ->
                new ClientRequestQuotaManager(config, metrics, Time.SYSTEM, "", Optional.empty());
            case CONTROLLER_MUTATION -> new ControllerMutationQuotaManager(
                config, metrics, Time.SYSTEM, "", Optional.empty());
            default -> new ClientQuotaManager(config, metrics, type, Time.SYSTEM, "");
        };
    }

    private static Session session(String user) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user);
        return new Session(principal, InetAddress.getLoopbackAddress());
    }

    private static void set(ClientQuotaManager manager, String[] words) {
        Optional<ClientQuotaEntity.ConfigEntity> user = switch (words[1]) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
            default -> Optional.of(new ClientQuotaManager.UserEntity(words[1]));
        };
        Optional<ClientQuotaEntity.ConfigEntity> client = switch (words[2]) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
            default -> Optional.of(new ClientQuotaManager.ClientIdEntity(words[2]));
        };
        Optional<Quota> quota = words[3].equals("-")
            ? Optional.empty()
            : Optional.of(Quota.upperBound(Double.parseDouble(words[3])));
        manager.updateQuota(user, client, quota);
    }
}
