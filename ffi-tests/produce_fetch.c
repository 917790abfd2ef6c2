/* Records there and back through a broker of the same engine, with event arrays of 1, 7 and 64:
 * keys, headers, null and empty values, tokens, offsets; and leases that go stale. */
#include "check.h"

enum { RECORDS = 500 };

struct seen {
  uint64_t delivered, records, wrong, flushed, writable, ready;
};

static void check_record(const kloop_record *record, struct seen *seen) {
  char key[32], value[64];
  uint64_t i = seen->records++;
  kloop_header headers[4];
  int key_len = snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
  int value_len = snprintf(value, sizeof value, "value-%llu", (unsigned long long)i);
  CHECK_IS(record->offset, i);
  CHECK_IS(record->timestamp_ms, 1000 + i);
  CHECK(record->key.len == (size_t)key_len && memcmp(record->key.data, key, record->key.len) == 0);
  if (i % 10 == 3) {
    CHECK(record->value.data == NULL); /* null */
  } else if (i % 10 == 4) {
    CHECK(record->value.data != NULL && record->value.len == 0); /* empty, not null */
  } else {
    CHECK(record->value.len == (size_t)value_len);
    CHECK(memcmp(record->value.data, value, record->value.len) == 0);
  }
  CHECK_IS(record->header_count, i % 3);
  CHECK_IS(kloop_headers_read(record, 0, headers, 4), i % 3);
  if (i % 3 == 2) {
    CHECK(headers[0].key.len == 1 && *(const char *)headers[0].key.data == 'a');
    CHECK(headers[0].value.len == 3 && memcmp(headers[0].value.data, "one", 3) == 0);
    CHECK(headers[1].value.data == NULL);
    CHECK_IS(kloop_headers_read(record, 1, headers, 4), 1);
    CHECK(headers[0].key.len == 1 && *(const char *)headers[0].key.data == 'a');
  }
}

/* It gives nothing back, so what is wrong with it is the engine's last error. The one before is another,
 * for this one to be told from it. */
static void check_a_second_release(kloop_engine *engine, kloop_lease lease) {
  kloop_error err;
  CHECK_IS(kloop_poll(engine, NULL, 1, 0), KLOOP_E_INVALID);
  kloop_release(engine, &lease, 1);
  kloop_engine_error(engine, &err);
  CHECK_IS(err.code, KLOOP_E_STALE);
}

static void on_event(kloop_engine *engine, const kloop_event *ev, struct seen *seen) {
  kloop_cursor cursor;
  kloop_record records[5];
  int32_t n;
  switch (ev->type) {
    case KLOOP_EV_READY: CHECK_IS(ev->owner, 2); seen->ready = 1; break;
    case KLOOP_EV_WRITABLE: CHECK_IS(ev->owner, 3); seen->writable++; break;
    case KLOOP_EV_FLUSHED: CHECK_IS(ev->user, 77); seen->flushed++; break;
    case KLOOP_EV_DELIVERED:
      CHECK_IS(ev->owner, 3);
      CHECK_IS(ev->status, 0);
      CHECK_IS(ev->u.delivered.outcome, KLOOP_PERSISTED);
      CHECK_IS(ev->u.delivered.base_offset, seen->delivered);
      for (uint32_t i = 0; i < ev->u.delivered.count; i++)
        CHECK_IS(ev->u.delivered.users[i], 5000 + seen->delivered++);
      break;
    case KLOOP_EV_RECORDS:
      CHECK_IS(ev->owner, 4);
      CHECK_IS(ev->u.records.base_offset, seen->records);
      CHECK_IS(kloop_records_open(engine, ev, &cursor), KLOOP_OK);
      uint64_t before = seen->records;
      while ((n = kloop_records_read(&cursor, records, 5)) > 0)
        for (int32_t i = 0; i < n; i++) check_record(&records[i], seen);
      CHECK_IS(n, 0);
      CHECK_IS(seen->records - before, ev->u.records.count);
      kloop_release(engine, &ev->lease, 1);
      CHECK_IS(kloop_records_open(engine, ev, &cursor), KLOOP_E_STALE);
      check_a_second_release(engine, ev->lease);
      break;
    default: fprintf(stderr, "event %u, status %d\n", ev->type, ev->status); exit(1);
  }
}

static void turn(kloop_engine *engine, uint32_t cap, struct seen *seen) {
  kloop_event events[64];
  int32_t n = kloop_poll(engine, events, cap, 5000000000);
  CHECK(n > 0);
  for (int32_t i = 0; i < n; i++) {
    on_event(engine, &events[i], seen);
    kloop_release(engine, &events[i].lease, 1);
    kloop_release(engine, &events[i].lease, 1); /* twice is ignored */
  }
}

static void produce(kloop_engine *engine, kloop_producer *producer, kloop_topic topic, uint32_t cap,
                    struct seen *seen) {
  kloop_header headers[2] = {{{"a", 1}, {"one", 3}}, {{"a", 1}, {NULL, 0}}};
  for (uint64_t i = 0; i < RECORDS; i++) {
    char key[32], value[64];
    kloop_msg msg = check_msg(topic, value, 0, 5000 + i);
    msg.key.data = key;
    msg.key.len = (size_t)snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
    msg.value.len = (size_t)snprintf(value, sizeof value, "value-%llu", (unsigned long long)i);
    if (i % 10 == 3) msg.value.data = NULL, msg.value.len = 0;
    if (i % 10 == 4) msg.value.len = 0;
    msg.headers = headers;
    msg.header_count = i % 3;
    msg.timestamp_ms = 1000 + (int64_t)i;
    for (;;) {
      uint64_t before = seen->writable;
      int32_t took = kloop_produce(producer, &msg, 1);
      CHECK(took >= 0);
      if (took == 1) break;
      while (seen->writable == before) turn(engine, cap, seen);
    }
  }
}

static void there_and_back(uint32_t cap) {
  char address[64];
  struct seen seen;
  kloop_topic topic;
  kloop_stats stats;
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  const kloop_prop props[] = {{"linger.ms", "1"}, {"batch.size", "2000"}};
  kloop_producer *producer = check_producer(client, props, 2);
  kloop_consumer *consumer = check_consumer(client, NULL, 0);
  memset(&seen, 0, sizeof seen);
  CHECK_IS(kloop_client_topic(client, "there-and-back", 14, &topic), KLOOP_OK);
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(consumer, &from, 1), KLOOP_OK);
  produce(engine, producer, topic, cap, &seen);
  CHECK_IS(kloop_producer_flush(producer, 77), KLOOP_OK);
  while (seen.delivered < RECORDS || seen.records < RECORDS || !seen.flushed) turn(engine, cap, &seen);
  CHECK_IS(seen.delivered, RECORDS);
  CHECK_IS(seen.records, RECORDS);
  CHECK_IS(kloop_consumer_position(consumer, topic, 0), RECORDS);
  CHECK_IS(kloop_consumer_position(consumer, topic, 7), KLOOP_E_INVALID); /* not assigned */
  kloop_tp two[2] = {from, {topic, 7, 0}};
  CHECK_IS(kloop_consumer_pause(consumer, two, 2, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_pause(consumer, &from, 1, 1), KLOOP_OK);
  CHECK_IS(kloop_engine_stats(engine, &stats, sizeof stats), KLOOP_OK);
  CHECK_IS(stats.leases, 0);
  CHECK(stats.bytes_in > 0 && stats.bytes_in == stats.bytes_out);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

/* Kafka's codes are positive: as what kloop_produce returns they would be counts. */
static void a_refused_topic_is_no_count(void) {
  char address[64];
  kloop_topic topic;
  kloop_error err;
  kloop_event event;
  int32_t took;
  kloop_engine *engine = check_engine();
  const kloop_prop broker_props[] = {{"log.memory.bytes", "8388608"}, {"auto.create.topics.enable", "false"}};
  kloop_broker_conf cfg;
  kloop_broker *broker;
  CHECK_IS(kloop_broker_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.listen = "127.0.0.1:0";
  cfg.props = broker_props;
  cfg.prop_count = 2;
  CHECK_IS(kloop_broker_new(engine, &cfg, &broker, NULL), KLOOP_OK);
  CHECK(kloop_broker_address(broker, address, sizeof address) > 0);
  kloop_client *client = check_client(engine, address);
  const kloop_prop props[] = {{"max.block.ms", "0"}};
  kloop_producer *producer = check_producer(client, props, 1);
  CHECK_IS(kloop_client_topic(client, "nowhere", 7, &topic), KLOOP_OK);
  kloop_msg msg[4];
  for (int i = 0; i < 4; i++) msg[i] = check_msg(topic, "v", 1, 1);
  while ((took = kloop_produce(producer, msg, 4)) == 0)
    if (kloop_poll(engine, &event, 1, 5000000000) == 1) kloop_release(engine, &event.lease, 1);
  CHECK_IS(took, KLOOP_E_REFUSED);
  kloop_engine_error(engine, &err);
  CHECK_IS(err.code, 3); /* UNKNOWN_TOPIC_OR_PARTITION */
  kloop_engine_free(engine);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
}

int main(void) {
  a_refused_topic_is_no_count();
  there_and_back(64);
  there_and_back(7);
  there_and_back(1);
  return 0;
}
