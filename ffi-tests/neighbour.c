/* What a library must leave alone in somebody else's process: signals, descriptors, limits, locale,
 * errno, standard output; and what that process may do to it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SECOND = 1000000000, SIGNALS = 65, LIMITS = 10, DESCRIPTORS = 64 };

/* An engine with a broker and a client of it; sends `count` records and reads them back. */
typedef struct Whole {
  kloop_engine *engine;
  kloop_broker *broker;
  kloop_client *client;
  kloop_producer *producer;
  kloop_consumer *consumer;
  kloop_topic topic;
} Whole;

static Whole whole(void) {
  char address[64];
  Whole w;
  w.engine = check_engine();
  w.broker = check_broker(w.engine, address, sizeof address);
  w.client = check_client(w.engine, address);
  w.producer = check_producer(w.client, NULL, 0);
  w.consumer = check_consumer(w.client, NULL, 0);
  CHECK_IS(kloop_client_topic(w.client, "neighbour", 9, &w.topic), KLOOP_OK);
  kloop_tp from = {w.topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(w.consumer, &from, 1), KLOOP_OK);
  return w;
}

static void there_and_back(Whole *w, uint64_t count) {
  uint64_t given = 0, delivered = 0, seen = 0;
  while (delivered < count || seen < count) {
    kloop_event events[16];
    if (given < count) {
      kloop_msg msg = check_msg(w->topic, "value", 5, given);
      int32_t took = kloop_produce(w->producer, &msg, 1);
      CHECK(took >= 0);
      given += (uint64_t)took;
    }
    errno = 4711;
    int32_t n = kloop_poll(w->engine, events, 16, given < count ? 1000000 : 10LL * SECOND);
    CHECK(n >= 0);
    CHECK_IS(errno, 4711);
    for (int32_t i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_DELIVERED) {
        CHECK_IS(events[i].u.delivered.outcome, KLOOP_PERSISTED);
        delivered += events[i].u.delivered.count;
      } else if (events[i].type == KLOOP_EV_RECORDS) {
        seen += events[i].u.records.count;
      }
      kloop_release(w->engine, &events[i].lease, 1);
    }
  }
}

static void end(Whole *w) {
  kloop_engine_free(w->engine);
  kloop_consumer_free(w->consumer);
  kloop_producer_free(w->producer);
  kloop_client_free(w->client);
  kloop_broker_free(w->broker);
}

/* Waits for a child, which must have ended with status 0. */
static void reap(pid_t child) {
  int status;
  CHECK_IS(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

typedef struct Surroundings {
  void (*handlers[SIGNALS])(int);
  int flags[SIGNALS];
  struct rlimit limits[LIMITS];
  sigset_t blocked;
  mode_t mask;
  char locale[256];
} Surroundings;

static Surroundings look_around(void) {
  Surroundings s;
  memset(&s, 0, sizeof s);
  for (int i = 1; i < SIGNALS; i++) {
    struct sigaction action;
    if (sigaction(i, NULL, &action) != 0) continue;
    s.handlers[i] = action.sa_handler; /* what else stands there is not all filled in */
    s.flags[i] = action.sa_flags;
  }
  for (int i = 0; i < LIMITS; i++) getrlimit(i, &s.limits[i]);
  pthread_sigmask(SIG_BLOCK, NULL, &s.blocked);
  s.mask = umask(022);
  umask(s.mask);
  snprintf(s.locale, sizeof s.locale, "%s", setlocale(LC_ALL, NULL));
  return s;
}

static void nothing_around_changes(void) {
  Surroundings before = look_around();
  Whole w = whole();
  there_and_back(&w, 50);
  Surroundings during = look_around();
  end(&w);
  Surroundings after = look_around();
  CHECK(memcmp(&before, &during, sizeof before) == 0);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
}

static void nothing_is_printed(void) {
  int out = memfd_create("output", 0);
  CHECK(out >= 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    struct stat written;
    dup2(out, 1);
    dup2(out, 2);
    Whole w = whole();
    there_and_back(&w, 50);
    CHECK_IS(kloop_poll(NULL, NULL, 0, 0), KLOOP_E_INVALID);
    end(&w);
    CHECK_IS(fstat(out, &written), 0);
    _exit(written.st_size != 0);
  }
  reap(child);
  close(out);
}

static void exit_with_live_handles(void) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    Whole w = whole();
    there_and_back(&w, 50);
    exit(0);
  }
  reap(child);
}

static volatile sig_atomic_t ticks;
static kloop_waker *waker;

static void on_tick(int number) {
  (void)number;
  ticks++;
  errno = 1234;
  (void)!kloop_waker_post(waker, 1);
  if (errno != 1234) abort();
  errno = 4711;
}

static void signals_at_a_kilohertz(void) {
  struct sigaction action, old;
  struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  Whole w = whole();
  CHECK_IS(kloop_waker_new(w.engine, &waker), KLOOP_OK);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_tick; /* without SA_RESTART: every call that can be interrupted is */
  CHECK_IS(sigaction(SIGALRM, &action, &old), 0);
  CHECK_IS(setitimer(ITIMER_REAL, &every, NULL), 0);
  while (ticks < 200) there_and_back(&w, 200);
  CHECK_IS(setitimer(ITIMER_REAL, &never, NULL), 0);
  CHECK_IS(sigaction(SIGALRM, &old, NULL), 0);
  end(&w);
  kloop_waker_free(waker);
}

static void *one_engine(void *arg) {
  (void)arg;
  for (int i = 0; i < 3; i++) {
    Whole w = whole();
    there_and_back(&w, 500);
    end(&w);
  }
  return NULL;
}

static void engines_on_threads_of_their_own(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) CHECK_IS(pthread_create(&threads[i], NULL, one_engine, NULL), 0);
  for (int i = 0; i < 2; i++) CHECK_IS(pthread_join(threads[i], NULL), 0);
}

static int open_now(int open[DESCRIPTORS]) {
  int n = 0;
  DIR *folder = opendir("/proc/self/fd");
  struct dirent *entry;
  CHECK(folder != NULL);
  while ((entry = readdir(folder)) != NULL)
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder) && n < DESCRIPTORS)
      open[n++] = atoi(entry->d_name);
  closedir(folder);
  return n;
}

/* A host that closes a descriptor of the engine's by mistake, and then opens something else, which
 * gets its number: an error or silence, but no crash, no hang and no endless loop. */
static void descriptors_that_are_not_ours_any_more(void) {
  int before[DESCRIPTORS], during[DESCRIPTORS];
  int had = open_now(before);
  for (int which = 0;; which++) {
    Whole w = whole();
    there_and_back(&w, 20);
    int have = open_now(during), own = 0, victim = -1;
    for (int i = 0; i < have; i++) {
      int ours = 1;
      for (int j = 0; j < had; j++) ours &= during[i] != before[j];
      if (ours && own++ == which) victim = during[i];
    }
    fflush(NULL);
    pid_t child = victim < 0 ? 0 : fork();
    if (child > 0) {
      reap(child);
      end(&w);
      continue;
    }
    end(&w);
    if (victim < 0) {
      CHECK(which > 5);
      return;
    }
    /* A child may not use its parent's engine: it makes its own, whose descriptors have the same
     * numbers as those that it has just closed. */
    w = whole();
    there_and_back(&w, 20);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(dup2(null, victim) == victim);
    alarm(30);
    for (int i = 0; i < 50; i++) {
      kloop_event events[16];
      kloop_msg msg = check_msg(w.topic, "value", 5, 1);
      (void)!kloop_produce(w.producer, &msg, 1);
      int32_t n = kloop_poll(w.engine, events, 16, 1000000);
      for (int32_t k = 0; k < n; k++) kloop_release(w.engine, &events[k].lease, 1);
    }
    end(&w);
    _exit(0);
  }
}

int main(void) {
  nothing_around_changes();
  nothing_is_printed();
  exit_with_live_handles();
  signals_at_a_kilohertz();
  engines_on_threads_of_their_own();
  descriptors_that_are_not_ours_any_more();
  return 0;
}
