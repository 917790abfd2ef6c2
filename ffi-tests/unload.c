/* The shared library is loaded and unloaded a thousand times, each time with an engine made, polled
 * and freed: nothing of it may be left to run at exit, on a thread's end or in a table of the system's.
 * Linked against the library like the others, but what it loads is a copy of its own. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>

#include "check.h"

enum { TIMES = 1000 };

#define LOADED(name) ((__typeof__(&name))(uintptr_t)found(library, #name))

static void *found(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(symbol != NULL);
  return symbol;
}

static void *once(void *arg) {
  (void)arg;
  kloop_engine_config cfg;
  kloop_engine *engine;
  kloop_event event;
  void *library = dlopen(KLOOP_SO, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  CHECK_IS(LOADED(kloop_engine_config_init)(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.memory_limit = 4u << 20;
  CHECK_IS(LOADED(kloop_engine_new)(&cfg, &engine, NULL), KLOOP_OK);
  CHECK_IS(LOADED(kloop_poll)(engine, &event, 1, 0), 0);
  LOADED(kloop_engine_free)(engine);
  CHECK_IS(dlclose(library), 0);
  return NULL;
}

static long peak_kib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

int main(void) {
  for (int i = 0; i < 20; i++) once(NULL);
  long before = peak_kib();
  for (int i = 0; i < TIMES; i++) {
    if (i % 10 == 0) {
      /* On a thread that ends behind it: what the thread's end runs must still be there. */
      pthread_t thread;
      CHECK_IS(pthread_create(&thread, NULL, once, NULL), 0);
      CHECK_IS(pthread_join(thread, NULL), 0);
    } else {
      once(NULL);
    }
  }
  long grown = peak_kib() - before;
  if (grown > 16 << 10) fprintf(stderr, "%ld KiB more\n", grown);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed for a while */
  CHECK(grown < 16 << 10);
#endif
  return 0;
}
