/* A Kafka broker in a libuv loop, on the memory log.
 *
 *   build/loops/uv_broker [HOST:PORT]      127.0.0.1:9092; port 0 picks one
 *
 * Prints `listening on HOST:PORT`; SIGTERM and SIGINT close it in order. */
#include <kloop/adapters/uv.h>
#include <stdio.h>
#include <stdlib.h>

static kloop_broker *broker;
static uv_signal_t terminate, interrupt;
static kloop_uv adapter;

static void die(const char *what, const char *why) {
  fprintf(stderr, "uv_broker: %s: %s\n", what, why);
  exit(1);
}

static void on_signal(uv_signal_t *handle, int number) {
  (void)handle;
  (void)number;
  kloop_broker_close(broker, 1000000000); /* KLOOP_EV_CLOSED follows */
}

static void on_event(kloop_uv *k, kloop_event *ev) {
  if (ev->type != KLOOP_EV_CLOSED) return;
  uv_close((uv_handle_t *)&terminate, NULL);
  uv_close((uv_handle_t *)&interrupt, NULL);
  kloop_uv_close(k, NULL); /* the loop has nothing left: uv_run returns */
}

static void on_error(kloop_uv *k, kloop_status status) {
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

  uv_loop_t *loop = uv_default_loop();
  if (kloop_uv_start(&adapter, loop, engine, on_event, on_error, NULL) != 0) die("loop", "refused");
  uv_signal_init(loop, &terminate);
  uv_signal_start(&terminate, on_signal, SIGTERM);
  uv_signal_init(loop, &interrupt);
  uv_signal_start(&interrupt, on_signal, SIGINT);
  printf("listening on %s\n", address);
  fflush(stdout);
  uv_run(loop, UV_RUN_DEFAULT);
  uv_loop_close(loop);

  kloop_broker_free(broker);
  kloop_engine_free(engine);
  return 0;
}
