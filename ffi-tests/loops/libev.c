/* libev, by the adapter. */
#include <kloop/adapters/ev.h>
#include <string.h>

#include "check.h"
#include "loop.h"

static struct ev_loop *loop;
static ev_timer limit;
static kloop_ev k;

static void on_event(kloop_ev *from, kloop_event *ev) {
  CHECK(from == &k);
  take_event(ev);
}
static void on_error(kloop_ev *from, kloop_status status) {
  (void)from;
  poll_failed(status);
}
static void on_limit(struct ev_loop *l, ev_timer *timer, int what) {
  (void)l;
  (void)timer;
  (void)what;
}

int loop_begin(const char *variant, kloop_engine *engine, uint32_t cap) {
  if (strncmp(variant, "libev", 5) != 0) return 0;
  CHECK((loop = ev_loop_new(0)) != NULL);
  CHECK_IS(kloop_ev_start(&k, loop, engine, on_event, on_error, NULL), KLOOP_OK);
  k.cap = cap;
  limit.cb = on_limit;
  return 1;
}

void loop_turn(int ms) {
  ev_now_update(loop);
  ev_timer_set(&limit, ms / 1e3, 0.);
  ev_timer_start(loop, &limit);
  ev_run(loop, EVRUN_ONCE);
  ev_timer_stop(loop, &limit);
}

void loop_end(void) {
  kloop_ev_stop(&k);
  CHECK_IS(ev_run(loop, 0), 0); /* ends at once: nothing is left that counts */
  ev_loop_destroy(loop);
}

void loop_stop(void) { kloop_ev_stop(&k); }
int loop_watches(void) { return k.running; }
void loop_extra(kloop_engine *engine, kloop_waker *waker) {
  (void)waker;
  kloop_ev not_started;
  kloop_engine_free(engine);
  /* Without an engine the start says so, and there is nothing to stop or close. */
  CHECK(kloop_ev_start(&not_started, ev_default_loop(0), NULL, on_event, on_error, NULL) != 0);
}
