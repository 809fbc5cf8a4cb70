import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One instance of a Kafka Streams application in a streams group (KIP-1071), until its standard input
 * ends. Arguments: bootstrap servers, application id, topology ("words" or "join"), state directory,
 * and then configs as key=value. The topics are called like the application, with "-in", "-table"
 * and "-out" behind.
 */
public class StreamsApplication {
    public static void main(String[] args) throws Exception {
        String name = args[1];
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", name);
        config.put("group.protocol", "streams");
        config.put("state.dir", args[3]);
        config.put("commit.interval.ms", "100");
        config.put("statestore.cache.max.bytes", "0");
        config.put("default.key.serde", Serdes.StringSerde.class.getName());
        config.put("default.value.serde", Serdes.StringSerde.class.getName());
        config.put("consumer.auto.offset.reset", "earliest");
        for (String one : Arrays.asList(args).subList(4, args.length)) {
            int at = one.indexOf('=');
            config.put(one.substring(0, at), one.substring(at + 1));
        }
        StreamsBuilder builder = new StreamsBuilder();
        if (args[2].equals("words")) countWords(builder, name);
        else join(builder, name);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> say("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            say("failed " + error);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                    .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close(Duration.ofSeconds(20));
        say("closed");
    }

    /** How often each word occurs: the words are partitioned again, and counted in a store. */
    static void countWords(StreamsBuilder builder, String name) {
        builder.stream(name + "-in", Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to(name + "-out", Produced.with(Serdes.String(), Serdes.String()));
    }

    /** Each value of the stream "key:rest" is partitioned by its key and joined with the table's. */
    static void join(StreamsBuilder builder, String name) {
        KTable<String, String> table =
                builder.table(name + "-table", Consumed.with(Serdes.String(), Serdes.String()));
        builder.stream(name + "-in", Consumed.with(Serdes.String(), Serdes.String()))
                .selectKey((key, value) -> value.split(":")[0])
                .join(
                        table,
                        (left, right) -> left + "=" + right,
                        Joined.with(Serdes.String(), Serdes.String(), Serdes.String()))
                .to(name + "-out", Produced.with(Serdes.String(), Serdes.String()));
    }

    static synchronized void say(String what) {
        System.out.println(what);
        System.out.flush();
    }
}
