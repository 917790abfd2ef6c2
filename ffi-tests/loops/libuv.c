/* libuv, by the adapter. */
#include <kloop/adapters/uv.h>
#include <string.h>

#include "check.h"
#include "loop.h"

static uv_loop_t loop;
static uv_timer_t limit;
static kloop_uv k;

static void on_event(kloop_uv *from, kloop_event *ev) {
  CHECK(from == &k);
  take_event(ev);
}
static void on_error(kloop_uv *from, kloop_status status) {
  (void)from;
  poll_failed(status);
}
static void on_limit(uv_timer_t *timer) { (void)timer; }

int loop_begin(const char *variant, kloop_engine *engine, uint32_t cap) {
  if (strncmp(variant, "libuv", 5) != 0) return 0;
  CHECK_IS(uv_loop_init(&loop), 0);
  CHECK_IS(uv_timer_init(&loop, &limit), 0);
  CHECK_IS(kloop_uv_start(&k, &loop, engine, on_event, on_error, NULL), 0);
  k.cap = cap;
  return 1;
}

void loop_turn(int ms) {
  uv_update_time(&loop);
  CHECK_IS(uv_timer_start(&limit, on_limit, (uint64_t)ms, 0), 0);
  uv_run(&loop, UV_RUN_ONCE);
}

static int closed;
static void on_closed(kloop_uv *from) {
  CHECK(from == &k);
  closed = 1;
}

void loop_end(void) {
  closed = 0;
  kloop_uv_stop(&k);
  kloop_uv_close(&k, on_closed);
  uv_close((uv_handle_t *)&limit, NULL);
  CHECK_IS(uv_run(&loop, UV_RUN_DEFAULT), 0);
  CHECK(closed);
  CHECK_IS(uv_loop_close(&loop), 0); /* says whether a handle was left behind */
}

void loop_stop(void) { kloop_uv_stop(&k); }
int loop_watches(void) { return k.running; }
void loop_extra(kloop_engine *engine, kloop_waker *waker) {
  (void)waker;
  kloop_uv not_started;
  kloop_engine_free(engine);
  /* Without an engine the start says so, and there is nothing to stop or close. */
  CHECK(kloop_uv_start(&not_started, uv_default_loop(), NULL, on_event, on_error, NULL) != 0);
}
