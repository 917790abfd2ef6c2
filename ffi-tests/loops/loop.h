/* What the conformance body asks of a loop. Each driver is one file with these functions; the body
 * is linked once with each of them. */
#ifndef LOOP_H
#define LOOP_H

#include "kloop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The body's: takes one event; the driver or its adapter gives the lease back afterwards. */
void take_event(const kloop_event *ev);
/* The body's: kloop_poll has failed. */
void poll_failed(kloop_status status);
/* The body's, for the drivers that poll by hand: one poll of at most `cap` events. */
void pump_once(kloop_engine *engine, uint32_t cap);

/* The driver's. `variant` is the loop's name: a driver may know several ways to watch. 0 if it does
 * not know it. */
int loop_begin(const char *variant, kloop_engine *engine, uint32_t cap);
/* Sleeps until something is to do, for `ms` milliseconds at most, and does it. */
void loop_turn(int ms);
/* Stops watching; the engine is freed next. Checks that nothing is left behind in the loop. */
void loop_end(void);
/* Of an adapter: stops it, also in take_event; whether it watches; and what only this adapter has to
 * show, with an engine that no loop watches. */
void loop_stop(void);
int loop_watches(void);
void loop_extra(kloop_engine *engine, kloop_waker *waker);

#ifdef __cplusplus
}
#endif

#endif
