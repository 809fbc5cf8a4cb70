import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

/**
 * Reads, builds and converts record batches of every format with Apache Kafka's own classes.
 *
 * <p>A line on standard input is one of
 *
 * <ul>
 *   <li>{@code READ blob}: the records in it, CRCs checked;
 *   <li>{@code BUILD magic codec type baseOffset appendTime records}: a blob of these records;
 *   <li>{@code DOWN magic firstOffset blob}: the blob in an older format.
 * </ul>
 *
 * <p>Blobs are in hexadecimal. A record is offset, timestamp, type of timestamp, key, value and
 * headers with commas between them; null is a minus, records end with semicolons. The answer is
 * {@code OK} and the result, {@code REFUSED} and the reason, or {@code NONE} where this release
 * cannot do it any more.
 */
public final class BatchOracle {
    private static final HexFormat HEX = HexFormat.of();

    private BatchOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ", -1)).replace('\n', ' '));
        }
        out.flush();
    }

    private static String answer(String[] words) throws Exception {
        try {
            switch (words[0]) {
                case "READ":
                    return "OK " + read(blob(words[1]));
                case "BUILD":
                    return "OK " + build(words);
                default:
                    return down(Byte.parseByte(words[1]), Long.parseLong(words[2]), blob(words[3]));
            }
        } catch (RuntimeException | Error error) {
            return "REFUSED " + error;
        }
    }

    private static ByteBuffer blob(String hex) {
        return ByteBuffer.wrap(HEX.parseHex(hex));
    }

    private static String read(ByteBuffer blob) {
        StringBuilder found = new StringBuilder();
        for (RecordBatch batch : MemoryRecords.readableRecords(blob).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                StringJoiner row = new StringJoiner(",", "", ";");
                row.add(Long.toString(record.offset()));
                row.add(Long.toString(record.timestamp()));
                row.add(Integer.toString(batch.timestampType().id));
                row.add(hex(record.key()));
                row.add(hex(record.value()));
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    row.add(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                    row.add(value == null ? "-" : HEX.formatHex(value));
                }
                found.append(row);
            }
        }
        return found.toString();
    }

    private static String build(String[] words) {
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(
                ByteBuffer.allocate(1 << 16),
                Byte.parseByte(words[1]),
                Compression.of(words[2]).build(),
                words[3].equals("1") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                Long.parseLong(words[4]),
                Long.parseLong(words[5]));
        for (String row : words[6].split(";")) {
            String[] parts = row.split(",", -1);
            Header[] headers = new Header[(parts.length - 5) / 2];
            for (int at = 0; at < headers.length; at++) {
                String key = new String(HEX.parseHex(parts[5 + 2 * at]), StandardCharsets.UTF_8);
                headers[at] = new RecordHeader(key, bytes(parts[6 + 2 * at]));
            }
            builder.appendWithOffset(
                Long.parseLong(parts[0]),
                Long.parseLong(parts[1]),
                bytes(parts[3]),
                bytes(parts[4]),
                headers);
        }
        return hex(builder.build().buffer());
    }

    /** Kafka 4 has lost this, so it is looked for by name. */
    private static String down(byte magic, long firstOffset, ByteBuffer blob) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(blob);
        for (Method method : MemoryRecords.class.getMethods()) {
            if (method.getName().equals("downConvert")) {
                try {
                    Object converted = method.invoke(records, magic, firstOffset, Time.SYSTEM);
                    Object made = converted.getClass().getMethod("records").invoke(converted);
                    return "OK " + hex(((MemoryRecords) made).buffer());
                } catch (InvocationTargetException error) {
                    throw (RuntimeException) error.getCause();
                }
            }
        }
        return "NONE";
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }

    private static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HEX.parseHex(hex);
    }
}
