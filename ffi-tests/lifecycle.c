/* Handles are made and freed in every order; what is stale or belongs to a dead engine says so. */
#include "check.h"

enum { CLIENT, PRODUCER, CONSUMER, BROKER, ENGINE, HANDLES };

struct all {
  kloop_engine *engine;
  kloop_client *client;
  kloop_producer *producer;
  kloop_consumer *consumer;
  kloop_broker *broker;
};

static struct all make(void) {
  struct all a;
  char address[64];
  a.engine = check_engine();
  a.broker = check_broker(a.engine, address, sizeof address);
  a.client = check_client(a.engine, address);
  a.producer = check_producer(a.client, NULL, 0);
  a.consumer = check_consumer(a.client, NULL, 0);
  return a;
}

static void release(struct all *a, int which) {
  switch (which) {
    case CLIENT: kloop_client_free(a->client); break;
    case PRODUCER: kloop_producer_free(a->producer); break;
    case CONSUMER: kloop_consumer_free(a->consumer); break;
    case BROKER: kloop_broker_free(a->broker); break;
    default: kloop_engine_free(a->engine); break;
  }
}

static void every_order(int *order, int at) {
  if (at == HANDLES) {
    struct all a = make();
    kloop_event events[8];
    int32_t n = kloop_poll(a.engine, events, 8, 0);
    CHECK(n >= 0);
    for (int i = 0; i < HANDLES; i++) release(&a, order[i]);
    return;
  }
  for (int i = at; i < HANDLES; i++) {
    int keep = order[at];
    order[at] = order[i], order[i] = keep;
    every_order(order, at + 1);
    keep = order[at];
    order[at] = order[i], order[i] = keep;
  }
}

static void a_dead_engine_says_so(void) {
  struct all a = make();
  kloop_event events[1];
  kloop_error err;
  kloop_tp tp = {0, 0, 0};
  kloop_engine_free(a.engine);
  kloop_engine_free(a.engine); /* its children still live, so this is known to be a repeat */
  CHECK_IS(kloop_poll(a.engine, events, 1, 0), KLOOP_E_CLOSED);
  CHECK_IS(kloop_produce(a.producer, NULL, 0), KLOOP_E_CLOSED);
  CHECK_IS(kloop_producer_flush(a.producer, 1), KLOOP_E_CLOSED);
  CHECK_IS(kloop_producer_close(a.producer, 0), KLOOP_E_CLOSED);
  CHECK_IS(kloop_consumer_assign(a.consumer, &tp, 1), KLOOP_E_CLOSED);
  CHECK_IS(kloop_consumer_close(a.consumer, 0), KLOOP_E_CLOSED);
  CHECK_IS(kloop_client_close(a.client, 0), KLOOP_E_CLOSED);
  CHECK_IS(kloop_broker_close(a.broker, 0), KLOOP_E_CLOSED);
  CHECK_IS(kloop_broker_address(a.broker, NULL, 0), KLOOP_E_CLOSED);
  kloop_engine_error(a.engine, &err);
  CHECK(err.code != 0 || err.msg[0] != 0);
  kloop_producer_free(a.producer);
  kloop_consumer_free(a.consumer);
  kloop_client_free(a.client);
  kloop_broker_free(a.broker);
}

/* A free gives nothing back, so that it was the second one is the engine's last error. The one before
 * is another, for this one to be told from it. */
static void check_a_second_free(struct all *a, int which) {
  kloop_error err;
  CHECK_IS(kloop_poll(a->engine, NULL, 1, 0), KLOOP_E_INVALID);
  release(a, which);
  kloop_engine_error(a->engine, &err);
  CHECK_IS(err.code, KLOOP_E_STALE);
}

static void a_freed_handle_is_stale(void) {
  struct all a = make();
  kloop_producer_free(a.producer);
  CHECK_IS(kloop_produce(a.producer, NULL, 0), KLOOP_E_STALE);
  check_a_second_free(&a, PRODUCER);
  kloop_client_free(a.client);
  CHECK_IS(kloop_client_close(a.client, 0), KLOOP_E_STALE);
  CHECK_IS(kloop_client_cancel(a.client, 1), KLOOP_E_STALE);
  check_a_second_free(&a, CLIENT);
  /* The client took its consumer with it; the handle is still the host's to free. */
  CHECK_IS(kloop_consumer_position(a.consumer, 0, 0), KLOOP_E_STALE);
  kloop_consumer_free(a.consumer);
  check_a_second_free(&a, CONSUMER);
  /* One type's handle is not another's. */
  CHECK_IS(kloop_produce((kloop_producer *)(void *)a.broker, NULL, 0), KLOOP_E_STALE);
  kloop_broker_free(a.broker);
  CHECK_IS(kloop_broker_disconnect(a.broker, 1), KLOOP_E_STALE);
  check_a_second_free(&a, BROKER);
  kloop_engine_free(a.engine);
}

/* What is freed while its grace runs ends at once. */
static void a_free_ends_the_grace(void) {
  const kloop_prop props[] = {{"linger.ms", "60000"}, {"delivery.timeout.ms", "120000"}};
  const int64_t hour = 3600000000000;
  char address[64];
  kloop_topic topic;
  kloop_event event;
  int delivered = 0;
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  kloop_producer *producer = check_producer(client, props, 2);
  CHECK_IS(kloop_client_topic(client, "grace", 5, &topic), KLOOP_OK);
  kloop_msg msg = check_msg(topic, "v", 1, 5);
  while (kloop_produce(producer, &msg, 1) == 0)
    if (kloop_poll(engine, &event, 1, 5000000000) == 1) kloop_release(engine, &event.lease, 1);
  kloop_broker_free(broker);
  CHECK_IS(kloop_producer_close(producer, hour), KLOOP_OK);
  kloop_producer_free(producer);
  while (kloop_poll(engine, &event, 1, 0) == 1) {
    if (event.type == KLOOP_EV_DELIVERED) delivered++;
    kloop_release(engine, &event.lease, 1);
  }
  CHECK_IS(delivered, 1);
  broker = check_broker(engine, address, sizeof address);
  CHECK_IS(kloop_broker_close(broker, hour), KLOOP_OK);
  CHECK_IS(kloop_broker_address(broker, address, sizeof address), KLOOP_E_CLOSED); /* listens no more */
  kloop_broker_free(broker);
  kloop_client_free(client);
  kloop_engine_free(engine);
}

static void handles_run_out_and_come_back(void) {
  kloop_engine_config cfg;
  kloop_engine *engine;
  kloop_client *client;
  kloop_producer *producers[3];
  kloop_conf conf;
  kloop_error err;
  CHECK_IS(kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.max_handles = 3;
  CHECK_IS(kloop_engine_new(&cfg, &engine, &err), KLOOP_OK);
  client = check_client(engine, "127.0.0.1:1");
  producers[0] = check_producer(client, NULL, 0);
  producers[1] = check_producer(client, NULL, 0);
  CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
  producers[2] = NULL;
  CHECK_IS(kloop_producer_new(client, &conf, &producers[2], &err), KLOOP_E_AGAIN);
  CHECK(producers[2] == NULL && err.code == KLOOP_E_AGAIN && err.msg[0] != 0);
  kloop_producer_free(producers[1]);
  producers[1] = check_producer(client, NULL, 0);
  for (int i = 0; i < 2; i++) kloop_producer_free(producers[i]);
  kloop_client_free(client);
  kloop_engine_free(engine);
}

static void bad_properties_are_named(void) {
  kloop_engine *engine = check_engine();
  kloop_client *client = NULL;
  kloop_broker *broker = NULL;
  kloop_conf conf;
  kloop_broker_conf broker_conf;
  kloop_error err;
  kloop_prop props[] = {{"bootstrap.servers", "127.0.0.1:1"}, {"bootstrap.sevrers", "x"}};
  CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
  conf.props = props;
  conf.prop_count = 2;
  CHECK_IS(kloop_client_new(engine, &conf, &client, &err), KLOOP_E_INVALID);
  CHECK(client == NULL && strstr(err.msg, "bootstrap.sevrers") != NULL);
  CHECK_IS(kloop_broker_conf_init(&broker_conf, sizeof broker_conf, KLOOP_ABI), KLOOP_OK);
  props[0].key = "num.partitions";
  props[0].value = "-3";
  broker_conf.props = props;
  broker_conf.prop_count = 1;
  CHECK_IS(kloop_broker_new(engine, &broker_conf, &broker, &err), KLOOP_E_INVALID);
  CHECK(broker == NULL && strstr(err.msg, "num.partitions") != NULL);
  CHECK(strstr(err.msg, "1 to 100000") != NULL);
  broker_conf.prop_count = 0;
  broker_conf.listen = "19402";
  CHECK_IS(kloop_broker_new(engine, &broker_conf, &broker, &err), KLOOP_E_INVALID);
  CHECK(broker == NULL && strstr(err.msg, "listen: ") == err.msg && strstr(err.msg, "HOST:PORT") != NULL);
  /* A config that its _init function has not seen, or a reserved field in use. */
  memset(&conf, 0, sizeof conf);
  CHECK_IS(kloop_client_new(engine, &conf, &client, &err), KLOOP_E_ABI);
  CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI + 1), KLOOP_E_ABI);
  CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
  conf.reserved0 = 1;
  CHECK_IS(kloop_client_new(engine, &conf, &client, &err), KLOOP_E_ABI);
  kloop_engine_free(engine);
}

int main(void) {
  int order[HANDLES] = {CLIENT, PRODUCER, CONSUMER, BROKER, ENGINE};
  CHECK_IS(kloop_version(), KLOOP_VERSION_NUM);
  every_order(order, 0);
  a_dead_engine_says_so();
  a_freed_handle_is_stale();
  a_free_ends_the_grace();
  handles_run_out_and_come_back();
  bad_properties_are_named();
  return 0;
}
