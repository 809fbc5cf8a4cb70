import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Times the classes that Apache Kafka generates for its messages.
 *
 * <p>A line on standard input is a class, a version, the body in hexadecimal and for how many
 * milliseconds to work in each direction. The answer is nanoseconds per decode and per encode, as
 * two numbers. The first time a message is met it is read and written for a second beforehand, so
 * that the compiler is done with it. A message that comes out with other bytes ends the program.
 */
public final class MessageBench {
    private static final long WARM_NS = 1_000_000_000L;
    private static final Map<String, Subject> SUBJECTS = new HashMap<>();
    private static volatile Object last;

    private MessageBench() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String key = words[0] + " " + words[1] + " " + words[2];
            Subject subject = SUBJECTS.get(key);
            if (subject == null) {
                subject = new Subject(words[0], Short.parseShort(words[1]), words[2]);
                SUBJECTS.put(key, subject);
                subject.decodeFor(WARM_NS);
                subject.encodeFor(WARM_NS);
            }
            long budget = Long.parseLong(words[3]) * 1_000_000L;
            System.out.println(subject.decodeFor(budget) + " " + subject.encodeFor(budget));
        }
    }

    private static final class Subject {
        private final Class<?> type;
        private final short version;
        private final byte[] body;
        private final Message message;

        Subject(String name, short version, String hex) throws Exception {
            this.type = Class.forName("org.apache.kafka.common.message." + name);
            this.version = version;
            this.body = HexFormat.of().parseHex(hex);
            this.message = read();
            if (!Arrays.equals(write().array(), body)) {
                throw new IllegalStateException("Kafka writes " + name + " differently");
            }
        }

        Message read() throws Exception {
            Message fresh = (Message) type.getConstructor().newInstance();
            fresh.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), version);
            return fresh;
        }

        ByteBuffer write() {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            return buffer;
        }

        double decodeFor(long budget) throws Exception {
            long start = System.nanoTime();
            long passed = 0;
            long count = 0;
            while (passed < budget) {
                for (int i = 0; i < 16; i++) {
                    last = read(); // kept, so that it cannot be optimised away
                }
                count += 16;
                passed = System.nanoTime() - start;
            }
            return (double) passed / count;
        }

        double encodeFor(long budget) {
            long start = System.nanoTime();
            long passed = 0;
            long count = 0;
            while (passed < budget) {
                for (int i = 0; i < 16; i++) {
                    last = write();
                }
                count += 16;
                passed = System.nanoTime() - start;
            }
            return (double) passed / count;
        }
    }
}
