import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The roles of the benchmarks on Kafka's own client, a process each.
 *
 * Arguments are name=value; names with a dot go to the client. It prints "ready" when it is connected and warm, begins
 * when it reads a line, and prints "done", its processor time in nanoseconds and, of paced roles, the nanoseconds of
 * each message.
 */
public final class KafkaRoles {
    private static final String WARM_UP_TOPIC = "warm-up";
    private final Map<String, String> options = new HashMap<>();
    private final Properties settings = new Properties();
    private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    private long cpuAtStart;

    public static void main(String[] arguments) throws Exception {
        new KafkaRoles(arguments).run();
        System.exit(0);
    }

    private KafkaRoles(String[] arguments) {
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts[0].contains(".")) {
                settings.put(parts[0], parts[1]);
            } else {
                options.put(parts[0], parts[1]);
            }
        }
    }

    private void run() throws Exception {
        switch (options.get("role")) {
            case "produce" -> produce();
            case "consume" -> consume();
            case "produce_paced" -> producePaced();
            case "consume_stamped" -> consumeStamped();
            default -> throw new IllegalArgumentException(options.get("role"));
        }
    }

    private void produce() throws Exception {
        byte[][] bodies = bodies();
        byte[][] keys = keys();
        int count = number("count");
        String topic = options.get("topic");
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, WARM_UP_TOPIC, bodies, new byte[0][], number("warm_up"));
            producer.partitionsFor(topic);
            begin();
            send(producer, topic, bodies, keys, count);
            done("");
        }
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer, String topic, byte[][] bodies, byte[][] keys, int count) {
        AtomicLong acked = new AtomicLong();
        for (int index = 0; index < count; index++) {
            byte[] key = keys.length == 0 ? null : keys[index % keys.length];
            producer.send(new ProducerRecord<>(topic, key, bodies[index % bodies.length]), (metadata, error) -> {
                if (error == null) {
                    acked.incrementAndGet();
                }
            });
        }
        producer.flush();
        if (acked.get() != count) {
            throw new IllegalStateException(acked.get() + " of " + count + " messages were acknowledged");
        }
    }

    private void consume() throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            assign(consumer, WARM_UP_TOPIC);
            receive(consumer, number("warm_up"));
            assign(consumer, options.get("topic"));
            begin();
            receive(consumer, number("count"));
            done("");
        }
    }

    /** Commits after every poll without waiting, and at the end with. */
    private static void receive(KafkaConsumer<byte[], byte[]> consumer, int count) {
        int received = 0;
        while (received < count) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            for (ConsumerRecord<byte[], byte[]> record : records) {
                received += record.value() == null ? 0 : 1;
            }
            if (!records.isEmpty()) {
                consumer.commitAsync();
            }
        }
        consumer.commitSync();
    }

    private void producePaced() throws Exception {
        byte[][] bodies = bodies();
        int count = number("count");
        long interval = (long) (1e9 / Double.parseDouble(options.get("rate")));
        String topic = options.get("topic");
        StringBuilder took = new StringBuilder();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int index = 0; index < number("warm_up"); index++) {
                producer.send(new ProducerRecord<>(WARM_UP_TOPIC, bodies[index % bodies.length])).get();
            }
            producer.partitionsFor(topic);
            begin();
            long due = System.nanoTime();
            for (int index = 0; index < count; index++) {
                while (System.nanoTime() < due) {
                    LockSupport.parkNanos(due - System.nanoTime());
                }
                long begin = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, stamped(bodies[index % bodies.length], begin))).get();
                took.append(System.nanoTime() - begin).append(' ');
                due = Math.max(due + interval, System.nanoTime() - interval);
            }
            done(took.toString());
        }
    }

    /** System.nanoTime() is the monotonic clock, which all processes of a machine share. */
    private static byte[] stamped(byte[] body, long now) {
        byte[] copy = body.clone();
        ByteBuffer.wrap(copy).order(ByteOrder.LITTLE_ENDIAN).putLong(now);
        return copy;
    }

    private void consumeStamped() throws Exception {
        int count = number("count");
        StringBuilder ages = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            assign(consumer, WARM_UP_TOPIC);
            receive(consumer, number("warm_up"));
            assign(consumer, options.get("topic"));
            begin();
            for (int received = 0; received < count; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    long stamp = ByteBuffer.wrap(record.value()).order(ByteOrder.LITTLE_ENDIAN).getLong();
                    ages.append(System.nanoTime() - stamp).append(' ');
                    received++;
                }
            }
            done(ages.toString());
        }
    }

    private KafkaProducer<byte[], byte[]> producer() {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Every partition from its beginning, so that joining a group is not timed. */
    private static void assign(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        List<TopicPartition> partitions =
                consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        partitions.forEach(consumer::position);
    }

    /** The bodies, all of the same size, one after the other in a file. */
    private byte[][] bodies() throws Exception {
        byte[] data = Files.readAllBytes(Path.of(options.get("bodies")));
        int size = number("size");
        byte[][] bodies = new byte[data.length / size][];
        for (int index = 0; index < bodies.length; index++) {
            bodies[index] = java.util.Arrays.copyOfRange(data, index * size, (index + 1) * size);
        }
        return bodies;
    }

    private byte[][] keys() {
        byte[][] keys = new byte[number("keys")][];
        for (int index = 0; index < keys.length; index++) {
            keys[index] = ("key-" + index).getBytes(StandardCharsets.US_ASCII);
        }
        return keys;
    }

    private int number(String name) {
        return Integer.parseInt(options.getOrDefault(name, "0"));
    }

    private void begin() throws Exception {
        System.gc();
        System.out.println("ready");
        input.readLine();
        cpuAtStart = cpu();
    }

    private void done(String values) {
        System.out.println("done " + (cpu() - cpuAtStart) + " " + values);
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
