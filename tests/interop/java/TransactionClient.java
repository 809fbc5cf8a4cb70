import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Transactions of the Java client: writes, reads and writes again in transactions, is fenced; says
 * what came of each, one fact per line. Arguments: bootstrap servers, a name for everything.
 */
public class TransactionClient {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";
    static final int TRANSACTIONS = 6;

    public static void main(String[] args) throws Exception {
        String servers = args[0];
        String name = args[1];
        Map<String, Object> base = Map.of("bootstrap.servers", servers);
        try (Admin admin = Admin.create(base);
                KafkaProducer<String, String> producer = producer(base, name)) {
            admin.createTopics(List.of(new NewTopic(name, 3, (short) 1), new NewTopic(name + "-out", 2, (short) 1)))
                    .all()
                    .get();
            producer.initTransactions();
            for (int n = 0; n < TRANSACTIONS; n++) {
                producer.beginTransaction();
                for (int k = 0; k < 5; k++) producer.send(new ProducerRecord<>(name, k % 3, null, n + "-" + k));
                producer.flush();
                if (n % 2 == 0) producer.commitTransaction();
                else producer.abortTransaction();
            }
            process(base, name, producer);
            System.out.println("read " + String.join(" ", read(base, name + "-out", 15)));
            TransactionDescription described =
                    admin.describeTransactions(List.of(name)).description(name).get();
            System.out.println("state " + described.state());
            System.out.println("listed " + admin.listTransactions().all().get().stream()
                    .filter(one -> one.transactionalId().equals(name)).count());
            beFenced(base, name, producer);
        }
    }

    static KafkaProducer<String, String> producer(Map<String, Object> base, String name) {
        Map<String, Object> config = new HashMap<>(base);
        config.put("transactional.id", name);
        config.put("key.serializer", STRINGS + "Serializer");
        config.put("value.serializer", STRINGS + "Serializer");
        return new KafkaProducer<>(config);
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> base, String group) {
        Map<String, Object> config = new HashMap<>(base);
        config.put("group.id", group);
        config.put("isolation.level", "read_committed");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("key.deserializer", STRINGS + "Deserializer");
        config.put("value.deserializer", STRINGS + "Deserializer");
        return new KafkaConsumer<>(config);
    }

    /** Reads what is committed and writes it on, with its offsets, in transactions. */
    static void process(Map<String, Object> base, String name, KafkaProducer<String, String> producer) {
        int count = 0;
        try (KafkaConsumer<String, String> consumer = consumer(base, name)) {
            consumer.subscribe(List.of(name));
            while (count < 15) {
                ConsumerRecords<String, String> some = consumer.poll(Duration.ofMillis(200));
                if (some.isEmpty()) continue;
                producer.beginTransaction();
                for (ConsumerRecord<String, String> one : some) {
                    producer.send(new ProducerRecord<>(name + "-out", one.value()));
                    count++;
                }
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                for (TopicPartition one : some.partitions())
                    positions.put(one, new OffsetAndMetadata(consumer.position(one)));
                producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
                producer.commitTransaction();
            }
            Set<TopicPartition> all = new HashSet<>(consumer.assignment());
            boolean fits = consumer.committed(all).entrySet().stream()
                    .allMatch(one -> one.getValue().offset() == consumer.position(one.getKey()));
            System.out.println("offsets " + fits);
        }
    }

    static List<String> read(Map<String, Object> base, String topic, int count) {
        java.util.ArrayList<String> values = new java.util.ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(base, topic)) {
            consumer.subscribe(List.of(topic));
            while (values.size() < count)
                consumer.poll(Duration.ofMillis(200)).forEach(one -> values.add(one.value()));
        }
        java.util.Collections.sort(values);
        return values;
    }

    static void beFenced(Map<String, Object> base, String name, KafkaProducer<String, String> first) {
        first.beginTransaction();
        first.send(new ProducerRecord<>(name, 0, null, "zombie"));
        first.flush();
        try (KafkaProducer<String, String> second = producer(base, name)) {
            second.initTransactions();
            try {
                first.commitTransaction();
                System.out.println("fenced nobody");
            } catch (KafkaException error) {
                System.out.println("fenced " + error.getClass().getSimpleName());
            }
            second.beginTransaction();
            second.abortTransaction();
            second.beginTransaction();
            second.send(new ProducerRecord<>(name, 0, null, "second"));
            second.commitTransaction();
            System.out.println("second committed");
        }
    }
}
