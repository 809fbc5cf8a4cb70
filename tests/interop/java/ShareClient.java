import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;

/**
 * Two share consumers of the Java client read a topic: accept, release, reject, and leave what is
 * given up in a dead letter topic; says what came of it, one fact per line. Arguments: bootstrap
 * servers, a name for everything.
 */
public class ShareClient {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";
    static final int RECORDS = 300;

    public static void main(String[] args) throws Exception {
        String servers = args[0];
        String name = args[1];
        String letters = "dlq." + name;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            NewTopic queue = new NewTopic(letters, 1, (short) 1)
                    .configs(Map.of("errors.deadletterqueue.group.enable", "true"));
            admin.createTopics(List.of(new NewTopic(name, 3, (short) 1), queue)).all().get();
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
            admin.incrementalAlterConfigs(Map.of(group, List.of(
                    set("share.auto.offset.reset", "earliest"),
                    set("errors.deadletterqueue.topic.name", letters),
                    set("errors.deadletterqueue.copy.record.enable", "true")))).all().get();
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of(
                "bootstrap.servers", servers,
                "key.serializer", STRINGS + "Serializer",
                "value.serializer", STRINGS + "Serializer"))) {
            for (int n = 0; n < RECORDS; n++) producer.send(new ProducerRecord<>(name, n % 3, "k" + n, "v" + n));
        }
        read(servers, name);
        readLetters(servers, letters);
    }

    static AlterConfigOp set(String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
    }

    static KafkaShareConsumer<String, String> consumer(String servers, String name, String mode) {
        return new KafkaShareConsumer<>(Map.of(
                "bootstrap.servers", servers,
                "group.id", name,
                "share.acknowledgement.mode", "explicit",
                "share.acquire.mode", mode,
                "max.poll.records", "20",
                "key.deserializer", STRINGS + "Deserializer",
                "value.deserializer", STRINGS + "Deserializer"));
    }

    /** Every tenth record is rejected, every seventh released once; the others are accepted. */
    static void read(String servers, String name) {
        Map<String, Integer> accepted = new TreeMap<>();
        TreeSet<String> rejected = new TreeSet<>();
        Map<String, Integer> released = new HashMap<>();
        List<Integer> counts = new ArrayList<>();
        int[] largest = {0};
        try (KafkaShareConsumer<String, String> a = consumer(servers, name, "batch_optimized");
                KafkaShareConsumer<String, String> b = consumer(servers, name, "record_limit")) {
            a.subscribe(List.of(name));
            b.subscribe(List.of(name));
            long deadline = System.currentTimeMillis() + 60_000;
            while (accepted.size() + rejected.size() < RECORDS && System.currentTimeMillis() < deadline) {
                for (KafkaShareConsumer<String, String> one : List.of(a, b)) {
                    ConsumerRecords<String, String> some = one.poll(Duration.ofMillis(500));
                    if (one == b) largest[0] = Math.max(largest[0], some.count());
                    for (ConsumerRecord<String, String> record : some) {
                        int n = Integer.parseInt(record.value().substring(1));
                        if (n % 10 == 0) {
                            one.acknowledge(record, AcknowledgeType.REJECT);
                            rejected.add(record.value());
                        } else if (n % 7 == 0 && released.putIfAbsent(record.value(), n) == null) {
                            one.acknowledge(record, AcknowledgeType.RELEASE);
                        } else {
                            one.acknowledge(record, AcknowledgeType.ACCEPT);
                            accepted.merge(record.value(), 1, Integer::sum);
                            if (n % 7 == 0) counts.add((int) (short) record.deliveryCount().orElse((short) -1));
                        }
                    }
                    one.commitSync().forEach((partition, error) -> error.ifPresent(e -> System.out.println("error " + e)));
                }
            }
        }
        boolean once = accepted.values().stream().allMatch(count -> count == 1);
        System.out.println("accepted " + accepted.size() + " once " + once);
        System.out.println("rejected " + rejected.size());
        System.out.println("released " + released.size() + " came again " + counts.stream().allMatch(c -> c == 2));
        System.out.println("limit kept " + (largest[0] > 0 && largest[0] <= 20));
    }

    static void readLetters(String servers, String letters) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Map.of(
                "bootstrap.servers", servers,
                "key.deserializer", STRINGS + "Deserializer",
                "value.deserializer", STRINGS + "Deserializer",
                "auto.offset.reset", "earliest"))) {
            TopicPartition partition = new TopicPartition(letters, 0);
            consumer.assign(List.of(partition));
            TreeSet<String> values = new TreeSet<>();
            TreeSet<String> texts = new TreeSet<>();
            long deadline = System.currentTimeMillis() + 30_000;
            while (values.size() < RECORDS / 10 && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    values.add(record.value());
                    for (Header header : record.headers())
                        if (header.key().endsWith(".message") || header.key().endsWith("delivery.count"))
                            texts.add(new String(header.value()));
                }
            }
            System.out.println("letters " + values.size() + " " + texts);
        }
    }
}
