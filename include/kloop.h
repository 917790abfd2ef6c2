/* kloop: Kafka networking in your own event loop.
 *
 * Where a function says nothing else: it belongs to the engine's thread, never blocks, copies the
 * strings and structs it is given, writes outputs on success only, and answers NULL, stale handles,
 * the wrong thread and calls from inside a call with a status. MIT OR Apache-2.0. */

#ifndef KLOOP_H
#define KLOOP_H

/* Generated from src/ffi by cbindgen (cargo feature `header`): do not edit. */

#include <stddef.h>
#include <stdint.h>

/* 0xMMmmpp of this header; kloop_version() is that of the library. */
#define KLOOP_VERSION_NUM 0x000100u

#ifdef __cplusplus
# define KLOOP_NOEXCEPT noexcept
#else
# define KLOOP_NOEXCEPT
#endif
#if defined(__GNUC__) || defined(__clang__)
# define KLOOP_MUST_USE __attribute__((warn_unused_result))
#else
# define KLOOP_MUST_USE
#endif

/**
 * In the flags of a status: trying again can help.
 */
#define KLOOP_IS_RETRIABLE 1

/**
 * In the flags of a status: the handle is of no use any more.
 */
#define KLOOP_IS_FATAL 2

/**
 * In the flags of a status: a Kafka error code.
 */
#define KLOOP_IS_BROKER 4

/**
 * In the flags of a status: the program that calls kloop is at fault.
 */
#define KLOOP_IS_MISUSE 8

/**
 * The header's event and field set. Raised when event types or fields are added, never reused.
 */
#define KLOOP_ABI 1

/**
 * As an offset: behind the last record.
 */
#define KLOOP_OFFSET_LATEST (-1)

/**
 * As an offset: at the first record.
 */
#define KLOOP_OFFSET_EARLIEST (-2)

/**
 * In `kloop_engine_config.flags`: no timerfd; the host obeys `kloop_engine_timeout`.
 */
#define KLOOP_ENGINE_NO_TIMERFD 1

/**
 * In `kloop_engine_config.flags`: calls outside of `kloop_poll` do not make the descriptor
 * readable; the host calls `kloop_poll` before it waits.
 */
#define KLOOP_ENGINE_NO_AUTOWAKE 2

/**
 * In `kloop_engine_config.flags`: touch all memory at creation, that of brokers' logs and threads too:
 * no page fault later, all of it in the resident size from the start.
 */
#define KLOOP_ENGINE_PREFAULT 4

/**
 * In `kloop_engine_config.flags`: no thread check, for executors that move work freely and
 * synchronise themselves.
 */
#define KLOOP_ENGINE_ANY_THREAD 8

/**
 * In `u.delivered.outcome`: it is certain that the broker does not have the records.
 */
#define KLOOP_NOT_PERSISTED 0

/**
 * In `u.delivered.outcome`: the broker may have the records or not.
 */
#define KLOOP_MAYBE_PERSISTED 1

/**
 * In `u.delivered.outcome`: the broker acknowledged the records, or with `acks=0` they were written
 * to its connection, and `base_offset` is -1.
 */
#define KLOOP_PERSISTED 2

/**
 * A topic that is none.
 */
#define KLOOP_NO_TOPIC 4294967295

/**
 * As a partition: have one chosen.
 */
#define KLOOP_PARTITION_ANY (-1)

/**
 * In the flags of `kloop_broker_respond`: end the connection once the answer is written.
 */
#define KLOOP_RESPOND_CLOSE 1

/**
 * The `type` of an event. A host gives back the lease of a type that it does not know.
 */
enum kloop_event_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Another thread called `kloop_waker_post`; `user` is what it posted.
   */
  KLOOP_EV_POSTED = 1,
  /**
   * A handle that was closed has ended.
   */
  KLOOP_EV_CLOSED = 2,
  /**
   * Something of a handle cannot go on; `status` says why, `u.error` where. A partition stops until
   * it is assigned again; but UNKNOWN_TOPIC_OR_PARTITION is of one that the cluster has not had for
   * 5 s, and that is looked for on. Of a client: a host cannot be resolved for now
   * (`KLOOP_E_RESOLVE`); it is tried again.
   */
  KLOOP_EV_ERROR = 3,
  /**
   * A client has its first picture of the cluster.
   */
  KLOOP_EV_READY = 16,
  /**
   * A raw request has its answer (`u.request`, `user`) or its end (`status`).
   */
  KLOOP_EV_REPLY = 19,
  /**
   * Records have their outcome: `u.delivered`.
   */
  KLOOP_EV_DELIVERED = 32,
  /**
   * A producer that took fewer records than it was given takes records again.
   */
  KLOOP_EV_WRITABLE = 33,
  /**
   * A flush is over: all records accepted before it have their outcome.
   */
  KLOOP_EV_FLUSHED = 35,
  /**
   * Fetched records: `u.records`, read with `kloop_records_open`.
   */
  KLOOP_EV_RECORDS = 48,
  /**
   * A partition's position reached its end: `u.error`. Only with `enable.partition.eof=true`.
   */
  KLOOP_EV_EOF = 52,
  /**
   * A polled broker with `host_apis` took a connection: `u.request.conn`.
   */
  KLOOP_EV_CONN_OPEN = 64,
  /**
   * A request that the host answers: `u.request`.
   */
  KLOOP_EV_REQUEST = 66,
  /**
   * An answer of the host's is written, or dropped with its connection; `user` is its token.
   */
  KLOOP_EV_SENT = 67,
  /**
   * Such a connection ended: `u.request.conn`, stale from now on.
   */
  KLOOP_EV_CONN_CLOSED = 68,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum kloop_event_type kloop_event_type;
#else
typedef uint32_t kloop_event_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * kloop's own status codes.
 */
enum kloop_status_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Success.
   */
  KLOOP_OK = 0,
  /**
   * An argument is NULL or out of range, or the call came in the wrong state.
   */
  KLOOP_E_INVALID = -1000,
  /**
   * No room now; try again after the next event.
   */
  KLOOP_E_AGAIN = -1001,
  /**
   * Not enough memory to create what was asked for.
   */
  KLOOP_E_NOMEM = -1002,
  /**
   * The handle's engine is gone, or the thing is closed.
   */
  KLOOP_E_CLOSED = -1003,
  /**
   * A deadline passed.
   */
  KLOOP_E_TIMEOUT = -1004,
  /**
   * The operating system refused; see `os_errno`.
   */
  KLOOP_E_IO = -1005,
  /**
   * TLS failed.
   */
  KLOOP_E_TLS = -1006,
  /**
   * Authentication failed.
   */
  KLOOP_E_AUTH = -1007,
  /**
   * The peer's bytes are not what the protocol allows.
   */
  KLOOP_E_PROTOCOL = -1008,
  /**
   * The handle or id names something that has ended.
   */
  KLOOP_E_STALE = -1009,
  /**
   * The operation was cancelled.
   */
  KLOOP_E_CANCELED = -1010,
  /**
   * A call into an engine from inside a call of that engine (a log sink, an allocator).
   */
  KLOOP_E_REENTRANT = -1011,
  /**
   * The engine belongs to another thread.
   */
  KLOOP_E_THREAD = -1012,
  /**
   * The peer or this build cannot do it.
   */
  KLOOP_E_UNSUPPORTED = -1013,
  /**
   * A config struct that was not initialised by its _init function, or a reserved field in use.
   */
  KLOOP_E_ABI = -1014,
  /**
   * A fetched batch is larger than the consumer's memory can hold, as it came or inflated.
   */
  KLOOP_E_TOO_LARGE = -1015,
  /**
   * The cluster refuses what the call asked for; `kloop_engine_error` has Kafka's code.
   */
  KLOOP_E_REFUSED = -1016,
  /**
   * A host's name cannot be turned into an address: no such name, or no name server answers.
   */
  KLOOP_E_RESOLVE = -1017,
  /**
   * A bug in kloop was caught in this call; the engine is of no use any more.
   */
  KLOOP_E_PANIC = -1098,
  /**
   * A bug was caught in an earlier call of this engine.
   */
  KLOOP_E_POISONED = -1099,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum kloop_status_code kloop_status_code;
#else
typedef int32_t kloop_status_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The listening side. Made by `kloop_broker_new`.
 */
typedef struct kloop_broker kloop_broker;

/**
 * One cluster: metadata, connections. Made by `kloop_client_new`.
 */
typedef struct kloop_client kloop_client;

/**
 * Fetches records. Made by `kloop_consumer_new`.
 */
typedef struct kloop_consumer kloop_consumer;

/**
 * One event loop: memory, sockets, timers, events. Made by `kloop_engine_new`.
 */
typedef struct kloop_engine kloop_engine;

/**
 * Sends records. Made by `kloop_producer_new`.
 */
typedef struct kloop_producer kloop_producer;

/**
 * Posts to an engine from any thread; may outlive it.
 */
typedef struct kloop_waker kloop_waker;

/**
 * 0 is success; -1 and every positive value are Kafka's error codes as on the wire; -1000 and
 * below are kloop's own. Calls return counts or kloop's own codes; Kafka's stand in events only, and
 * in `kloop_engine_error` when a call says `KLOOP_E_REFUSED`.
 */
typedef int32_t kloop_status;

/**
 * Receives a log line: `level` 1 error, 2 warning, 3 information, 4 debug; `msg` is `len` bytes of
 * UTF-8 without a zero at the end. It runs inside kloop calls and must not call into the engine.
 * After `kloop_broker_start` it is also called on the broker's threads, never two lines at a time
 * though; not any more once `kloop_engine_free` has returned.
 */
typedef void (*kloop_log_fn)(void *ctx, uint32_t level, const char *msg, size_t len);

/**
 * An engine's sizes and hooks. Zero in any field is the default; what is counted in entries is
 * 1048576 at most.
 */
typedef struct kloop_engine_config {
  /**
   * Written by `kloop_engine_config_init`.
   */
  uint32_t struct_size;
  /**
   * Written by `kloop_engine_config_init`.
   */
  uint32_t abi;
  /**
   * `KLOOP_ENGINE_*`.
   */
  uint32_t flags;
  /**
   * Reserved, 0.
   */
  uint32_t backend;
  /**
   * Bytes of every buffer, leased ones included; touched as they are used. Default 32 MiB, at
   * least 3 MiB. A quarter of it, rounded down to a power of two, is the largest frame that can
   * be received: from 16 MiB on; under that 1 MiB, and never more than 128 MiB. A peer that sends
   * a larger one loses its connection.
   */
  size_t memory_limit;
  /**
   * Memory to use instead of a mapping of its own: initialised (from calloc or mmap), used by
   * nobody else, alive until the engine and all its other handles are freed.
   */
  void *arena;
  /**
   * Its size in bytes; then `memory_limit` is ignored.
   */
  size_t arena_size;
  /**
   * Connections at most. Default 1024.
   */
  uint32_t max_conns;
  /**
   * Pieces of unsent output at most. Default 4096.
   */
  uint32_t max_inflight;
  /**
   * Posts that wait at most. Default 1024.
   */
  uint32_t max_posts;
  /**
   * Bytes one turn may read. Default 256 KiB.
   */
  uint32_t io_budget;
  /**
   * Where log lines go; NULL for nowhere.
   */
  kloop_log_fn log;
  /**
   * The first argument of `log`.
   */
  void *log_ctx;
  /**
   * The least grave level that is wanted: 1 to 4. Default 2.
   */
  uint32_t log_level;
  /**
   * Handles (clients, producers, consumers, brokers) at most. Default 64.
   */
  uint32_t max_handles;
  /**
   * Leases that events may have lent to the host at a time. Default 4096.
   */
  uint32_t max_leases;
  /**
   * Reserved, 0.
   */
  uint32_t reserved0;
} kloop_engine_config;

/**
 * A configuration property by Kafka's own name, such as "linger.ms", "5".
 */
typedef struct kloop_prop {
  /**
   * The name, zero-terminated.
   */
  const char *key;
  /**
   * The value, zero-terminated.
   */
  const char *value;
} kloop_prop;

/**
 * What clients, producers and consumers are made of.
 */
typedef struct kloop_conf {
  /**
   * Written by `kloop_conf_init`.
   */
  uint32_t struct_size;
  /**
   * Written by `kloop_conf_init`.
   */
  uint32_t abi;
  /**
   * Reserved, 0.
   */
  uint32_t flags;
  /**
   * Reserved, 0.
   */
  uint32_t reserved0;
  /**
   * Comes back as `kloop_event.owner`.
   */
  uint64_t user;
  /**
   * Kafka's properties; borrowed for the call.
   */
  const struct kloop_prop *props;
  /**
   * How many.
   */
  size_t prop_count;
} kloop_conf;

/**
 * What a broker is made of.
 */
typedef struct kloop_broker_conf {
  /**
   * Written by `kloop_broker_conf_init`.
   */
  uint32_t struct_size;
  /**
   * Written by `kloop_broker_conf_init`.
   */
  uint32_t abi;
  /**
   * Reserved, 0.
   */
  uint32_t flags;
  /**
   * The broker's id, above 0; 0 is the default, which is 1 (an id of 0 is had with the property
   * `node.id`).
   */
  int32_t node_id;
  /**
   * Comes back as `kloop_event.owner`.
   */
  uint64_t user;
  /**
   * "HOST:PORT" to listen on, a numeric address or localhost; port 0 picks one. NULL: none.
   */
  const char *listen;
  /**
   * "HOST:PORT" that clients are told to connect to; NULL: where it listens, or for a wildcard
   * address the one that each connected to. Port 0: the port it listens on.
   */
  const char *advertised;
  /**
   * The cluster's id: 22 characters of URL-safe base64; NULL: a random one.
   */
  const char *cluster_id;
  /**
   * A bit set of API keys, 0 to 127, whose requests the host answers itself: key k is bit `k % 64`
   * of word `k / 64`; copied. ApiVersions tells clients the versions that kloop knows of them;
   * the host must answer each. A host that takes key 18 answers ApiVersions itself.
   */
  const uint64_t *host_apis;
  /**
   * Its length in 64-bit words, 2 at most.
   */
  size_t host_api_words;
  /**
   * Kafka's broker properties; borrowed for the call.
   */
  const struct kloop_prop *props;
  /**
   * How many.
   */
  size_t prop_count;
} kloop_broker_conf;

/**
 * The threads that `kloop_broker_start` makes. Zero in any field is the default.
 */
typedef struct kloop_reactor_conf {
  /**
   * Written by `kloop_reactor_conf_init`.
   */
  uint32_t struct_size;
  /**
   * Written by `kloop_reactor_conf_init`.
   */
  uint32_t abi;
  /**
   * Reserved, 0.
   */
  uint32_t flags;
  /**
   * Threads that read and write sockets, at most 63; each takes as much memory as the engine's
   * `memory_limit` for what it receives and sends, touched as it is used. Default 3.
   */
  uint32_t processors;
  /**
   * Threads that handle requests. Default 8.
   */
  uint32_t handlers;
  /**
   * Requests that wait for a handler at most. Default 500.
   */
  uint32_t max_queued;
  /**
   * Processors of the machine that the threads stay on, in turn: first those that read and write,
   * then those that handle. NULL: anywhere.
   */
  const int32_t *cpus;
  /**
   * How many.
   */
  size_t cpu_count;
} kloop_reactor_conf;

/**
 * What went wrong in a call that makes a handle, or last on an engine.
 */
typedef struct kloop_error {
  /**
   * The status.
   */
  kloop_status code;
  /**
   * The system's errno behind it, or 0.
   */
  int32_t os_errno;
  /**
   * A text for people; ends in a zero byte.
   */
  char msg[248];
} kloop_error;

/**
 * Borrowed memory; 0 is none. Give it back with `kloop_release`.
 */
typedef uint64_t kloop_lease;

/**
 * A topic name, interned by `kloop_client_topic`; valid for that client.
 */
typedef uint32_t kloop_topic;

/**
 * Of `KLOOP_EV_DELIVERED`: a run of records with the same outcome.
 */
typedef struct kloop_ev_delivered {
  /**
   * The tokens (`kloop_msg.user`) of the records, in the order in which they were produced.
   */
  const uint64_t *users;
  /**
   * The first record's offset, the others follow one by one; -1 if there is none.
   */
  int64_t base_offset;
  /**
   * How many records.
   */
  uint32_t count;
  /**
   * The partition.
   */
  int32_t partition;
  /**
   * The topic.
   */
  kloop_topic topic;
  /**
   * `KLOOP_NOT_PERSISTED`, `KLOOP_MAYBE_PERSISTED` or `KLOOP_PERSISTED`.
   */
  uint32_t outcome;
} kloop_ev_delivered;

/**
 * Of `KLOOP_EV_RECORDS`: fetched records of one partition.
 */
typedef struct kloop_ev_records {
  /**
   * The offset from which records are new.
   */
  int64_t base_offset;
  /**
   * The partition's high watermark.
   */
  int64_t high_watermark;
  /**
   * The topic.
   */
  kloop_topic topic;
  /**
   * The partition.
   */
  int32_t partition;
  /**
   * How many records.
   */
  uint32_t count;
  /**
   * Bytes of the batches they stand in.
   */
  uint32_t bytes;
} kloop_ev_records;

/**
 * Names a connection, request or operation; carries a generation.
 */
typedef uint64_t kloop_id;

/**
 * Of `KLOOP_EV_REQUEST`, `KLOOP_EV_REPLY` and the connection events.
 */
typedef struct kloop_ev_request {
  /**
   * The body behind the header.
   */
  const void *body;
  /**
   * The connection.
   */
  kloop_id conn;
  /**
   * The request, to be answered once; of a reply the operation.
   */
  kloop_id id;
  /**
   * Bytes of the body.
   */
  uint32_t body_len;
  /**
   * The API key.
   */
  uint16_t api_key;
  /**
   * The API version.
   */
  uint16_t api_version;
} kloop_ev_request;

/**
 * Of `KLOOP_EV_ERROR` and `KLOOP_EV_EOF`: where.
 */
typedef struct kloop_ev_error {
  /**
   * The position, or -1.
   */
  int64_t offset;
  /**
   * The topic, or `KLOOP_NO_TOPIC`.
   */
  kloop_topic topic;
  /**
   * The partition, or -1.
   */
  int32_t partition;
} kloop_ev_error;

/**
 * What an event carries, by its type.
 */
typedef union kloop_ev_data {
  /**
   * Of `KLOOP_EV_DELIVERED`.
   */
  struct kloop_ev_delivered delivered;
  /**
   * Of `KLOOP_EV_RECORDS`.
   */
  struct kloop_ev_records records;
  /**
   * Of `KLOOP_EV_REQUEST`, `KLOOP_EV_REPLY` and the connection events.
   */
  struct kloop_ev_request request;
  /**
   * Of `KLOOP_EV_ERROR` and `KLOOP_EV_EOF`.
   */
  struct kloop_ev_error error;
  /**
   * The size of the union.
   */
  uint64_t raw[4];
} kloop_ev_data;

/**
 * What happened. 64 bytes on every platform; may be copied.
 */
typedef struct kloop_event {
  /**
   * `KLOOP_EV_*`.
   */
  uint32_t type;
  /**
   * 0, or why.
   */
  kloop_status status;
  /**
   * The `user` of the config of the handle it belongs to.
   */
  uint64_t owner;
  /**
   * The token of the operation, 0 if it has none.
   */
  uint64_t user;
  /**
   * While not 0, pointers below stay valid until `kloop_release`.
   */
  kloop_lease lease;
  /**
   * What it carries.
   */
  union kloop_ev_data u;
} kloop_event;

/**
 * Counters of an engine. Grows at the end: pass `sizeof` of the struct you know.
 */
typedef struct kloop_stats {
  /**
   * Calls of `kloop_poll`.
   */
  uint64_t polls;
  /**
   * Events handed out.
   */
  uint64_t events;
  /**
   * Bytes read from sockets.
   */
  uint64_t bytes_in;
  /**
   * Bytes written to sockets.
   */
  uint64_t bytes_out;
  /**
   * Bytes of the pool that are out.
   */
  uint64_t mem_used;
  /**
   * Bytes of the pool.
   */
  uint64_t mem_total;
  /**
   * Leases that the host holds.
   */
  uint64_t leases;
  /**
   * Posts refused because too many were waiting.
   */
  uint64_t posts_refused;
  /**
   * System calls made by turns.
   */
  uint64_t syscalls;
} kloop_stats;

/**
 * Borrowed bytes. `data` NULL is Kafka's null; a `len` of 0 with `data` set is an empty value.
 */
typedef struct kloop_slice {
  /**
   * The first byte, or NULL.
   */
  const void *data;
  /**
   * How many bytes.
   */
  size_t len;
} kloop_slice;

/**
 * A record header: a key that is never null, and a value that may be.
 */
typedef struct kloop_header {
  /**
   * The key.
   */
  struct kloop_slice key;
  /**
   * The value.
   */
  struct kloop_slice value;
} kloop_header;

/**
 * One record to produce. Everything is borrowed for the call.
 */
typedef struct kloop_msg {
  /**
   * The key; NULL is none.
   */
  struct kloop_slice key;
  /**
   * The value; NULL is a tombstone.
   */
  struct kloop_slice value;
  /**
   * The headers.
   */
  const struct kloop_header *headers;
  /**
   * How many.
   */
  uint32_t header_count;
  /**
   * The topic.
   */
  kloop_topic topic;
  /**
   * The partition, or `KLOOP_PARTITION_ANY`: by the key as Kafka's own client does it, without
   * a key sticky.
   */
  int32_t partition;
  /**
   * Reserved, 0.
   */
  uint32_t flags;
  /**
   * Milliseconds since 1970; 0 takes the time of the call.
   */
  int64_t timestamp_ms;
  /**
   * Comes back with the record's outcome.
   */
  uint64_t user;
  /**
   * Reserved, 0.
   */
  uint64_t reserved0;
} kloop_msg;

/**
 * A partition and an offset in it.
 */
typedef struct kloop_tp {
  /**
   * The topic.
   */
  kloop_topic topic;
  /**
   * The partition.
   */
  int32_t partition;
  /**
   * An offset: 0 and above, `KLOOP_OFFSET_LATEST` or `KLOOP_OFFSET_EARLIEST`.
   */
  int64_t offset;
} kloop_tp;

/**
 * Where a walk over the records of an event stands; on the caller's stack, no free.
 */
typedef struct kloop_cursor {
  /**
   * Not for the caller.
   */
  uint64_t opaque[8];
} kloop_cursor;

/**
 * A fetched record. Valid while the lease of its event is.
 */
typedef struct kloop_record {
  /**
   * The key; NULL is none.
   */
  struct kloop_slice key;
  /**
   * The value; NULL is a tombstone.
   */
  struct kloop_slice value;
  /**
   * The headers as they stand in the batch; read them with `kloop_headers_read`.
   */
  struct kloop_slice headers;
  /**
   * The record's offset.
   */
  int64_t offset;
  /**
   * Milliseconds since 1970; -1 if the producer gave none.
   */
  int64_t timestamp_ms;
  /**
   * How many headers.
   */
  uint32_t header_count;
  /**
   * Reserved, 0.
   */
  uint32_t flags;
} kloop_record;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * What a status means, as a static string. Any thread. Of Kafka's codes it is the name.
 */
const char *kloop_status_str(kloop_status status) KLOOP_NOEXCEPT;

/**
 * What to do about a status: `KLOOP_IS_RETRIABLE`, `_FATAL`, `_BROKER`, `_MISUSE`, or'ed. Any
 * thread.
 */
uint32_t kloop_status_flags(kloop_status status) KLOOP_NOEXCEPT;

/**
 * The version of the library that is loaded, as 0xMMmmpp; compare it with `KLOOP_VERSION_NUM`,
 * which is the header's. Any thread.
 */
uint32_t kloop_version(void) KLOOP_NOEXCEPT;

/**
 * Throws a panic inside and catches it, to see whether the program's link kept unwinding: answers
 * `KLOOP_E_PANIC`, which is good news. A program that lost it (a static one without
 * `-Wl,--eh-frame-hdr`, or a library built with `panic = "abort"`) ends here with SIGABRT, as it
 * would at a bug in kloop. Call it once in a test of your program. Prints nothing. Any thread.
 */
kloop_status kloop_check_unwind(void) KLOOP_NOEXCEPT;

/**
 * What this library was built of, as a static string of lines, each a name, a space and the rest:
 * `kloop` its version, `target`, `profile`, `features` (the codecs among them, or none), `rustc`,
 * and `crates`, the exact versions in it by kloop's own Cargo.lock (a Rust program that builds
 * kloop may have others). Any thread.
 */
const char *kloop_build_info(void) KLOOP_NOEXCEPT;

/**
 * Prepares an engine config. `size` is `sizeof` of the struct, `abi` is `KLOOP_ABI`. Any thread.
 *
 * The caller owes:
 * `cfg` is NULL or points at `size` writable bytes.
 */
KLOOP_MUST_USE
kloop_status kloop_engine_config_init(struct kloop_engine_config *cfg,
                                      size_t size,
                                      uint32_t abi)
KLOOP_NOEXCEPT;

/**
 * Prepares a config for a client, producer or consumer. Any thread.
 *
 * The caller owes:
 * `cfg` is NULL or points at `size` writable bytes.
 */
KLOOP_MUST_USE
kloop_status kloop_conf_init(struct kloop_conf *cfg,
                             size_t size,
                             uint32_t abi)
KLOOP_NOEXCEPT;

/**
 * Prepares a broker config. Any thread.
 *
 * The caller owes:
 * `cfg` is NULL or points at `size` writable bytes.
 */
KLOOP_MUST_USE
kloop_status kloop_broker_conf_init(struct kloop_broker_conf *cfg,
                                    size_t size,
                                    uint32_t abi)
KLOOP_NOEXCEPT;

/**
 * Prepares a config of a broker's threads. Any thread.
 *
 * The caller owes:
 * `cfg` is NULL or points at `size` writable bytes.
 */
KLOOP_MUST_USE
kloop_status kloop_reactor_conf_init(struct kloop_reactor_conf *cfg,
                                     size_t size,
                                     uint32_t abi)
KLOOP_NOEXCEPT;

/**
 * Makes an engine; it belongs to the calling thread. On failure nothing is written to `out`, and
 * `err`, if given, says why.
 *
 * The caller owes:
 * `cfg` is NULL (all defaults) or prepared by `kloop_engine_config_init`; `out` is writable; `err`
 * is NULL or writable.
 */
KLOOP_MUST_USE
kloop_status kloop_engine_new(const struct kloop_engine_config *cfg,
                              struct kloop_engine **out,
                              struct kloop_error *err)
KLOOP_NOEXCEPT;

/**
 * Ends an engine: sockets close, memory and leases are gone; waits for the threads of brokers that were
 * started. NULL is ignored. Its other handles
 * may be freed before or after, and answer `KLOOP_E_CLOSED` meanwhile.
 *
 * After `fork` the engine is the parent's. In the child every call answers `KLOOP_E_THREAD`, but the
 * `_free` functions: they close the child's copies of descriptors and give back memory, and the
 * parent and its peers notice nothing. A child that calls exec or _exit need not call them.
 *
 * The caller owes:
 * `e` is NULL or an engine handle.
 */
void kloop_engine_free(struct kloop_engine *e)
KLOOP_NOEXCEPT;

/**
 * Makes the calling thread the engine's, after the host has synchronised the two threads.
 *
 * The caller owes:
 * `e` is NULL or an engine handle, and no call on it runs.
 */
kloop_status kloop_engine_take(struct kloop_engine *e) KLOOP_NOEXCEPT;

/**
 * The descriptor to watch for reading, level-triggered; readable means call `kloop_poll`. The same
 * for the engine's life; never read, write or close it. A host that watches edge-triggered polls
 * until `kloop_engine_timeout` is not 0. Negative: a status.
 *
 * The caller owes:
 * `e` is NULL or an engine handle.
 */
KLOOP_MUST_USE int kloop_engine_fd(const struct kloop_engine *e) KLOOP_NOEXCEPT;

/**
 * Nanoseconds until there is work: 0 for now, -1 for not before something arrives; below that a
 * status. Needed with `KLOOP_ENGINE_NO_TIMERFD`, and by hosts that watch edge-triggered.
 *
 * The caller owes:
 * `e` is NULL or an engine handle.
 */
int64_t kloop_engine_timeout(const struct kloop_engine *e) KLOOP_NOEXCEPT;

/**
 * Runs the engine and fills `events` with up to `cap` events; says how many, or a negative
 * status. `timeout_ns`: 0 does not sleep, -1 sleeps until there are events. With `cap` 0 it does
 * one turn of I/O. Events that do not fit stay, and the descriptor stays readable. While every
 * lease (`max_leases`) is with the host, an event that needs one waits; with `timeout_ns` -1 it then
 * returns 0 at once, because nobody could end its sleep.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `events` points at `cap` writable events.
 */
KLOOP_MUST_USE
int32_t kloop_poll(struct kloop_engine *e,
                   struct kloop_event *events,
                   uint32_t cap,
                   int64_t timeout_ns)
KLOOP_NOEXCEPT;

/**
 * Gives leases back. Zero is ignored; one that was given back before, or is none, is too, and shows
 * in `kloop_engine_error`.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `leases` points at `n` leases.
 */
void kloop_release(struct kloop_engine *e, const kloop_lease *leases, size_t n) KLOOP_NOEXCEPT;

/**
 * What went wrong last in a call on this engine or one of its handles, since it was made; a call
 * that goes well does not clear it. `code` is also one of Kafka's, where the call gave
 * `KLOOP_E_REFUSED`.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `out` is NULL or writable.
 */
void kloop_engine_error(const struct kloop_engine *e, struct kloop_error *out) KLOOP_NOEXCEPT;

/**
 * Copies as many counters as fit into `size` bytes.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `out` points at `size` writable bytes.
 */
kloop_status kloop_engine_stats(const struct kloop_engine *e,
                                struct kloop_stats *out,
                                size_t size)
KLOOP_NOEXCEPT;

/**
 * Makes a waker of an engine. On the engine's thread.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `out` is NULL or writable.
 */
KLOOP_MUST_USE
kloop_status kloop_waker_new(struct kloop_engine *e,
                             struct kloop_waker **out)
KLOOP_NOEXCEPT;

/**
 * Posts a number: the engine's descriptor becomes readable, and `kloop_poll` gives it in a
 * `KLOOP_EV_POSTED` event, each post once, those of one thread in order. `KLOOP_E_AGAIN` when too
 * many wait, `KLOOP_E_CLOSED` when the engine is gone. Any thread, also in a signal handler.
 *
 * The caller owes:
 * `w` is NULL or a waker that is not freed.
 */
KLOOP_MUST_USE kloop_status kloop_waker_post(struct kloop_waker *w, uint64_t user) KLOOP_NOEXCEPT;

/**
 * Frees a waker. NULL is ignored. Any thread, when no other uses it.
 *
 * The caller owes:
 * `w` is NULL or a waker that is not freed.
 */
void kloop_waker_free(struct kloop_waker *w) KLOOP_NOEXCEPT;

/**
 * Makes a client of the cluster that the property "bootstrap.servers" names. It connects by
 * itself; `KLOOP_EV_READY` follows. Host names are looked up meanwhile, as /etc/resolv.conf or the
 * properties "resolver.nameservers" (addresses with or without a port, by commas, at most 8),
 * "resolver.search", "resolver.ndots", "resolver.timeout.ms", "resolver.attempts" and
 * "resolver.rotate" say; one that cannot be resolved is told by `KLOOP_EV_ERROR` with
 * `KLOOP_E_RESOLVE`, once for each reason, and tried again. On failure nothing is written to `out`, and `err`, if given,
 * names the property that is wrong.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `cfg` is prepared by `kloop_conf_init`; `out` is writable;
 * `err` is NULL or writable.
 */
KLOOP_MUST_USE
kloop_status kloop_client_new(struct kloop_engine *e,
                              const struct kloop_conf *cfg,
                              struct kloop_client **out,
                              struct kloop_error *err)
KLOOP_NOEXCEPT;

/**
 * Ends a client at once, with its producers and consumers. NULL is ignored.
 *
 * The caller owes:
 * `c` is NULL or a client handle.
 */
void kloop_client_free(struct kloop_client *c) KLOOP_NOEXCEPT;

/**
 * Ends a client gracefully: what was accepted gets its outcome, for at most `grace_ns` (0: at once,
 * below 0: without a limit); then `KLOOP_EV_CLOSED` for it and each of its producers and consumers.
 *
 * The caller owes:
 * `c` is NULL or a client handle.
 */
kloop_status kloop_client_close(struct kloop_client *c, int64_t grace_ns) KLOOP_NOEXCEPT;

/**
 * Interns a topic name: the number that messages and assignments name it by, for the client's
 * life. Its metadata is asked for from now on, which creates the topic where the brokers do that,
 * unless the client has `allow.auto.create.topics=false`.
 *
 * The caller owes:
 * `c` is NULL or a client handle; `name` points at `len` bytes; `out` is writable.
 */
KLOOP_MUST_USE
kloop_status kloop_client_topic(struct kloop_client *c,
                                const char *name,
                                size_t len,
                                kloop_topic *out)
KLOOP_NOEXCEPT;

/**
 * Sends a request of the host's own making: `body` is what follows the request header. `node` -1
 * picks any broker, `api_version` -1 the highest that both sides know. `KLOOP_EV_REPLY` with
 * `user` follows, also on failure, at the latest after `request.timeout.ms` (default 30 s); `op`, if
 * given, names the operation.
 *
 * The caller owes:
 * `c` is NULL or a client handle; `body` is readable; `op` is NULL or writable.
 */
kloop_status kloop_client_request(struct kloop_client *c,
                                  int32_t node,
                                  int16_t api_key,
                                  int16_t api_version,
                                  struct kloop_slice body,
                                  uint64_t user,
                                  kloop_id *op)
KLOOP_NOEXCEPT;

/**
 * Cancels a request; its `KLOOP_EV_REPLY` still comes, once, with `KLOOP_E_CANCELED` or its answer.
 *
 * The caller owes:
 * `c` is NULL or a client handle.
 */
kloop_status kloop_client_cancel(struct kloop_client *c, kloop_id op) KLOOP_NOEXCEPT;

/**
 * Makes a producer of a client. Properties: "acks", "linger.ms", "batch.size" and the others by
 * Kafka's names. On failure nothing is written to `out`, and `err`, if given, names the property
 * that is wrong.
 *
 * The caller owes:
 * `c` is NULL or a client handle; `cfg` is prepared by `kloop_conf_init`; `out` is writable;
 * `err` is NULL or writable.
 */
KLOOP_MUST_USE
kloop_status kloop_producer_new(struct kloop_client *c,
                                const struct kloop_conf *cfg,
                                struct kloop_producer **out,
                                struct kloop_error *err)
KLOOP_NOEXCEPT;

/**
 * Ends a producer: records without an outcome get theirs at once, in `KLOOP_EV_DELIVERED` events.
 * NULL is ignored.
 *
 * The caller owes:
 * `p` is NULL or a producer handle.
 */
void kloop_producer_free(struct kloop_producer *p) KLOOP_NOEXCEPT;

/**
 * Gives up to `n` records to the producer, and says how many it took, from the front: 0 to `n`.
 * Fewer: call again with the rest. Then it says why: 0 is that there is no room now, or that the
 * topic is not known yet (`kloop_client_topic` was just called, or no broker can be reached), and
 * `KLOOP_EV_WRITABLE` tells when to try again; a negative status is about the first of the rest,
 * which can never be taken: `KLOOP_E_INVALID` for one that is too large, has a slice of NULL with a
 * length, or names a topic number or partition that there is not; `KLOOP_E_REFUSED` if the cluster
 * does not have the topic (after `max.block.ms`, default 60 s) or does not let this client write
 * to it. `kloop_engine_error` has the reason.
 *
 * A record that was not taken is under no timeout; one that was is under `delivery.timeout.ms`,
 * and ends in exactly one `KLOOP_EV_DELIVERED` that names its `user`. Never blocks, never
 * allocates.
 *
 * The caller owes:
 * `p` is NULL or a producer handle; `msgs` points at `n` messages whose pointers are readable.
 */
KLOOP_MUST_USE
int32_t kloop_produce(struct kloop_producer *p,
                      const struct kloop_msg *msgs,
                      uint32_t n)
KLOOP_NOEXCEPT;

/**
 * Sends what is lingering; when all records taken before it have their outcome,
 * `KLOOP_EV_FLUSHED` with `user` follows.
 *
 * The caller owes:
 * `p` is NULL or a producer handle.
 */
kloop_status kloop_producer_flush(struct kloop_producer *p, uint64_t user) KLOOP_NOEXCEPT;

/**
 * Ends a producer gracefully: what it took gets its outcome, for at most `grace_ns` (0: at
 * once, below 0: without a limit); then
 * `KLOOP_EV_CLOSED`.
 *
 * The caller owes:
 * `p` is NULL or a producer handle.
 */
kloop_status kloop_producer_close(struct kloop_producer *p, int64_t grace_ns) KLOOP_NOEXCEPT;

/**
 * Makes a consumer of a client. Properties: "fetch.min.bytes", "auto.offset.reset" and the others
 * by Kafka's names. On failure nothing is written to `out`, and `err`, if given, names the
 * property that is wrong.
 *
 * The caller owes:
 * `c` is NULL or a client handle; `cfg` is prepared by `kloop_conf_init`; `out` is writable;
 * `err` is NULL or writable.
 */
KLOOP_MUST_USE
kloop_status kloop_consumer_new(struct kloop_client *c,
                                const struct kloop_conf *cfg,
                                struct kloop_consumer **out,
                                struct kloop_error *err)
KLOOP_NOEXCEPT;

/**
 * Ends a consumer. Leases of its records stay valid. NULL is ignored.
 *
 * The caller owes:
 * `c` is NULL or a consumer handle.
 */
void kloop_consumer_free(struct kloop_consumer *c) KLOOP_NOEXCEPT;

/**
 * Replaces the partitions that the consumer fetches: each from its `offset`, which is 0 and above,
 * `KLOOP_OFFSET_LATEST` or `KLOOP_OFFSET_EARLIEST`. `KLOOP_EV_RECORDS` events follow.
 *
 * The caller owes:
 * `c` is NULL or a consumer handle; `parts` points at `n` readable values.
 */
KLOOP_MUST_USE
kloop_status kloop_consumer_assign(struct kloop_consumer *c,
                                   const struct kloop_tp *parts,
                                   uint32_t n)
KLOOP_NOEXCEPT;

/**
 * Adds a partition to those that the consumer fetches, from the first record whose timestamp is
 * `timestamp_ms` or later; from the end if there is none.
 *
 * The caller owes:
 * `c` is NULL or a consumer handle.
 */
kloop_status kloop_consumer_assign_at(struct kloop_consumer *c,
                                      kloop_topic topic,
                                      int32_t partition,
                                      int64_t timestamp_ms)
KLOOP_NOEXCEPT;

/**
 * Stops (`paused` not 0) or resumes fetching partitions of the assignment; positions stay. All of
 * them or none: one that is not assigned is `KLOOP_E_INVALID`, and nothing has changed.
 *
 * The caller owes:
 * `c` is NULL or a consumer handle; `parts` points at `n` readable values, whose offsets do not
 * matter.
 */
kloop_status kloop_consumer_pause(struct kloop_consumer *c,
                                  const struct kloop_tp *parts,
                                  uint32_t n,
                                  uint32_t paused)
KLOOP_NOEXCEPT;

/**
 * The offset of the next record of a partition, or -1 while the partition's start is being looked
 * up. Below -1 it is a status: `KLOOP_E_INVALID` for a partition that is not assigned.
 *
 * The caller owes:
 * `c` is NULL or a consumer handle.
 */
int64_t kloop_consumer_position(struct kloop_consumer *c,
                                kloop_topic topic,
                                int32_t partition)
KLOOP_NOEXCEPT;

/**
 * Ends a consumer gracefully: fetches on their way are given up; then `KLOOP_EV_CLOSED`. There is
 * nothing yet that would take the time of `grace_ns`.
 *
 * The caller owes:
 * `c` is NULL or a consumer handle.
 */
kloop_status kloop_consumer_close(struct kloop_consumer *c, int64_t grace_ns) KLOOP_NOEXCEPT;

/**
 * Begins a walk over the records of a `KLOOP_EV_RECORDS` event.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `ev` is NULL or readable; `cur` is writable.
 */
KLOOP_MUST_USE
kloop_status kloop_records_open(const struct kloop_engine *e,
                                const struct kloop_event *ev,
                                struct kloop_cursor *cur)
KLOOP_NOEXCEPT;

/**
 * Decodes up to `cap` records; says how many, 0 at the end, or a negative status
 * (`KLOOP_E_STALE` after the lease was released, `KLOOP_E_PROTOCOL` for a damaged batch). Records
 * in front of a damaged one are given first; each call that begins with it says the status.
 *
 * The caller owes:
 * `cur` is NULL or was opened; `out` points at `cap` writable records.
 */
KLOOP_MUST_USE
int32_t kloop_records_read(struct kloop_cursor *cur,
                           struct kloop_record *out,
                           uint32_t cap)
KLOOP_NOEXCEPT;

/**
 * Decodes headers of a record, from number `from` on; says how many, 0 at the end. Any thread
 * that may read the record.
 *
 * The caller owes:
 * `rec` is NULL or a record whose lease is valid; `out` points at `cap` writable headers.
 */
KLOOP_MUST_USE
int32_t kloop_headers_read(const struct kloop_record *rec,
                           uint32_t from,
                           struct kloop_header *out,
                           uint32_t cap)
KLOOP_NOEXCEPT;

/**
 * Makes a broker inside the engine's loop. On failure nothing is written to `out`, and `err`, if
 * given, names the property or the address that is wrong.
 *
 * The caller owes:
 * `e` is NULL or an engine handle; `cfg` is prepared by `kloop_broker_conf_init`; `out` is
 * writable; `err` is NULL or writable.
 */
KLOOP_MUST_USE
kloop_status kloop_broker_new(struct kloop_engine *e,
                              const struct kloop_broker_conf *cfg,
                              struct kloop_broker **out,
                              struct kloop_error *err)
KLOOP_NOEXCEPT;

/**
 * Ends a broker at once: connections close, its log is gone. Waits for the threads of one that was
 * started. NULL is ignored.
 *
 * The caller owes:
 * `b` is NULL or a broker handle.
 */
void kloop_broker_free(struct kloop_broker *b) KLOOP_NOEXCEPT;

/**
 * Stops listening, answers what is in flight for at most `grace_ns` (0: at once, below 0: without a
 * limit), closes the connections; then `KLOOP_EV_CLOSED`. Does not block, but for a broker that was
 * started: as `kloop_broker_stop`.
 *
 * The caller owes:
 * `b` is NULL or a broker handle.
 */
kloop_status kloop_broker_close(struct kloop_broker *b, int64_t grace_ns) KLOOP_NOEXCEPT;

/**
 * Where the broker listens: writes "HOST:PORT" and a zero byte into `buf` of `cap` bytes, if given,
 * and returns the port; a negative status if it does not listen or `buf` is too small.
 *
 * The caller owes:
 * `b` is NULL or a broker handle; `buf` is NULL or points at `cap` writable bytes.
 */
int32_t kloop_broker_address(const struct kloop_broker *b, char *buf, size_t cap) KLOOP_NOEXCEPT;

/**
 * Takes a connected stream socket, as from another thread's acceptor or a socketpair. The
 * descriptor is the broker's from now on, also on failure. `conn`, if given, names it.
 *
 * The caller owes:
 * `b` is NULL or a broker handle; `fd` is an open socket that nobody else uses; `conn` is NULL or
 * writable.
 */
kloop_status kloop_broker_adopt(struct kloop_broker *b, int fd, kloop_id *conn) KLOOP_NOEXCEPT;

/**
 * Answers a `KLOOP_EV_REQUEST`, once: `parts` are the body, at most 64, copied; kloop writes the
 * header. Answers may come in any order; each connection gets them in the order of its requests.
 * With no parts nothing is sent, as a produce with acks 0 wants it. A `user` other than 0 comes
 * back in `KLOOP_EV_SENT`. `KLOOP_E_STALE` when the peer has left or the request was answered;
 * `KLOOP_E_AGAIN` when there is no memory now: the request then still waits.
 *
 * For requests of `kloop_broker_take` any thread may call it; the body of the request is gone then,
 * but for `KLOOP_E_AGAIN` (after which such a thread tries again a little later), `KLOOP_E_INVALID`
 * and `KLOOP_E_ABI`. `user` must be 0 for these, and the body 8 of the largest frames at most.
 *
 * The caller owes:
 * `b` is NULL or a broker handle; `parts` points at `n` slices that are readable.
 */
KLOOP_MUST_USE
kloop_status kloop_broker_respond(struct kloop_broker *b,
                                  kloop_id request,
                                  const struct kloop_slice *parts,
                                  uint32_t n,
                                  uint32_t flags,
                                  uint64_t user)
KLOOP_NOEXCEPT;

/**
 * Ends a connection now.
 *
 * The caller owes:
 * `b` is NULL or a broker handle.
 */
kloop_status kloop_broker_disconnect(struct kloop_broker *b, kloop_id conn) KLOOP_NOEXCEPT;

/**
 * Gives a broker threads of its own: one that accepts, `processors` that read and write, `handlers`
 * that handle requests. The only call that makes threads; all signals are blocked in them, and the
 * engine's log function is called from them too. The broker must listen and must not have taken a
 * connection yet: start it right after `kloop_broker_new`. Its address stays; the engine tells of
 * its end only, with `KLOOP_EV_CLOSED`; connections are not reported. Requests that the host answers
 * itself are taken with `kloop_broker_take`. From then on `kloop_broker_adopt` and `_disconnect`
 * answer `KLOOP_E_UNSUPPORTED`. On failure the broker may listen no more: free it.
 *
 * The caller owes:
 * `b` is NULL or a broker handle; `cfg` is prepared by `kloop_reactor_conf_init`; `err` is NULL or
 * writable.
 */
KLOOP_MUST_USE
kloop_status kloop_broker_start(struct kloop_broker *b,
                                const struct kloop_reactor_conf *cfg,
                                struct kloop_error *err)
KLOOP_NOEXCEPT;

/**
 * Ends a broker's threads: nothing is accepted any more, what is in flight is answered for at most
 * `grace_ns` (below 0: without a limit), connections close, the threads are joined. Blocks until then; `KLOOP_EV_CLOSED`
 * follows at the next poll. Once stopped, it does nothing. `kloop_broker_close` does the same for a
 * broker that was started, and `kloop_broker_free` without any grace.
 *
 * The caller owes:
 * `b` is NULL or a broker handle.
 */
kloop_status kloop_broker_stop(struct kloop_broker *b,
                               int64_t grace_ns)
KLOOP_NOEXCEPT;

/**
 * Takes requests that the host answers itself, from a broker with threads of its own: fills up to
 * `cap` events of type `KLOOP_EV_REQUEST` and says how many. Waits for the first for at most
 * `timeout_ns`, below 0 without a limit; 0 requests is that the time is over. Any thread, several
 * at a time. The events carry no lease: the body stays valid until the request is answered with
 * `kloop_broker_respond`, which any thread may do, or until the broker is freed. `KLOOP_E_CLOSED`
 * once the broker has stopped; `KLOOP_E_INVALID` if it was not started. Before the broker is freed,
 * the host's threads must have left this call.
 *
 * The caller owes:
 * `b` is NULL or a broker handle that is not freed meanwhile; `events` points at `cap` writable
 * events.
 */
KLOOP_MUST_USE
int32_t kloop_broker_take(struct kloop_broker *b,
                          struct kloop_event *events,
                          uint32_t cap,
                          int64_t timeout_ns)
KLOOP_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KLOOP_H */
