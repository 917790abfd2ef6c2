/* The loops that a host writes itself: epoll, poll, select; epoll with edges, on a dup, and
 * both; and lazy ones, which look at kloop_engine_timeout before they wait. */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "check.h"
#include "loop.h"

static kloop_engine *engine;
static uint32_t cap;
static int fd, copy = -1, epoll = -1, edges, lazy, with_select;

int loop_begin(const char *variant, kloop_engine *e, uint32_t events) {
  int with_epoll = strncmp(variant, "epoll", 5) == 0;
  with_select = strncmp(variant, "select", 6) == 0;
  if (!with_epoll && !with_select && strncmp(variant, "poll", 4) != 0) return 0;
  edges = strstr(variant, "-edge") != NULL;
  lazy = strstr(variant, "-lazy") != NULL;
  engine = e;
  cap = events;
  fd = kloop_engine_fd(e);
  CHECK(fd >= 0);
  if (strstr(variant, "-dup")) CHECK((fd = copy = dup(fd)) >= 0);
  if (with_epoll) {
    struct epoll_event watch;
    memset(&watch, 0, sizeof watch);
    watch.events = EPOLLIN | (edges ? (uint32_t)EPOLLET : 0);
    CHECK((epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    CHECK_IS(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &watch), 0);
  }
  return 1;
}

static int readable(int ms) {
  if (epoll >= 0) {
    struct epoll_event ready;
    return epoll_wait(epoll, &ready, 1, ms) > 0;
  }
  if (with_select) {
    struct timeval time = {ms / 1000, ms % 1000 * 1000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, &time) > 0;
  }
  struct pollfd watch = {.fd = fd, .events = POLLIN};
  return poll(&watch, 1, ms) > 0;
}

void loop_turn(int ms) {
  if (lazy) {
    int64_t left = kloop_engine_timeout(engine);
    if (left >= 0 && left < ms * (int64_t)1000000) {
      readable((int)((left + 999999) / 1000000));
      pump_once(engine, cap);
      return;
    }
  }
  if (!readable(ms)) return;
  /* An edge comes once: poll until there is nothing left to do. */
  do pump_once(engine, cap);
  while (edges && kloop_engine_timeout(engine) == 0);
}

void loop_end(void) {
  if (epoll >= 0) close(epoll);
  if (copy >= 0) close(copy);
  epoll = copy = -1;
}

/* There is no adapter. */
void loop_stop(void) {}
int loop_watches(void) { return 0; }
void loop_extra(kloop_engine *e, kloop_waker *waker) {
  (void)e;
  (void)waker;
}
