import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with the classes that Apache Kafka generates for itself, and writes them back.
 *
 * <p>A line on standard input is a class name, a version and the body in hexadecimal, with spaces
 * between them. The answer is one line: {@code OK}, the body as Kafka writes it, and what Kafka
 * took it for, as JSON; {@code REST} and the count of bytes that Kafka left over; {@code NONE} when
 * this release has no such class or version; {@code REFUSED} and the reason otherwise.
 */
public final class MessageOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message",
        "org.apache.kafka.common.metadata",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.share.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.raft.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated",
        "org.apache.kafka.storage.internals.generated",
    };

    private MessageOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            byte[] body = HexFormat.of().parseHex(words[2]);
            out.println(answer(words[0], Short.parseShort(words[1]), body).replace('\n', ' '));
        }
        out.flush();
    }

    private static String answer(String name, short version, byte[] body) throws Exception {
        Class<?> type = find(name);
        if (type == null) {
            return "NONE";
        }
        Message message = (Message) type.getConstructor().newInstance();
        if (version < message.lowestSupportedVersion()
                || version > message.highestSupportedVersion()) {
            return "NONE";
        }
        ByteBuffer buffer = ByteBuffer.wrap(body);
        try {
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "REST " + buffer.remaining();
            }
            return "OK "
                + HexFormat.of().formatHex(written(message, version))
                + " "
                + json(type, message, version);
        } catch (RuntimeException error) {
            return "REFUSED " + error;
        }
    }

    private static byte[] written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Class<?> find(String name) {
        for (String location : PACKAGES) {
            try {
                return Class.forName(location + "." + name);
            } catch (ClassNotFoundException error) {
                continue; // it may be in the next one
            }
        }
        return null;
    }

    private static String json(Class<?> type, Message message, short version) throws Exception {
        try {
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            return converter
                .getMethod("write", type, short.class)
                .invoke(null, message, version)
                .toString();
        } catch (InvocationTargetException error) {
            throw (RuntimeException) error.getCause();
        }
    }
}
