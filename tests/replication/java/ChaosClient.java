// Apache Kafka's own clients as a writer and a reader: what they do and are told goes to standard
// output, line by line, until standard input ends.
//   sent NUMBER | acknowledged NUMBER PARTITION OFFSET | read PARTITION OFFSET VALUE

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ChaosClient {
    private static final PrintStream OUT =
        new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true);
    private static volatile boolean stopping = false;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[1];
        String topic = arguments[2];
        int partitions = Integer.parseInt(arguments[3]);
        Thread stdin = new Thread(ChaosClient::waitForEnd);
        stdin.setDaemon(true);
        stdin.start();
        if (arguments[0].equals("write")) {
            write(bootstrap, topic, partitions, arguments[4], Long.parseLong(arguments[5]));
        } else {
            read(bootstrap, topic, partitions);
        }
    }

    private static void waitForEnd() {
        try {
            while (System.in.read() >= 0) { }
        } catch (java.io.IOException error) {
            // It has ended, too.
        }
        stopping = true;
    }

    private static synchronized void say(String line) {
        OUT.println(line);
    }

    private static void write(
        String bootstrap, String topic, int partitions, String name, long pauseMs
    ) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        properties.put("linger.ms", "1");
        properties.put("request.timeout.ms", "10000");
        properties.put("delivery.timeout.ms", "120000");
        properties.put("max.block.ms", "120000");
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int number = 0; !stopping; number++) {
                int sent = number;
                byte[] value = (name + " " + number).getBytes(StandardCharsets.UTF_8);
                say("sent " + number);
                producer.send(
                    new ProducerRecord<>(topic, number % partitions, null, value),
                    (where, error) -> {
                        if (error == null) {
                            say("acknowledged " + sent + " " + where.partition() + " "
                                + where.offset());
                        }
                    }
                );
                Thread.sleep(pauseMs);
            }
        }
    }

    private static void read(String bootstrap, String topic, int partitions) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none");
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(all);
            for (TopicPartition one : all) {
                consumer.seek(one, 0);
            }
            while (!stopping) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(100))) {
                    say("read " + one.partition() + " " + one.offset() + " "
                        + new String(one.value(), StandardCharsets.UTF_8));
                }
            }
        }
    }
}
