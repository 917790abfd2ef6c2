/* The limit for a producer: encodes 100-byte records into 16 KiB batches, checksums each, writes it
 * to a socket; no protocol, no answers, no bookkeeping.
 *
 *   produce_raw RECORDS
 *
 * It forks a sink that reads and drops, and prints `records_per_s=N`. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <nmmintrin.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VALUE = 100, BATCH = 16384, HEAD = 61 };

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static uint32_t crc32c(const unsigned char *p, size_t n) {
  uint64_t crc = 0xffffffffu, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  for (; n > 0; n--) crc = _mm_crc32_u8((uint32_t)crc, *p++);
  return ~(uint32_t)crc;
}

static size_t varint(unsigned char *out, uint64_t value) {
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) out[n++] = (unsigned char)(value | 0x80);
  out[n++] = (unsigned char)value;
  return n;
}

/* One record: length, attributes, timestamp delta, offset delta, no key, value, no headers. */
static size_t record(unsigned char *out, uint32_t number, const unsigned char *value) {
  unsigned char delta[5];
  size_t delta_len = varint(delta, (uint64_t)number << 1), n;
  n = varint(out, (1 + 1 + delta_len + 1 + 2 + VALUE + 1) << 1);
  out[n++] = 0;
  out[n++] = 0;
  memcpy(out + n, delta, delta_len);
  n += delta_len;
  out[n++] = 1;
  n += varint(out + n, VALUE << 1);
  memcpy(out + n, value, VALUE);
  n += VALUE;
  out[n++] = 0;
  return n;
}

static void sink(int fd) {
  static char room[1 << 20];
  pin(1);
  while (read(fd, room, sizeof room) > 0) continue;
  _exit(0);
}

int main(int argc, char **argv) {
  uint64_t total = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000u;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t len = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1) ||
      getsockname(listener, (struct sockaddr *)&at, &len) ||
      connect(out, (struct sockaddr *)&at, sizeof at))
    return 1;
  int in = accept(listener, NULL, NULL);
  if (fork() == 0) sink((close(out), in));
  close(in);
  pin(0);

  unsigned char batch[BATCH + 256], value[VALUE];
  uint64_t sent = 0, start = now_ns();
  memset(value, 'x', sizeof value);
  while (sent < total) {
    size_t n = HEAD;
    uint32_t count = 0;
    memset(batch, 0, HEAD);
    while (n + VALUE + 12 <= BATCH && sent + count < total) {
      memcpy(value, &sent, 8);
      n += record(batch + n, count++, value);
    }
    sent += count;
    uint32_t length = htonl((uint32_t)n - 12), records = htonl(count), crc;
    memcpy(batch + 8, &length, 4);
    batch[16] = 2;
    memcpy(batch + 57, &records, 4);
    crc = htonl(crc32c(batch + 21, n - 21));
    memcpy(batch + 17, &crc, 4);
    for (size_t done = 0; done < n;) {
      ssize_t wrote = write(out, batch + done, n - done);
      if (wrote <= 0) return 1;
      done += (size_t)wrote;
    }
  }
  double seconds = (double)(now_ns() - start) / 1e9;
  close(out);
  wait(NULL);
  printf("records_per_s=%.0f\n", (double)total / seconds);
  return 0;
}
