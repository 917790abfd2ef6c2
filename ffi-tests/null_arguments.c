/* NULL, and other arguments that cannot be, into every parameter of every function: a status each
 * time, never a crash. */
#include "check.h"

static void without_any_handle(void) {
  kloop_engine_config ec;
  kloop_error err;
  CHECK_IS(kloop_engine_config_init(NULL, sizeof ec, KLOOP_ABI), KLOOP_E_INVALID);
  CHECK_IS(kloop_engine_config_init(&ec, 0, KLOOP_ABI), KLOOP_E_INVALID);
  CHECK_IS(kloop_engine_config_init(&ec, sizeof ec, 0), KLOOP_E_ABI);
  CHECK_IS(kloop_conf_init(NULL, sizeof(kloop_conf), KLOOP_ABI), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_conf_init(NULL, sizeof(kloop_broker_conf), KLOOP_ABI), KLOOP_E_INVALID);
  CHECK_IS(kloop_reactor_conf_init(NULL, sizeof(kloop_reactor_conf), KLOOP_ABI), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_start(NULL, NULL, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_start(NULL, NULL, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_stop(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_engine_new(NULL, NULL, &err), KLOOP_E_INVALID);
  CHECK(err.code == KLOOP_E_INVALID && err.msg[0] != 0);
  CHECK_IS(kloop_engine_new(NULL, NULL, NULL), KLOOP_E_INVALID);
  kloop_engine_free(NULL);
  CHECK_IS(kloop_engine_take(NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_engine_fd(NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_engine_timeout(NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_poll(NULL, NULL, 0, 0), KLOOP_E_INVALID);
  kloop_release(NULL, NULL, 0);
  kloop_engine_error(NULL, &err);
  CHECK_IS(err.code, KLOOP_E_INVALID);
  kloop_engine_error(NULL, NULL);
  CHECK_IS(kloop_engine_stats(NULL, NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_waker_new(NULL, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_waker_post(NULL, 1), KLOOP_E_INVALID);
  kloop_waker_free(NULL);
  CHECK(kloop_status_str(KLOOP_OK) != NULL && kloop_status_str(-123456)[0] != 0);
  CHECK(strcmp(kloop_status_str(3), "UNKNOWN_TOPIC_OR_PARTITION") == 0);
  CHECK_IS(kloop_status_flags(3), KLOOP_IS_BROKER | KLOOP_IS_RETRIABLE);
  CHECK_IS(kloop_status_flags(KLOOP_E_INVALID), KLOOP_IS_MISUSE);
  CHECK_IS(kloop_status_flags(KLOOP_E_POISONED), KLOOP_IS_FATAL);
  CHECK_IS(kloop_status_flags(0), 0);
  CHECK_IS(kloop_check_unwind(), KLOOP_E_PANIC);
  CHECK_IS(kloop_check_unwind(), KLOOP_E_PANIC);
  CHECK(strncmp(kloop_build_info(), "kloop ", 6) == 0 && strstr(kloop_build_info(), "\ncrates ") != NULL);
}

static void without_children(void) {
  kloop_tp tp = {0, 0, 0};
  CHECK_IS(kloop_client_new(NULL, NULL, NULL, NULL), KLOOP_E_INVALID);
  kloop_client_free(NULL);
  CHECK_IS(kloop_client_close(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_topic(NULL, "t", 1, NULL), KLOOP_E_INVALID);
  kloop_slice none = {NULL, 0};
  CHECK_IS(kloop_client_request(NULL, 0, 18, 0, none, 0, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_cancel(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_producer_new(NULL, NULL, NULL, NULL), KLOOP_E_INVALID);
  kloop_producer_free(NULL);
  CHECK_IS(kloop_produce(NULL, NULL, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_producer_flush(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_producer_close(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_new(NULL, NULL, NULL, NULL), KLOOP_E_INVALID);
  kloop_consumer_free(NULL);
  CHECK_IS(kloop_consumer_assign(NULL, &tp, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_assign_at(NULL, 0, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_pause(NULL, &tp, 1, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_position(NULL, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_close(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_open(NULL, NULL, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_read(NULL, NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_headers_read(NULL, 0, NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_new(NULL, NULL, NULL, NULL), KLOOP_E_INVALID);
  kloop_broker_free(NULL);
  CHECK_IS(kloop_broker_close(NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_address(NULL, NULL, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_adopt(NULL, -1, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_respond(NULL, 0, NULL, 0, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_disconnect(NULL, 0), KLOOP_E_INVALID);
}

static void with_handles(void) {
  char address[64], small[4];
  kloop_event events[2], bad;
  kloop_cursor cursor;
  kloop_topic topic;
  kloop_stats stats;
  kloop_error err;
  kloop_slice wrong = {NULL, 5};
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  kloop_producer *producer = check_producer(client, NULL, 0);
  kloop_consumer *consumer = check_consumer(client, NULL, 0);
  CHECK_IS(kloop_poll(engine, NULL, 1, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_poll(engine, events, 2, -2), KLOOP_E_INVALID);
  CHECK_IS(kloop_poll(engine, NULL, 0, 0), 0);
  CHECK_IS(kloop_engine_stats(engine, NULL, sizeof stats), KLOOP_E_INVALID);
  memset(&stats, 0x55, sizeof stats);
  CHECK_IS(kloop_engine_stats(engine, &stats, 8), KLOOP_OK);
  CHECK_IS(stats.events, 0x5555555555555555); /* behind the eight bytes nothing was written */
  kloop_lease stale[2] = {0, 0xffffffffffffffffu};
  kloop_release(engine, stale, 2);
  kloop_release(engine, NULL, 3);
  CHECK_IS(kloop_waker_new(engine, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_new(engine, NULL, NULL, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_topic(client, NULL, 3, &topic), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_topic(client, "\xff\xfe", 2, &topic), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_topic(client, "t", 1, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_client_request(client, -1, 18, 0, wrong, 0, NULL), KLOOP_E_INVALID);
  CHECK(kloop_client_cancel(client, 12345) < 0);
  CHECK_IS(kloop_produce(producer, NULL, 1), KLOOP_E_INVALID);
  kloop_msg msg = check_msg(9999, "v", 1, 0);
  CHECK_IS(kloop_produce(producer, &msg, 1), KLOOP_E_INVALID); /* a topic that is none */
  CHECK_IS(kloop_client_topic(client, "t", 1, &topic), KLOOP_OK);
  msg = check_msg(topic, NULL, 7, 0);
  CHECK_IS(kloop_produce(producer, &msg, 1), KLOOP_E_INVALID);
  msg = check_msg(topic, "v", 1, 0);
  msg.flags = 1;
  CHECK_IS(kloop_produce(producer, &msg, 1), KLOOP_E_ABI);
  kloop_header header = {{"h", 1}, {NULL, 3}};
  msg.flags = 0, msg.headers = &header, msg.header_count = 1;
  CHECK_IS(kloop_produce(producer, &msg, 1), KLOOP_E_INVALID); /* a header that cannot be */
  CHECK_IS(kloop_consumer_assign(consumer, NULL, 1), KLOOP_E_INVALID);
  kloop_tp tp = {topic, -5, 0};
  CHECK_IS(kloop_consumer_assign(consumer, &tp, 1), KLOOP_E_INVALID);
  tp.partition = 0, tp.offset = -7;
  CHECK_IS(kloop_consumer_assign(consumer, &tp, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_pause(consumer, NULL, 1, 1), KLOOP_E_INVALID);
  memset(&bad, 0, sizeof bad);
  CHECK_IS(kloop_records_open(engine, &bad, &cursor), KLOOP_E_INVALID);
  bad.type = KLOOP_EV_RECORDS;
  CHECK_IS(kloop_records_open(engine, &bad, &cursor), KLOOP_E_STALE);
  CHECK_IS(kloop_broker_address(broker, small, sizeof small), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_adopt(broker, -1, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_respond(broker, 77, NULL, 1, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_respond(broker, 77, NULL, 0, 0, 0), KLOOP_E_STALE);
  CHECK_IS(kloop_broker_respond(broker, 77, NULL, 0, 64, 0), KLOOP_E_ABI);
  CHECK_IS(kloop_broker_disconnect(broker, 77), KLOOP_E_STALE);
  kloop_engine_free(engine);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
}

/* NULL into what makes a handle, on parents that live. */
static void making(kloop_engine *engine, kloop_client *client) {
  kloop_conf conf;
  kloop_broker_conf broker_conf;
  kloop_error err;
  void *out = NULL;
  CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
  CHECK_IS(kloop_broker_conf_init(&broker_conf, sizeof broker_conf, KLOOP_ABI), KLOOP_OK);
  const kloop_prop fine[] = {{"bootstrap.servers", "127.0.0.1:1"}};
  conf.props = fine;
  conf.prop_count = 1;
  CHECK_IS(kloop_client_new(engine, NULL, (kloop_client **)&out, &err), KLOOP_E_INVALID);
  CHECK(err.code == KLOOP_E_INVALID && err.msg[0] != 0);
  CHECK_IS(kloop_client_new(engine, &conf, NULL, NULL), KLOOP_E_INVALID);
  conf.props = NULL;
  conf.prop_count = 0;
  CHECK_IS(kloop_producer_new(client, NULL, (kloop_producer **)&out, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_producer_new(client, &conf, NULL, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_new(client, NULL, (kloop_consumer **)&out, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_consumer_new(client, &conf, NULL, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_new(engine, NULL, (kloop_broker **)&out, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_new(engine, &broker_conf, NULL, &err), KLOOP_E_INVALID);
  broker_conf.host_api_words = 2;
  CHECK_IS(kloop_broker_new(engine, &broker_conf, (kloop_broker **)&out, &err), KLOOP_E_INVALID);
  CHECK(out == NULL);
}

/* Properties that are NULL: all of them with a count, one's name, one's value. */
static void properties(kloop_engine *engine, kloop_client *client) {
  const kloop_prop bad[] = {{NULL, "1"}, {"linger.ms", NULL}};
  kloop_conf conf;
  kloop_broker_conf broker_conf;
  kloop_error err;
  void *out = NULL;
  for (int i = -1; i < 2; i++) {
    CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
    CHECK_IS(kloop_broker_conf_init(&broker_conf, sizeof broker_conf, KLOOP_ABI), KLOOP_OK);
    conf.props = broker_conf.props = i < 0 ? NULL : &bad[i];
    conf.prop_count = broker_conf.prop_count = 1;
    CHECK_IS(kloop_client_new(engine, &conf, (kloop_client **)&out, &err), KLOOP_E_INVALID);
    CHECK_IS(kloop_producer_new(client, &conf, (kloop_producer **)&out, &err), KLOOP_E_INVALID);
    CHECK_IS(kloop_consumer_new(client, &conf, (kloop_consumer **)&out, NULL), KLOOP_E_INVALID);
    CHECK_IS(kloop_broker_new(engine, &broker_conf, (kloop_broker **)&out, &err), KLOOP_E_INVALID);
    CHECK(err.code == KLOOP_E_INVALID && err.msg[0] != 0);
    CHECK(out == NULL);
  }
}

/* NULL into what reads records, of an event that has some. */
static void reading(kloop_engine *engine, kloop_client *client) {
  kloop_topic topic;
  kloop_event event;
  kloop_cursor cursor;
  kloop_record record;
  kloop_header header = {{"name", 4}, {"value", 5}};
  kloop_producer *producer = check_producer(client, NULL, 0);
  kloop_consumer *consumer = check_consumer(client, NULL, 0);
  CHECK_IS(kloop_client_topic(client, "read", 4, &topic), KLOOP_OK);
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(consumer, &from, 1), KLOOP_OK);
  kloop_msg msg = check_msg(topic, "v", 1, 0);
  msg.header_count = 1;
  CHECK_IS(kloop_produce(producer, &msg, 1), KLOOP_E_INVALID); /* headers NULL with a count */
  msg.headers = &header;
  int32_t took;
  while ((took = kloop_produce(producer, &msg, 1)) == 0) {
    CHECK_IS(kloop_poll(engine, &event, 1, 10000000000), 1); /* until it is WRITABLE */
    kloop_release(engine, &event.lease, 1);
  }
  CHECK_IS(took, 1);
  for (event.type = 0; event.type != KLOOP_EV_RECORDS;) {
    if (event.type != 0) kloop_release(engine, &event.lease, 1);
    CHECK_IS(kloop_poll(engine, &event, 1, 10000000000), 1);
  }
  CHECK_IS(kloop_records_open(NULL, &event, &cursor), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_open(engine, NULL, &cursor), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_open(engine, &event, NULL), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_open(engine, &event, &cursor), KLOOP_OK);
  CHECK_IS(kloop_records_read(NULL, &record, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_read(&cursor, NULL, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_records_read(&cursor, NULL, 0), 0);
  CHECK_IS(kloop_records_read(&cursor, &record, 1), 1); /* nothing was lost by those */
  CHECK_IS(kloop_headers_read(NULL, 0, &header, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_headers_read(&record, 0, NULL, 1), KLOOP_E_INVALID);
  CHECK_IS(kloop_headers_read(&record, 0, NULL, 0), 0);
  CHECK_IS(kloop_headers_read(&record, 0, &header, 1), 1);
  CHECK(header.key.len == 4 && header.value.len == 5);
  kloop_release(engine, &event.lease, 1);
  CHECK_IS(kloop_records_read(&cursor, &record, 1), KLOOP_E_STALE);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
}

/* NULL into what starts a broker's threads, and into what takes their requests. */
static void threads(kloop_broker *broker) {
  kloop_reactor_conf conf;
  kloop_event event;
  kloop_error err;
  CHECK_IS(kloop_reactor_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
  CHECK_IS(kloop_broker_start(broker, NULL, &err), KLOOP_E_INVALID);
  CHECK(err.code == KLOOP_E_INVALID && err.msg[0] != 0);
  conf.cpu_count = 3; /* and no array of them */
  CHECK_IS(kloop_broker_start(broker, &conf, NULL), KLOOP_E_INVALID);
  conf.cpu_count = 0;
  CHECK_IS(kloop_broker_take(NULL, &event, 1, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_take(broker, &event, 1, 0), KLOOP_E_INVALID); /* not started */
  CHECK_IS(kloop_broker_start(broker, &conf, NULL), KLOOP_OK);
  CHECK_IS(kloop_broker_take(broker, NULL, 1, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_take(broker, &event, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_take(broker, &event, 1, 0), 0);
}

static void with_parents(void) {
  char address[64];
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  making(engine, client);
  properties(engine, client);
  reading(engine, client);
  kloop_broker *other = check_broker(engine, address, sizeof address);
  threads(other);
  kloop_broker_free(other);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

/* Sizes that no machine has are refused: a table that finds no memory would end the process. */
static void absurd_sizes(void) {
  for (int i = 0; i < 6; i++) {
    kloop_engine_config cfg;
    kloop_engine *engine = NULL;
    CHECK_IS(kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
    if (i == 0) cfg.max_conns = UINT32_MAX;
    if (i == 1) cfg.max_inflight = UINT32_MAX;
    if (i == 2) cfg.max_posts = UINT32_MAX;
    if (i == 3) cfg.max_handles = UINT32_MAX;
    if (i == 4) cfg.max_leases = UINT32_MAX;
    if (i == 5) cfg.memory_limit = (size_t)1 << 43;
    CHECK_IS(kloop_engine_new(&cfg, &engine, NULL), KLOOP_E_INVALID);
    CHECK(engine == NULL);
  }
}

int main(void) {
  absurd_sizes();
  without_any_handle();
  without_children();
  with_handles();
  with_parents();
  return 0;
}
