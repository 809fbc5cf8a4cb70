// A read-process-write chain by Apache Kafka's own clients, as exactly_once_chain.py has them:
//   ExactlyOnceChain SERVERS GROUP NAME SOURCE TARGET
// NAME is the transactional id; with "static-" before it, it is the group instance id, too.
// Every record of SOURCE is written to TARGET in transactions that take along the group's offsets.
// What can be aborted is, and the chain goes on from what is committed; the rest ends the process,
// and whoever started it starts it again.

import java.time.Duration;
import java.time.LocalTime;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ExactlyOnceChain {
    private static final String SESSION_TIMEOUT_MS = "6000";
    private static final String TRANSACTION_TIMEOUT_MS = "10000";
    /** A turn that takes longer ends the process, with its stacks in the log. */
    private static final long TURN_TIMEOUT_MS = 40_000;

    private static final AtomicLong turnBegan = new AtomicLong(now());

    public static void main(String[] arguments) {
        watchTurns();
        try (KafkaProducer<byte[], byte[]> producer = producer(arguments[0], arguments[2]);
                KafkaConsumer<byte[], byte[]> consumer = consumer(arguments[0], arguments[1], arguments[2])) {
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[3]));
            while (true) {
                turnBegan.set(now());
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(500));
                if (!found.isEmpty()) take(found, consumer, producer, arguments[4]);
            }
        } catch (KafkaException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void take(
        ConsumerRecords<byte[], byte[]> found,
        KafkaConsumer<byte[], byte[]> consumer,
        KafkaProducer<byte[], byte[]> producer,
        String target
    ) {
        try {
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> one : found)
                producer.send(new ProducerRecord<>(target, one.partition(), null, one.value()));
            producer.sendOffsetsToTransaction(found.nextOffsets(), consumer.groupMetadata());
            producer.commitTransaction();
            System.err.println(LocalTime.now() + " committed " + found.count());
        } catch (AuthorizationException | ApplicationRecoverableException error) {
            throw error;
        } catch (KafkaException error) {
            System.err.println(LocalTime.now() + " aborting because of " + error);
            producer.abortTransaction();
            goBack(consumer);
        }
    }

    private static void goBack(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition one : consumer.assignment()) {
            OffsetAndMetadata where = committed.get(one);
            if (where == null) consumer.seekToBeginning(List.of(one));
            else consumer.seek(one, where);
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String servers, String name) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("transactional.id", name);
        properties.put("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        return new KafkaProducer<>(properties);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(
        String servers, String group, String name
    ) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", group);
        if (name.startsWith("static-")) properties.put("group.instance.id", name);
        properties.put("session.timeout.ms", SESSION_TIMEOUT_MS);
        properties.put("isolation.level", "read_committed");
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("max.poll.records", "40");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return new KafkaConsumer<>(properties);
    }

    private static void watchTurns() {
        Thread watch = new Thread(() -> {
            while (now() - turnBegan.get() < TURN_TIMEOUT_MS) {
                try {
                    TimeUnit.MILLISECONDS.sleep(200);
                } catch (InterruptedException error) {
                    return;
                }
            }
            Thread.getAllStackTraces().forEach((thread, stack) -> {
                System.err.println(thread);
                for (StackTraceElement frame : stack) System.err.println("    at " + frame);
            });
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
    }

    private static long now() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
    }
}
