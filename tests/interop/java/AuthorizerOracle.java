import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * What Kafka's own authorizer decides. A line of input is one of
 *   new SUPER_USERS(or -) ALLOW_EVERYONE
 *   acl TYPE NAME PATTERN OPERATION PRINCIPAL HOST PERMISSION
 *   ask PRINCIPAL HOST OPERATION TYPE NAME
 *   any PRINCIPAL HOST OPERATION TYPE
 * with tabs between, and codes for what has one; each of the last two prints true or false.
 */
public class AuthorizerOracle {
    record Client(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return "oracle"; }
        public int correlationId() { return 1; }
    }

    static StandardAuthorizer made;
    static Map<Uuid, StandardAcl> acls = new HashMap<>();
    static boolean isLoaded;

    static void load() {
        if (!isLoaded) {
            made.loadSnapshot(acls);
            made.completeInitialLoad();
            isLoaded = true;
        }
    }

    static Client client(String principal, String host) throws Exception {
        String[] parts = principal.split(":", 2);
        return new Client(new KafkaPrincipal(parts[0], parts[1]), InetAddress.getByName(host));
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "off");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            AuthorizationResult result = null;
            switch (words[0]) {
                case "new" -> {
                    made = new StandardAuthorizer();
                    made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    Map<String, Object> config = new HashMap<>();
                    if (!words[1].equals("-")) config.put("super.users", words[1]);
                    config.put("allow.everyone.if.no.acl.found", words[2]);
                    config.put("node.id", "1");
                    made.configure(config);
                    acls = new HashMap<>();
                    isLoaded = false;
                }
                case "acl" -> acls.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(words[1])), words[2],
                    PatternType.fromCode(Byte.parseByte(words[3])), words[5], words[6],
                    AclOperation.fromCode(Byte.parseByte(words[4])),
                    AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                case "ask" -> {
                    load();
                    Action action = new Action(
                        AclOperation.fromCode(Byte.parseByte(words[3])),
                        new ResourcePattern(ResourceType.fromCode(Byte.parseByte(words[4])),
                            words[5], PatternType.LITERAL), 1, true, true);
                    result = made.authorize(client(words[1], words[2]), List.of(action)).get(0);
                }
                case "any" -> {
                    load();
                    result = made.authorizeByResourceType(client(words[1], words[2]),
                        AclOperation.fromCode(Byte.parseByte(words[3])),
                        ResourceType.fromCode(Byte.parseByte(words[4])));
                }
                default -> throw new IllegalArgumentException(line);
            }
            if (result != null) answers.append(result == AuthorizationResult.ALLOWED).append("\n");
        }
        System.out.print(answers);
    }
}
