package kafka.security.minikdc;

import fencepost.NotOffered;

import java.io.File;
import java.util.List;
import java.util.Properties;

/** In place of Kafka's class of this name, which harnesses of SASL name: Kerberos is not offered. */
public class MiniKdc {
    public MiniKdc(Properties config, File directory) {
        throw new NotOffered("Kerberos (GSSAPI)");
    }

    public static Properties createConfig() {
        return new Properties();
    }

    public void start() { }

    public void stop() { }

    public void createPrincipal(File keytab, List<String> principals) { }
}
