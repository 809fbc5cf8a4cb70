import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/**
 * A member of a consumer group by Kafka's own client that says what it has and what it reads.
 *
 * <p>Arguments: bootstrap servers, group, topic (or a regular expression after "~"), protocol
 * ("classic" or "consumer"), and configs as KEY=VALUE. It leaves when its standard input ends; a line
 * "halt" there ends it without a word to the broker. Lines: see reader/main.go.
 */
public class GroupReader {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("group.protocol", args[3]);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "200");
        String serde = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        config.put("key.deserializer", serde);
        config.put("value.deserializer", serde);
        if (args[3].equals("classic")) {
            config.put("heartbeat.interval.ms", "300");
            config.put(
                    "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        } else {
            config.put("group.remote.assignor", "range");
        }
        for (int at = 4; at < args.length; at++) {
            String[] pair = args[at].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config);
        listenTo(consumer);
        Teller teller = new Teller(consumer);
        if (args[2].startsWith("~")) consumer.subscribe(new SubscriptionPattern(args[2].substring(1)), teller);
        else consumer.subscribe(List.of(args[2]), teller);
        try {
            while (true) {
                boolean any = false;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    say("r " + record.partition() + " " + record.offset());
                    any = true;
                }
                if (any) consumer.commitAsync();
            }
        } catch (WakeupException wanted) {
            // its standard input has ended
        } catch (RuntimeException error) {
            say("error " + error);
        }
        try {
            consumer.close();
        } catch (RuntimeException error) {
            say("error " + error);
        }
        say("left");
    }

    static void listenTo(KafkaConsumer<byte[], byte[]> consumer) {
        Thread thread = new Thread(() -> {
            try {
                StringBuilder line = new StringBuilder();
                for (int read = System.in.read(); read >= 0; read = System.in.read()) {
                    line.append((char) read);
                    if (line.toString().equals("halt\n")) Runtime.getRuntime().halt(0);
                }
            } catch (java.io.IOException gone) {
                // the same as its end
            }
            consumer.wakeup();
        });
        thread.setDaemon(true);
        thread.start();
    }

    static synchronized void say(String what) {
        Instant now = Instant.now();
        System.out.println(now.getEpochSecond() * 1_000_000_000L + now.getNano() + " " + what);
        System.out.flush();
    }

    record Teller(KafkaConsumer<byte[], byte[]> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            for (TopicPartition one : partitions) say("+ " + one.partition());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                try {
                    consumer.commitSync();
                } catch (WakeupException again) {
                    consumer.commitSync();
                    consumer.wakeup();
                } catch (RuntimeException error) {
                    say("error " + error);
                }
            }
            for (TopicPartition one : partitions) say("- " + one.partition());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            for (TopicPartition one : partitions) say("- " + one.partition());
        }
    }
}
