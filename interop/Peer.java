// The Java client as a peer: one command of the matrix per run, or, with `-` as its only argument, many in
// one JVM (see interop/README.md).

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Peer {
  private static final HexFormat HEX = HexFormat.of();

  /** Where a command's output goes. */
  private interface Output {
    void out(CharSequence lines);

    void err(String line);
  }

  private static String field(byte[] data) {
    return data == null ? "-" : data.length == 0 ? "." : HEX.formatHex(data);
  }

  private static byte[] parseField(String text) {
    return text.equals("-") ? null : text.equals(".") ? new byte[0] : HEX.parseHex(text);
  }

  private static String line(ConsumerRecord<byte[], byte[]> record) {
    List<String> pairs = new ArrayList<>();
    for (Header header : record.headers()) pairs.add(header.key() + "=" + field(header.value()));
    String headers = pairs.isEmpty() ? "." : String.join(";", pairs);
    return field(record.key()) + " " + field(record.value()) + " " + headers;
  }

  private static ProducerRecord<byte[], byte[]> parse(String line, String topic, Integer partition) {
    String[] part = line.split(" ");
    List<Header> headers = new ArrayList<>();
    for (String pair : part[2].equals(".") ? new String[0] : part[2].split(";")) {
      int at = pair.lastIndexOf('=');
      headers.add(new RecordHeader(pair.substring(0, at), parseField(pair.substring(at + 1))));
    }
    Long timestamp = part.length > 3 ? Long.valueOf(part[3].substring(1)) : null;
    return new ProducerRecord<>(
        topic, partition, timestamp, parseField(part[0]), parseField(part[1]), headers);
  }

  private static Properties config(String brokers) {
    Properties config = new Properties();
    config.put("bootstrap.servers", brokers);
    return config;
  }

  private static void metadata(String brokers, Output to) throws Exception {
    try (Admin admin = Admin.create(config(brokers))) {
      for (var node : admin.describeCluster().nodes().get()) {
        to.out("broker " + node.id() + " " + node.host() + ":" + node.port() + "\n");
      }
      var topics = admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get();
      topics.forEach(
          (name, topic) -> to.out("topic " + name + " " + topic.partitions().size() + "\n"));
    }
  }

  private static void create(String brokers, String topic, String partitions, String[] settings)
      throws Exception {
    try (Admin admin = Admin.create(config(brokers))) {
      NewTopic wanted = new NewTopic(topic, Integer.parseInt(partitions), (short) 1);
      Map<String, String> configs = new HashMap<>();
      for (String one : settings) configs.put(one.split("=", 2)[0], one.split("=", 2)[1]);
      wanted.configs(configs);
      admin.createTopics(List.of(wanted)).all().get();
    }
  }

  private static void delete(String brokers, String topic) throws Exception {
    try (Admin admin = Admin.create(config(brokers))) {
      KafkaFuture<Void> done = admin.deleteTopics(List.of(topic)).all();
      done.get();
    }
  }

  private static KafkaProducer<byte[], byte[]> producer(
      String brokers, String acks, boolean idempotent, String codec) {
    Properties config = config(brokers);
    config.put("compression.type", codec);
    config.put("acks", acks);
    config.put("enable.idempotence", idempotent);
    config.put("max.block.ms", 20000);
    return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
  }

  /** Sends the records of a file and gives where each went. */
  private static List<RecordMetadata> produce(
      String brokers,
      String topic,
      String path,
      String acks,
      boolean idempotent,
      Integer partition,
      String codec)
      throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    List<RecordMetadata> done = new ArrayList<>();
    try (var producer = producer(brokers, acks, idempotent, codec);
        BufferedReader file = Files.newBufferedReader(Path.of(path))) {
      for (String line; (line = file.readLine()) != null; ) {
        sent.add(producer.send(parse(line, topic, partition)));
      }
      producer.flush();
      ExecutionException failed = null;
      for (var one : sent) {
        try {
          done.add(one.get());
        } catch (ExecutionException error) {
          // Only the record that is to blame has the broker's code, not the others of its batch.
          if (failed == null || error.getCause() instanceof ApiException) failed = error;
        }
      }
      if (failed != null) throw failed;
    }
    return done;
  }

  private static void consume(
      String brokers, String topic, int number, String start, int count, Output to) {
    Properties config = config(brokers);
    config.put("auto.offset.reset", "none");
    config.put("enable.auto.commit", false);
    config.put("allow.auto.create.topics", false);
    TopicPartition partition = new TopicPartition(topic, number);
    StringBuilder lines = new StringBuilder();
    try (var consumer =
        new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.assign(List.of(partition));
      if (start.equals("earliest")) {
        consumer.seekToBeginning(List.of(partition));
      } else if (start.equals("latest")) {
        consumer.seekToEnd(List.of(partition));
        consumer.position(partition);
        to.err("ready");
      } else if (start.startsWith("@")) {
        long millis = Long.parseLong(start.substring(1));
        consumer.seek(
            partition, consumer.offsetsForTimes(Map.of(partition, millis)).get(partition).offset());
      } else {
        consumer.seek(partition, Long.parseLong(start));
      }
      for (int got = 0; got < count; ) {
        for (var record : consumer.poll(Duration.ofMillis(500))) {
          if (got++ < count) lines.append(line(record)).append('\n');
        }
      }
    }
    to.out(lines);
  }

  /** Runs a command; gives its exit status. */
  private static int run(String[] a, Output to) {
    try {
      switch (a[0]) {
        case "metadata" -> metadata(a[1], to);
        case "create" -> create(a[1], a[2], a[3], Arrays.copyOfRange(a, 4, a.length));
        case "delete" -> delete(a[1], a[2]);
        case "produce" -> {
          Integer partition = a[6].equals("-") ? null : Integer.valueOf(a[6]);
          produce(a[1], a[2], a[3], a[4], a[5].equals("1"), partition, a[7]);
        }
        case "consume" ->
            consume(a[1], a[2], Integer.parseInt(a[3]), a[4], Integer.parseInt(a[5]), to);
        case "partition-of" -> {
          StringBuilder lines = new StringBuilder();
          for (RecordMetadata one : produce(a[1], a[2], a[3], "all", true, null, "none")) {
            lines.append(one.partition()).append('\n');
          }
          to.out(lines);
        }
        default -> throw new IllegalArgumentException("no command " + a[0]);
      }
      return 0;
    } catch (Exception error) {
      Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
      to.err(cause.toString());
      if (!(cause instanceof ApiException)) return 1;
      int code = Errors.forException(cause).code();
      if (code <= 0) return 1;
      to.err("refused " + code);
      return 3;
    }
  }

  /**
   * Each line of standard input is `ID TAB ARGUMENT TAB ARGUMENT…` and runs in a thread of its own. The
   * answers are lines `ID out LINE`, `ID err LINE` and at last `ID end STATUS`.
   */
  private static void serve(PrintStream out) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] part = line.split("\t");
      String id = part[0];
      Output to =
          new Output() {
            @Override
            public void out(CharSequence lines) {
              StringBuilder tagged = new StringBuilder();
              lines.toString().lines().forEach(l -> tagged.append(id).append(" out ").append(l).append('\n'));
              synchronized (out) {
                out.print(tagged);
                out.flush();
              }
            }

            @Override
            public void err(String text) {
              synchronized (out) {
                out.print(id + " err " + text.replace('\n', ' ') + "\n");
                out.flush();
              }
            }
          };
      Thread thread =
          new Thread(
              () -> {
                int status = run(Arrays.copyOfRange(part, 1, part.length), to);
                synchronized (out) {
                  out.print(id + " end " + status + "\n");
                  out.flush();
                }
              });
      thread.setDaemon(true);
      thread.start();
    }
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    if (args.length == 1 && args[0].equals("-")) {
      serve(out);
      return;
    }
    Output to =
        new Output() {
          @Override
          public void out(CharSequence lines) {
            out.print(lines);
            out.flush();
          }

          @Override
          public void err(String line) {
            System.err.println(line);
          }
        };
    System.exit(run(args, to));
  }
}
