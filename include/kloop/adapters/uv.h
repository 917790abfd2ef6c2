/* kloop in a libuv loop: a poll handle on the engine's descriptor, and a prepare handle so that what
 * other handlers of the loop gave to kloop leaves in the same turn. Needs libuv 1.x, whose header
 * wants _GNU_SOURCE or gnu11 with a strict C compiler; header only.
 *
 *   kloop_uv k;
 *   kloop_uv_start(&k, loop, engine, on_event, on_error, ctx);    0, or libuv's error
 *   ...
 *   kloop_uv_stop(&k);                 no event after this, but for those of the running callback
 *   kloop_uv_close(&k, on_closed);     then the memory of `k` is yours again in on_closed
 *
 * Ownership: `k` is the caller's, must not move from start until on_closed, and may be zero-filled or
 * not. The engine stays the caller's: stop, then free the engine, not from within on_event. Closing
 * may come before or after that; libuv does not touch the descriptor any more once it is stopped.
 *
 * The engine must have its timer: not with KLOOP_ENGINE_NO_TIMERFD, whose deadlines nobody would see.
 *
 * Thread: the loop's, which must be the engine's (kloop_engine_take moves an engine).
 *
 * Events: on_event gets each event once. Its lease is given back when on_event returns; to keep it,
 * take the number and set `ev->lease = 0`, and call kloop_release yourself later.
 *
 * Errors: a negative status of kloop_poll stops the adapter and goes to on_error, if there is one;
 * the engine is of no use then. What uv_poll itself reports goes the same way, as KLOOP_E_IO.
 *
 * The prepare handle is not counted (uv_unref): the poll handle alone keeps the loop alive, until it
 * is stopped or the host unrefs it too. An engine with KLOOP_ENGINE_NO_AUTOWAKE needs the prepare
 * handle and works with it, as long as nothing is given to kloop in a later prepare handle. */
#ifndef KLOOP_ADAPTERS_UV_H
#define KLOOP_ADAPTERS_UV_H

#include <kloop.h>
#include <uv.h>

typedef struct kloop_uv kloop_uv;
typedef void (*kloop_uv_event_fn)(kloop_uv *k, kloop_event *ev);
typedef void (*kloop_uv_error_fn)(kloop_uv *k, kloop_status status);
typedef void (*kloop_uv_closed_fn)(kloop_uv *k);

enum { KLOOP_UV_EVENTS = 64 };

struct kloop_uv {
  void *ctx;       /* the caller's */
  kloop_engine *engine;
  uint32_t cap;    /* events taken at a time, 1 to KLOOP_UV_EVENTS; may be lowered after the start */
  /* Not for the caller. */
  uv_poll_t io;
  uv_prepare_t before;
  kloop_uv_event_fn on_event;
  kloop_uv_error_fn on_error;
  kloop_uv_closed_fn on_closed;
  int running, open;
};

/* Stops watching. May be called at any time, also in on_event and more than once. */
static inline void kloop_uv_stop(kloop_uv *k) {
  if (!k->running) return;
  k->running = 0;
  (void)uv_poll_stop(&k->io);
  (void)uv_prepare_stop(&k->before);
}

static inline void kloop_uv_pump_(kloop_uv *k) {
  kloop_event events[KLOOP_UV_EVENTS];
  kloop_lease back[KLOOP_UV_EVENTS];
  size_t held = 0;
  kloop_engine *engine = k->engine;
  uint32_t cap = k->cap < 1 ? 1 : k->cap > KLOOP_UV_EVENTS ? KLOOP_UV_EVENTS : k->cap;
  int32_t n = kloop_poll(engine, events, cap, 0);
  for (int32_t i = 0; i < n; i++) {
    k->on_event(k, &events[i]);
    if (events[i].lease) back[held++] = events[i].lease;
  }
  if (held) kloop_release(engine, back, held);
  if (n < 0) {
    kloop_uv_stop(k);
    if (k->on_error) k->on_error(k, n);
  }
}

static inline void kloop_uv_readable_(uv_poll_t *io, int status, int what) {
  kloop_uv *k = (kloop_uv *)io->data;
  (void)what;
  if (status >= 0) {
    kloop_uv_pump_(k);
    return;
  }
  kloop_uv_stop(k);
  if (k->on_error) k->on_error(k, KLOOP_E_IO);
}

static inline void kloop_uv_before_(uv_prepare_t *before) {
  kloop_uv *k = (kloop_uv *)before->data;
  /* One turn only: what it leaves keeps the descriptor readable, so that others get their turn. */
  if (kloop_engine_timeout(k->engine) == 0) kloop_uv_pump_(k);
}

/* Begins. On failure nothing is left behind and `k` need not be closed. */
static inline int kloop_uv_start(kloop_uv *k, uv_loop_t *loop, kloop_engine *engine,
                                 kloop_uv_event_fn on_event, kloop_uv_error_fn on_error, void *ctx) {
  int fd = kloop_engine_fd(engine), failed;
  k->running = 0; /* also where it cannot begin: closing is always allowed */
  k->open = 0;
  if (fd < 0) return UV_EINVAL;
  k->ctx = ctx;
  k->engine = engine;
  k->cap = KLOOP_UV_EVENTS;
  k->on_event = on_event;
  k->on_error = on_error;
  k->on_closed = NULL;
  failed = uv_poll_init(loop, &k->io, fd);
  if (failed) return failed; /* the handle is not the loop's yet */
  (void)uv_prepare_init(loop, &k->before); /* cannot fail, nor can the starts of a fresh handle */
  k->io.data = k->before.data = k;
  k->open = 2;
  (void)uv_prepare_start(&k->before, kloop_uv_before_);
  uv_unref((uv_handle_t *)&k->before);
  (void)uv_poll_start(&k->io, UV_READABLE, kloop_uv_readable_);
  k->running = 1;
  return 0;
}

static inline void kloop_uv_closed_(uv_handle_t *handle) {
  kloop_uv *k = (kloop_uv *)handle->data;
  if (--k->open == 0 && k->on_closed) k->on_closed(k);
}

/* Ends the handles; the loop calls on_closed, if given, in its next turn. Once for each start. */
static inline void kloop_uv_close(kloop_uv *k, kloop_uv_closed_fn on_closed) {
  kloop_uv_stop(k);
  k->on_closed = on_closed;
  uv_close((uv_handle_t *)&k->io, kloop_uv_closed_);
  uv_close((uv_handle_t *)&k->before, kloop_uv_closed_);
}

#endif
