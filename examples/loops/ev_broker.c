/* A Kafka broker in a libev loop, on the memory log.
 *
 *   build/loops/ev_broker [HOST:PORT]      127.0.0.1:9092; port 0 picks one
 *
 * Prints `listening on HOST:PORT`; SIGTERM and SIGINT close it in order. */
#include <kloop/adapters/ev.h>
#include <stdio.h>
#include <stdlib.h>

static kloop_broker *broker;
static ev_signal terminate, interrupt;
static kloop_ev adapter;

static void die(const char *what, const char *why) {
  fprintf(stderr, "ev_broker: %s: %s\n", what, why);
  exit(1);
}

static void on_signal(struct ev_loop *loop, ev_signal *signal, int what) {
  (void)loop;
  (void)signal;
  (void)what;
  kloop_broker_close(broker, 1000000000); /* KLOOP_EV_CLOSED follows */
}

static void on_event(kloop_ev *k, kloop_event *ev) {
  if (ev->type != KLOOP_EV_CLOSED) return;
  ev_signal_stop(k->loop, &terminate);
  ev_signal_stop(k->loop, &interrupt);
  kloop_ev_stop(k); /* the loop has nothing left: ev_run returns */
}

static void on_error(kloop_ev *k, kloop_status status) {
  (void)k;
  die("poll", kloop_status_str(status));
}

int main(int argc, char **argv) {
  kloop_engine *engine;
  kloop_broker_conf conf;
  kloop_error err;
  char address[64];
  if (kloop_engine_new(NULL, &engine, &err) != 0) die("engine", err.msg);
  if (kloop_broker_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("config", "ABI");
  conf.listen = argc > 1 ? argv[1] : "127.0.0.1:9092";
  if (kloop_broker_new(engine, &conf, &broker, &err) != 0) die("broker", err.msg);
  if (kloop_broker_address(broker, address, sizeof address) < 0) die("broker", "has no address");

  struct ev_loop *loop = ev_default_loop(0);
  if (loop == NULL) die("loop", "libev finds no way to wait");
  if (kloop_ev_start(&adapter, loop, engine, on_event, on_error, NULL) != 0) die("loop", "refused");
  ev_signal_init(&terminate, on_signal, SIGTERM);
  ev_signal_start(loop, &terminate);
  ev_signal_init(&interrupt, on_signal, SIGINT);
  ev_signal_start(loop, &interrupt);
  printf("listening on %s\n", address);
  fflush(stdout);
  ev_run(loop, 0);

  kloop_broker_free(broker);
  kloop_engine_free(engine);
  return 0;
}
