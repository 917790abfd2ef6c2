/* kloop in a libev loop: an io watcher on the engine's descriptor, and a prepare watcher so that what
 * other watchers gave to kloop leaves in the same turn. Needs libev 4; header only.
 *
 *   kloop_ev k;
 *   kloop_ev_start(&k, loop, engine, on_event, on_error, ctx);    0, or a kloop status
 *   ...
 *   kloop_ev_stop(&k);                 no event after this, but for those of the running callback
 *
 * Ownership: `k` is the caller's and must not move while it is started. The engine stays the
 * caller's: stop before you free it, since libev must not watch a closed descriptor, and free it
 * not from within on_event. After the stop the memory of `k` is yours again, but not inside of
 * on_event: the rest of the array still follows.
 *
 * The engine must have its timer: not with KLOOP_ENGINE_NO_TIMERFD, whose deadlines nobody would see.
 *
 * Thread: the loop's, which must be the engine's (kloop_engine_take moves an engine).
 *
 * Events: on_event gets each event once. Its lease is given back when on_event returns; to keep it,
 * take the number and set `ev->lease = 0`, and call kloop_release yourself later.
 *
 * Errors: a negative status of kloop_poll stops the adapter and goes to on_error, if there is one;
 * the engine is of no use then. What libev reports (EV_ERROR) goes the same way, as KLOOP_E_IO.
 *
 * The prepare watcher is not counted (ev_unref): the io watcher alone keeps ev_run going, until it is
 * stopped. An engine with KLOOP_ENGINE_NO_AUTOWAKE needs the prepare watcher and works with it; it
 * has the lowest priority, so that it runs behind the host's own. */
#ifndef KLOOP_ADAPTERS_EV_H
#define KLOOP_ADAPTERS_EV_H

#include <ev.h>
#include <kloop.h>

typedef struct kloop_ev kloop_ev;
typedef void (*kloop_ev_event_fn)(kloop_ev *k, kloop_event *ev);
typedef void (*kloop_ev_error_fn)(kloop_ev *k, kloop_status status);

enum { KLOOP_EV_EVENTS = 64 };

struct kloop_ev {
  void *ctx;       /* the caller's */
  kloop_engine *engine;
  uint32_t cap;    /* events taken at a time, 1 to KLOOP_EV_EVENTS; may be lowered after the start */
  struct ev_loop *loop;
  /* Not for the caller. */
  ev_io io;
  ev_prepare before;
  kloop_ev_event_fn on_event;
  kloop_ev_error_fn on_error;
  int running;
};

/* Stops watching. May be called at any time, also in on_event and more than once. */
static inline void kloop_ev_stop(kloop_ev *k) {
  if (!k->running) return;
  k->running = 0;
  ev_io_stop(k->loop, &k->io);
  ev_ref(k->loop);
  ev_prepare_stop(k->loop, &k->before);
}

static inline void kloop_ev_pump_(kloop_ev *k) {
  kloop_event events[KLOOP_EV_EVENTS];
  kloop_lease back[KLOOP_EV_EVENTS];
  size_t held = 0;
  kloop_engine *engine = k->engine;
  uint32_t cap = k->cap < 1 ? 1 : k->cap > KLOOP_EV_EVENTS ? KLOOP_EV_EVENTS : k->cap;
  int32_t n = kloop_poll(engine, events, cap, 0);
  for (int32_t i = 0; i < n; i++) {
    k->on_event(k, &events[i]);
    if (events[i].lease) back[held++] = events[i].lease;
  }
  if (held) kloop_release(engine, back, held);
  if (n < 0) {
    kloop_ev_stop(k);
    if (k->on_error) k->on_error(k, n);
  }
}

static inline void kloop_ev_readable_(struct ev_loop *loop, ev_io *io, int what) {
  kloop_ev *k = (kloop_ev *)io->data;
  (void)loop;
  if (!(what & EV_ERROR)) {
    kloop_ev_pump_(k);
    return;
  }
  kloop_ev_stop(k);
  if (k->on_error) k->on_error(k, KLOOP_E_IO);
}

static inline void kloop_ev_before_(struct ev_loop *loop, ev_prepare *before, int what) {
  kloop_ev *k = (kloop_ev *)before->data;
  (void)loop;
  (void)what;
  /* One turn only: what it leaves keeps the descriptor readable, so that others get their turn. */
  if (kloop_engine_timeout(k->engine) == 0) kloop_ev_pump_(k);
}

/* Begins. On failure nothing was started. */
static inline kloop_status kloop_ev_start(kloop_ev *k, struct ev_loop *loop, kloop_engine *engine,
                                          kloop_ev_event_fn on_event, kloop_ev_error_fn on_error,
                                          void *ctx) {
  int fd = kloop_engine_fd(engine);
  k->running = 0; /* also where it cannot begin: stopping is always allowed */
  if (fd < 0) return fd;
  k->ctx = ctx;
  k->engine = engine;
  k->cap = KLOOP_EV_EVENTS;
  k->loop = loop;
  k->on_event = on_event;
  k->on_error = on_error;
  ev_io_init(&k->io, kloop_ev_readable_, fd, EV_READ);
  ev_prepare_init(&k->before, kloop_ev_before_);
  ev_set_priority(&k->before, EV_MINPRI);
  k->io.data = k->before.data = k;
  ev_io_start(loop, &k->io);
  ev_prepare_start(loop, &k->before);
  ev_unref(loop);
  k->running = 1;
  return KLOOP_OK;
}

#endif
