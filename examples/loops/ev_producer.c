/* A producer in a libev loop: a timer of the program's own makes a record every millisecond.
 *
 *   build/loops/ev_producer BROKERS TOPIC [COUNT]      COUNT: 20
 */
#include <kloop/adapters/ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kloop_producer *producer;
static kloop_topic topic;
static ev_timer ticker;
static kloop_ev adapter;
static unsigned long count = 20, made, ended, lost;

static void die(const char *what, const char *why) {
  fprintf(stderr, "ev_producer: %s: %s\n", what, why);
  exit(1);
}

static void stop(void) {
  kloop_ev_stop(&adapter); /* the loop has nothing left: ev_run returns */
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int what) {
  char value[32];
  kloop_msg msg;
  (void)what;
  memset(&msg, 0, sizeof msg);
  msg.value.data = value;
  msg.value.len = (size_t)snprintf(value, sizeof value, "record %lu", made + 1);
  msg.topic = topic;
  msg.partition = KLOOP_PARTITION_ANY;
  int32_t took = kloop_produce(producer, &msg, 1); /* leaves in this turn of the loop */
  if (took < 0) die("produce", kloop_status_str(took));
  made += (unsigned long)took; /* 0: no room, or the topic is not known yet; the next tick tries again */
  if (made == count) ev_timer_stop(loop, timer);
}

static void on_event(kloop_ev *k, kloop_event *ev) {
  (void)k;
  if (ev->type == KLOOP_EV_ERROR) die("client", kloop_status_str(ev->status));
  if (ev->type != KLOOP_EV_DELIVERED) return;
  ended += ev->u.delivered.count;
  if (ev->u.delivered.outcome != KLOOP_PERSISTED) lost += ev->u.delivered.count;
  if (ended == count) stop();
}

static void on_error(kloop_ev *k, kloop_status status) {
  (void)k;
  die("poll", kloop_status_str(status));
}

int main(int argc, char **argv) {
  kloop_engine *engine;
  kloop_client *client;
  kloop_conf conf;
  kloop_error err;
  kloop_prop props[2] = {{"bootstrap.servers", NULL}, {"linger.ms", "5"}};
  if (argc < 3) die("usage", "ev_producer BROKERS TOPIC [COUNT]");
  if (argc > 3) count = strtoul(argv[3], NULL, 10);
  if (count == 0) die("usage", "COUNT is 1 and above");

  props[0].value = argv[1];
  if (kloop_engine_new(NULL, &engine, &err) != 0) die("engine", err.msg);
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("config", "ABI");
  conf.props = props;
  conf.prop_count = 1;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) die("client", err.msg);
  conf.props = props + 1;
  if (kloop_producer_new(client, &conf, &producer, &err) != 0) die("producer", err.msg);
  if (kloop_client_topic(client, argv[2], strlen(argv[2]), &topic) != 0) die("topic", argv[2]);

  struct ev_loop *loop = ev_default_loop(0);
  if (loop == NULL) die("loop", "libev finds no way to wait");
  if (kloop_ev_start(&adapter, loop, engine, on_event, on_error, NULL) != 0) die("loop", "refused");
  ev_timer_init(&ticker, on_tick, 0., 1e-3);
  ev_timer_start(loop, &ticker);
  ev_run(loop, 0);

  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_engine_free(engine);
  fprintf(stderr, "%lu records sent, %lu not persisted\n", ended, lost);
  return lost ? 1 : 0;
}
