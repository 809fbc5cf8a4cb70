package fencepost;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.PlaintextAuthenticationContext;
import org.apache.kafka.common.security.auth.SecurityProtocol;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

/** What a node's properties say of listeners' protocols, keys and logins, as a test's node has them. */
final class Secured {
    private static final String BUILDER = "principal.builder.class";
    private static final String JAAS = "sasl.jaas.config";
    private static final String MECHANISMS = "sasl.enabled.mechanisms";
    private final KafkaConfig config;
    private final Collection<Endpoint> endpoints;
    private final Path home;

    Secured(KafkaConfig config, Collection<Endpoint> endpoints, Path home) {
        this.config = config;
        this.endpoints = endpoints;
        this.home = home;
    }

    /** Whether every listener of the node and of its controllers is one of PLAINTEXT. */
    boolean isPlain() {
        return protocols().values().stream().allMatch(SecurityProtocol.PLAINTEXT::equals);
    }

    /** The protocol of each listener that the node has or connects to. */
    Map<String, SecurityProtocol> protocols() {
        Map<String, SecurityProtocol> found = new TreeMap<>();
        endpoints.forEach(one -> found.put(one.listener(), one.securityProtocol()));
        Map<ListenerName, SecurityProtocol> all =
            config.effectiveListenerSecurityProtocolMap();
        config.controllerListenerNames().forEach(name ->
            found.putIfAbsent(name, all.getOrDefault(new ListenerName(name), SecurityProtocol.PLAINTEXT)));
        return found;
    }

    /**
     * The principal that the test's builder gives to a client of each listener without a login, as
     * `listener=Type:name`. Where there are logins, its builder would need objects of Kafka's.
     */
    String principals() {
        String builder = String.valueOf(config.originals().getOrDefault(BUILDER, ""))
            .replaceFirst("^(class|interface) ", "");
        if (builder.isEmpty()) {
            return "";
        }
        if (protocols().values().stream().anyMatch(one -> one != SecurityProtocol.PLAINTEXT)) {
            throw new NotOffered("the config " + BUILDER);
        }
        try {
            KafkaPrincipalBuilder made = (KafkaPrincipalBuilder)
                Class.forName(builder).getDeclaredConstructor().newInstance();
            return endpoints.stream().map(one -> one.listener() + "=" + made.build(
                new PlaintextAuthenticationContext(InetAddress.getLoopbackAddress(), one.listener())))
                .collect(Collectors.joining(","));
        } catch (ReflectiveOperationException error) {
            throw new NotOffered("the config " + BUILDER);
        }
    }

    /** The configs of keys and logins; none where all listeners are of PLAINTEXT. */
    Map<String, String> properties() throws IOException {
        Map<String, String> values = new TreeMap<>();
        if (isPlain()) {
            return values;
        }
        config.originals().forEach((key, value) -> {
            if (value != null && isOfSecurity(key)) {
                values.put(key, text(value));
            }
        });
        for (String key : List.copyOf(values.keySet())) {
            if (key.endsWith("ssl.keystore.location") || key.endsWith("ssl.truststore.location")) {
                convert(values, key.substring(0, key.length() - "location".length()));
            }
        }
        addLoginModules(values);
        return values;
    }

    /** Whether it says something of keys and logins, and not which Java class does its work. */
    private static boolean isOfSecurity(String key) {
        return !key.endsWith("manager.algorithm") && (key.startsWith("ssl.") || key.startsWith("sasl.")
            || key.startsWith("listener.name.") && (key.contains(".ssl.") || key.contains(".sasl.")));
    }

    /** A value as a file has it. */
    static String text(Object value) {
        return value instanceof Password password ? password.value()
            : value instanceof Class<?> type ? type.getName()
            : value instanceof List<?> list ? list.stream().map(String::valueOf).collect(Collectors.joining(","))
            : value.toString();
    }

    /** Write a store of Java's own format anew as PKCS#12, which is what Fencepost reads. */
    private void convert(Map<String, String> values, String prefix) throws IOException {
        String type = values.getOrDefault(prefix + "type", "JKS");
        if (!type.equals("JKS")) {
            return;
        }
        boolean hasKeys = prefix.endsWith("keystore.");
        String keyPasswordKey = prefix.substring(0, prefix.length() - "keystore.".length()) + "key.password";
        char[] password = values.getOrDefault(prefix + "password", "").toCharArray();
        char[] keyPassword = hasKeys && values.containsKey(keyPasswordKey)
            ? values.get(keyPasswordKey).toCharArray() : password;
        Path file = Files.createTempFile(home, "store-", ".p12");
        try (InputStream in = Files.newInputStream(Path.of(values.get(prefix + "location")));
                OutputStream out = Files.newOutputStream(file)) {
            KeyStore from = KeyStore.getInstance("JKS");
            from.load(in, password);
            KeyStore to = KeyStore.getInstance("PKCS12");
            to.load(null, null);
            for (String alias : Collections.list(from.aliases())) {
                if (from.isKeyEntry(alias)) {
                    to.setKeyEntry(alias, from.getKey(alias, keyPassword), password, from.getCertificateChain(alias));
                } else {
                    to.setCertificateEntry(alias, from.getCertificate(alias));
                }
            }
            to.store(out, password);
        } catch (GeneralSecurityException error) {
            throw new IOException("a store that cannot be converted", error);
        }
        values.put(prefix + "location", file.toString());
        values.put(prefix + "type", "PKCS12");
        if (hasKeys) { // in the new store the key has the store's; left out, one without a prefix would count
            values.put(keyPasswordKey, new String(password));
        }
    }

    /** Kafka reads login modules from the JVM's file as well; here each stands in a config. */
    private void addLoginModules(Map<String, String> values) {
        Map<String, List<String>> needed = new LinkedHashMap<>();
        protocols().forEach((name, protocol) -> {
            if (protocol == SecurityProtocol.SASL_PLAINTEXT || protocol == SecurityProtocol.SASL_SSL) {
                needed.put(name, mechanisms(values, "listener.name." + name.toLowerCase(Locale.ROOT) + "."));
            }
        });
        needed.forEach((name, mechanisms) -> mechanisms.forEach(mechanism -> {
            if (mechanism.equals("GSSAPI")) {
                throw new NotOffered("Kerberos (GSSAPI)");
            }
            String key = "listener.name." + name.toLowerCase(Locale.ROOT) + "."
                + mechanism.toLowerCase(Locale.ROOT) + "." + JAAS;
            if (!values.containsKey(key)) {
                String module = loginModule(name, mechanism);
                if (module != null) {
                    values.put(key, module);
                }
            }
        }));
        values.remove(JAAS);
    }

    private List<String> mechanisms(Map<String, String> values, String prefix) {
        String enabled = values.getOrDefault(prefix + MECHANISMS, values.getOrDefault(MECHANISMS, "GSSAPI"));
        return List.of(enabled.split(",")).stream().map(String::strip).toList();
    }

    private static String loginModule(String listener, String mechanism) {
        Configuration file = Configuration.getConfiguration();
        AppConfigurationEntry[] entries =
            file.getAppConfigurationEntry(listener.toLowerCase(Locale.ROOT) + ".KafkaServer");
        if (entries == null) {
            entries = file.getAppConfigurationEntry("KafkaServer");
        }
        String family = mechanism.startsWith("SCRAM") ? "Scram" : mechanism.equals("PLAIN") ? "Plain" : "OAuth";
        for (AppConfigurationEntry entry : entries == null ? new AppConfigurationEntry[0] : entries) {
            String type = entry.getLoginModuleName();
            if (type.substring(type.lastIndexOf('.') + 1).startsWith(family)) {
                return type + " required" + entry.getOptions().entrySet().stream()
                    .map(option -> " " + option.getKey() + "=\""
                        + String.valueOf(option.getValue()).replace("\\", "\\\\").replace("\"", "\\\"") + "\"")
                    .sorted().collect(Collectors.joining()) + ";";
            }
        }
        return null;
    }
}
