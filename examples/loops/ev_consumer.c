/* A consumer in a libev loop: prints the values of a topic's first partition from its beginning.
 *
 *   build/loops/ev_consumer BROKERS TOPIC [COUNT]      ends after COUNT records, or on SIGINT
 */
#include <kloop/adapters/ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ev_signal interrupt;
static kloop_ev adapter;
static unsigned long count, seen;
static int stopped;

static void die(const char *what, const char *why) {
  fprintf(stderr, "ev_consumer: %s: %s\n", what, why);
  exit(1);
}

static void stop(void) {
  if (stopped) return;
  stopped = 1;
  ev_signal_stop(adapter.loop, &interrupt);
  kloop_ev_stop(&adapter); /* the loop has nothing left: ev_run returns */
}

static void on_signal(struct ev_loop *loop, ev_signal *signal, int what) {
  (void)loop;
  (void)signal;
  (void)what;
  stop();
}

static void on_event(kloop_ev *k, kloop_event *ev) {
  kloop_cursor cursor;
  kloop_record record;
  int32_t n = 0;
  if (ev->type == KLOOP_EV_ERROR) die("consumer", kloop_status_str(ev->status));
  if (ev->type != KLOOP_EV_RECORDS || stopped) return;
  if (kloop_records_open(k->engine, ev, &cursor) != 0) die("records", "cannot be opened");
  while (!stopped && (n = kloop_records_read(&cursor, &record, 1)) > 0) {
    printf("%.*s\n", (int)record.value.len, record.value.len ? (const char *)record.value.data : "");
    if (++seen == count) stop();
  }
  if (n < 0) die("records", kloop_status_str(n));
}

static void on_error(kloop_ev *k, kloop_status status) {
  (void)k;
  die("poll", kloop_status_str(status));
}

int main(int argc, char **argv) {
  kloop_engine *engine;
  kloop_client *client;
  kloop_consumer *consumer;
  kloop_conf conf;
  kloop_error err;
  kloop_prop where = {"bootstrap.servers", NULL};
  kloop_tp from = {0, 0, KLOOP_OFFSET_EARLIEST};
  if (argc < 3) die("usage", "ev_consumer BROKERS TOPIC [COUNT]");
  if (argc > 3) count = strtoul(argv[3], NULL, 10);

  where.value = argv[1];
  if (kloop_engine_new(NULL, &engine, &err) != 0) die("engine", err.msg);
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("config", "ABI");
  conf.props = &where;
  conf.prop_count = 1;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) die("client", err.msg);
  conf.prop_count = 0;
  if (kloop_consumer_new(client, &conf, &consumer, &err) != 0) die("consumer", err.msg);
  if (kloop_client_topic(client, argv[2], strlen(argv[2]), &from.topic) != 0) die("topic", argv[2]);
  if (kloop_consumer_assign(consumer, &from, 1) != 0) die("assign", "refused");

  struct ev_loop *loop = ev_default_loop(0);
  if (loop == NULL) die("loop", "libev finds no way to wait");
  if (kloop_ev_start(&adapter, loop, engine, on_event, on_error, NULL) != 0) die("loop", "refused");
  ev_signal_init(&interrupt, on_signal, SIGINT);
  ev_signal_start(loop, &interrupt);
  ev_run(loop, 0);

  kloop_consumer_free(consumer);
  kloop_client_free(client);
  kloop_engine_free(engine);
  return 0;
}
