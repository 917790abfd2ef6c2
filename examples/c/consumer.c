/* Prints the values of a topic's records, a line each, as they come.
 *
 *   build/consumer -b BROKERS -t TOPIC [-p PARTITION] [-o earliest|latest|OFFSET] [-e]
 *                  [-X KEY=VALUE]...
 *
 * It begins behind the last record (latest) unless -o says otherwise, and follows until SIGINT or
 * SIGTERM; with -e it ends at the partition's end. -X takes the properties of the client and of the
 * consumer; README.md lists them. The status is 0 after such an end, 1 if the partition cannot be
 * read on, 2 for a wrong call. */
#define _GNU_SOURCE
#define PROGRAM "consumer"
#define USAGE                                                                                 \
  "usage: consumer -b BROKERS -t TOPIC [-p PARTITION] [-o earliest|latest|OFFSET] [-e]\n"     \
  "                [-X KEY=VALUE]...\n"                                                       \
  "  -b BROKERS    HOST:PORT[,HOST:PORT]...\n"                                                \
  "  -t TOPIC      its records are printed, a line each\n"                                    \
  "  -p PARTITION  0 by default\n"                                                            \
  "  -o OFFSET     where to begin; latest, behind the last record, by default\n"              \
  "  -e            end at the partition's end\n"                                              \
  "  -X KEY=VALUE  a property of the client or the consumer\n"
#include "program.h"

enum { EVENTS = 64 };

static kloop_engine *engine;
static const char *topic;
static int stop_at_end, printed, done;

static _Noreturn void fail_at(int32_t partition, int64_t offset, const char *why) {
  if (partition < 0) die("topic %s: %s", topic, why);
  die("topic %s, partition %d, offset %lld: %s", topic, (int)partition, (long long)offset, why);
}

static void print_records(const kloop_event *ev) {
  kloop_cursor cursor;
  kloop_record records[64];
  int64_t next = ev->u.records.base_offset;
  int32_t n = kloop_records_open(engine, ev, &cursor);
  while (n == 0 && (n = kloop_records_read(&cursor, records, 64)) > 0) {
    for (int32_t i = 0; i < n; i++) {
      if (records[i].value.len) fwrite(records[i].value.data, 1, records[i].value.len, stdout);
      putchar('\n');
    }
    next = records[n - 1].offset + 1;
    n = 0;
  }
  if (n < 0) fail_at(ev->u.records.partition, next, reason(engine, n));
  printed = 1;
}

/* Why a partition stops, for who reads from it: the status alone does not say that a batch is meant. */
static const char *why_it_stops(kloop_status status) {
  switch (status) {
    case KLOOP_E_PROTOCOL: return "a batch that cannot be read; go on behind it with -o OFFSET";
    case KLOOP_E_TOO_LARGE: return "a batch larger than memory_limit allows (a quarter of it)";
    default: return kloop_status_str(status);
  }
}

static void on_event(const kloop_event *ev) {
  switch (ev->type) {
    case KLOOP_EV_RECORDS: print_records(ev); break;
    case KLOOP_EV_EOF: done |= stop_at_end; break;
    case KLOOP_EV_POSTED: done = 1; break;
    /* The log line before this has more: a batch's codec, what is damaged. */
    case KLOOP_EV_ERROR:
      fail_at(ev->u.error.partition, ev->u.error.offset, why_it_stops(ev->status));
    default: break;
  }
}

int main(int argc, char **argv) {
  struct props client_props = {.count = 0}, consumer_props = {.count = 0};
  const char *brokers = NULL;
  kloop_tp from = {0, 0, KLOOP_OFFSET_LATEST};
  add_prop(&consumer_props, "enable.partition.eof", "true");
  for (int i = 1; i < argc; i++) {
    if (is(argv[i], "--help")) {
      help();
    } else if (is(argv[i], "-e")) {
      stop_at_end = 1;
    } else if (is(argv[i], "-b")) {
      brokers = value_of(argv, &i);
    } else if (is(argv[i], "-t")) {
      topic = value_of(argv, &i);
    } else if (is(argv[i], "-p")) {
      from.partition = (int32_t)number("-p", value_of(argv, &i), 0, INT32_MAX);
    } else if (is(argv[i], "-o")) {
      char *value = value_of(argv, &i);
      if (is(value, "earliest"))
        from.offset = KLOOP_OFFSET_EARLIEST;
      else if (is(value, "latest"))
        from.offset = KLOOP_OFFSET_LATEST;
      else
        from.offset = number("-o, if neither earliest nor latest", value, 0, INT64_MAX);
    } else if (is(argv[i], "-X")) {
      char *key = value_of(argv, &i), *value = cut_pair("-X", key);
      add_prop(is_of_client(key) ? &client_props : &consumer_props, key, value);
    } else {
      unknown(argv[i]);
    }
  }
  if (brokers == NULL) usage("-b BROKERS is missing");
  if (topic == NULL) usage("-t TOPIC is missing");
  add_prop(&client_props, "bootstrap.servers", brokers);

  kloop_client *client;
  kloop_consumer *consumer;
  kloop_engine_config ec;
  kloop_conf conf;
  kloop_error err;
  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0 ||
      kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0)
    die("the library is older than this program");
  ec.log = write_log;
  if (kloop_engine_new(&ec, &engine, &err) != 0) die("%s", err.msg);
  signals_to(engine);
  conf.props = client_props.list;
  conf.prop_count = client_props.count;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) not_made(&err);
  conf.props = consumer_props.list;
  conf.prop_count = consumer_props.count;
  if (kloop_consumer_new(client, &conf, &consumer, &err) != 0) not_made(&err);
  kloop_status status = kloop_client_topic(client, topic, strlen(topic), &from.topic);
  if (status != 0) die("topic '%s': %s", topic, reason(engine, status));
  status = kloop_consumer_assign(consumer, &from, 1);
  if (status != 0) die("partition %d: %s", (int)from.partition, reason(engine, status));

  while (!done) {
    kloop_event events[EVENTS];
    int32_t n = kloop_poll(engine, events, EVENTS, -1);
    if (n < 0) die("poll: %s", reason(engine, n));
    for (int32_t i = 0; i < n; i++) {
      on_event(&events[i]);
      kloop_release(engine, &events[i].lease, 1);
    }
    /* Whoever reads from a pipe sees the records now, not when a buffer is full. */
    if (printed && fflush(stdout) != 0) die("standard output: %s", strerror(errno));
    printed = 0;
  }
  kloop_consumer_free(consumer);
  kloop_client_free(client);
  kloop_engine_free(engine);
  signals_off();
  return 0;
}
