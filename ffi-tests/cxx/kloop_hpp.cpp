// What kloop.hpp promises, checked: handles and leases that end once, a handler that throws, null and
// empty values, walks over records and headers, the log. Compiled with and without exceptions.
#include <kloop/kloop.hpp>

#include <cstring>
#include <string>
#include <utility>

#include "check.h"

// Moved, never copied; nothing hidden in them.
static_assert(!std::is_copy_constructible_v<kloop::engine> && !std::is_copy_assignable_v<kloop::engine>);
static_assert(std::is_nothrow_move_constructible_v<kloop::engine>);
static_assert(std::is_nothrow_move_assignable_v<kloop::broker>);
static_assert(!std::is_copy_constructible_v<kloop::lease> && std::is_nothrow_move_constructible_v<kloop::lease>);
static_assert(sizeof(kloop::producer) == sizeof(void *) && !std::is_polymorphic_v<kloop::producer>);
// A status is no number: it converts only where a condition is asked for.
static_assert(!std::is_convertible_v<kloop::status, bool> && std::is_constructible_v<bool, kloop::status>);
static_assert(!std::is_convertible_v<kloop::status, int> && !std::is_convertible_v<int, kloop::status>);
// Null has a name.
static_assert(!std::is_constructible_v<kloop::bytes, std::nullptr_t>);
static_assert(!std::is_convertible_v<int, kloop::bytes>);

static kloop_stats stats(const kloop::engine &e) {
  kloop_stats s;
  CHECK_IS(kloop_engine_stats(e.get(), &s, sizeof s), KLOOP_OK);
  return s;
}

static void null_is_never_empty() {
  const std::string text = "text", none;
  CHECK_IS(kloop::bytes(text).get().len, 4);
  CHECK(kloop::bytes("text").get().len == 4 && kloop::bytes(std::string_view("te")).get().len == 2);
  for (const kloop_slice empty :
       {kloop::bytes("").get(), kloop::bytes(none).get(), kloop::bytes(std::string_view()).get(),
        kloop::bytes(std::string_view(nullptr, 0)).get(), kloop::bytes(nullptr, 0).get(),
        kloop::bytes(std::optional<std::string_view>(std::string_view())).get()})
    CHECK(empty.data != nullptr && empty.len == 0);
  for (const kloop_slice null :
       {kloop::bytes(kloop::null_value).get(), kloop::bytes(std::nullopt).get(),
        kloop::bytes(std::optional<std::string>()).get()})
    CHECK(null.data == nullptr && null.len == 0);
  CHECK(!kloop::text_of(kloop_slice{nullptr, 0}) && kloop::text_of(kloop_slice{"", 0}));
}

static void statuses_and_results() {
  CHECK(kloop::status() && kloop::status(3) && !kloop::status(KLOOP_E_AGAIN));
  CHECK(kloop::status(KLOOP_E_AGAIN).retriable() && kloop::status(KLOOP_E_INVALID).misuse());
  CHECK(kloop::status(KLOOP_E_IO) != kloop::status(KLOOP_E_TLS));
  auto engine = kloop::engine::make();
  CHECK(engine && engine->fd() >= 0);
  auto wrong = kloop::client::make(*engine, {{"bootstrap.servers", ""}});
  CHECK(!wrong && !wrong.status() && !*wrong && std::strstr(wrong.message(), "bootstrap.servers"));
}

static void handles_end_once_in_any_order() {
  kloop::engine first = std::move(*kloop::engine::make()), second;
  kloop_engine *raw = first.get();
  second = std::move(first);
  CHECK(!first && second.get() == raw);
  auto &same = second;
  second = std::move(same);
  CHECK(second.get() == raw);
  kloop::engine third(second.detach());
  kloop::waker waker = std::move(*third.make_waker());
  auto client = std::move(*kloop::client::make(third, {{"bootstrap.servers", "127.0.0.1:1"}}));
  CHECK(waker.post(1));
  third.reset(); // before its client and waker
  CHECK(waker.post(2) == kloop::status(KLOOP_E_CLOSED));
  CHECK(client.close(0) == kloop::status(KLOOP_E_CLOSED));
}

// An engine with a broker, and three records in its topic.
struct world {
  kloop::engine engine;
  kloop::broker broker;
  kloop::client client;
  kloop::producer producer;
  kloop::consumer consumer;
  kloop_topic topic = 0;

  template <class Log>
  explicit world(Log &log) {
    kloop::engine_config config;
    config.memory_limit = std::size_t{8} << 20;
    config.log_to(log, 4);
    engine = std::move(*kloop::engine::make(config));
    kloop::broker_config listen;
    listen.listen = "127.0.0.1:0";
    broker = std::move(*kloop::broker::make(engine, listen));
    const kloop::address at = broker.address();
    CHECK(at.port > 0);
    client = std::move(*kloop::client::make(engine, {{"bootstrap.servers", at.text}}));
    producer = std::move(*kloop::producer::make(client, {{"linger.ms", "0"}}));
    consumer = std::move(*kloop::consumer::make(client, {{"fetch.max.wait.ms", "100"}}));
    topic = *client.topic("cxx");
    CHECK(consumer.assign({{topic, 0, KLOOP_OFFSET_EARLIEST}}));
  }

  void send(kloop::message message) {
    int32_t took;
    while ((took = producer.produce(message)) == 0) CHECK(engine.poll(-1, [](const kloop::event &) {}) >= 0);
    CHECK_IS(took, 1);
  }

  // Polls until the records event, and calls `f` with it.
  template <class F>
  void records(F f) {
    bool seen = false;
    while (!seen) {
      const int32_t n = engine.poll<1>(-1, [&](const kloop::event &ev, kloop::lease &&lease) {
        if (ev.type != KLOOP_EV_RECORDS) return;
        seen = true;
        f(ev, std::move(lease));
      });
      CHECK(n >= 0);
    }
  }
};

static void records_come_back() {
  int lines = 0;
  auto log = [&](uint32_t level, std::string_view line) { lines += level >= 1 && !line.empty(); };
  world w(log);
  // More headers and records than their walks decode at a time.
  std::string keys[20];
  kloop_header headers[20];
  for (int i = 0; i < 20; i++) {
    keys[i] = std::to_string(i);
    headers[i] = kloop::make_header(keys[i], i % 2 ? kloop::bytes(keys[i]) : kloop::bytes(kloop::null_value));
  }
  const int all = 100;
  for (int i = 0; i < all; i++) {
    kloop::message m(w.topic, i % 3 == 0   ? kloop::bytes(kloop::null_value)
                              : i % 3 == 1 ? kloop::bytes(std::string_view())
                                           : kloop::bytes("value"));
    w.send(m.key("k").partition(0).timestamp(1000 + i).user(7).headers(headers, 20));
  }
  int seen = 0;
  while (seen < all)
    w.records([&](const kloop::event &ev, kloop::lease &&) {
      kloop::records batch(w.engine.get(), ev);
      for (kloop::record r : batch) {
        CHECK_IS(r.offset(), seen);
        CHECK_IS(r.timestamp_ms(), 1000 + seen);
        CHECK(r.key() == std::string_view("k"));
        CHECK(r.value().has_value() == (seen % 3 != 0));
        if (r.value()) CHECK(*r.value() == (seen % 3 == 1 ? "" : "value"));
        int i = 0;
        auto walk = r.headers();
        for (kloop::header h : walk) {
          CHECK(h.key() == keys[i] && h.value().has_value() == (i % 2 == 1));
          i++;
        }
        CHECK(walk.status());
        CHECK_IS(i, 20);
        seen++;
      }
      CHECK(batch.status());
    });
  CHECK_IS(seen, all);
  CHECK_IS(stats(w.engine).leases, 0);
  CHECK(lines > 0);
}

static void leases_end_once() {
  auto log = [](uint32_t, std::string_view) {};
  world w(log);
  kloop::lease kept;
  kloop::event of{};
  w.send(kloop::message(w.topic, "kept"));
  w.records([&](const kloop::event &ev, kloop::lease &&lease) {
    of = ev;
    kept = std::move(lease);
    CHECK(kept && !lease);
  });
  CHECK_IS(stats(w.engine).leases, 1);
  for (kloop::record r : kloop::records(w.engine.get(), of)) CHECK(r.value() == std::string_view("kept"));
  kloop::lease other(std::move(kept));
  auto &same = other;
  other = std::move(same);
  CHECK(other);
  other.reset();
  other.reset();
  CHECK_IS(stats(w.engine).leases, 0);
  kloop::records stale(w.engine.get(), of);
  for (kloop::record r : stale) CHECK(!"a record of a lease that has ended" && r.offset());
  CHECK(!stale.status());
}

#ifdef __cpp_exceptions
static void a_handler_that_throws_leaks_nothing() {
  auto log = [](uint32_t, std::string_view) {};
  world w(log);
  int thrown = 0, leases = 0;
  for (int i = 0; i < 50; i++) w.send(kloop::message(w.topic, "value"));
  while (thrown < 3)
    try {
      CHECK(w.engine.poll(1000000000, [&](const kloop::event &ev, kloop::lease &&lease) {
        leases += bool(lease);
        kloop::lease mine;
        if (thrown % 2) mine = std::move(lease);
        if (ev.type == KLOOP_EV_RECORDS || thrown > 0) throw ev.type;
      }) >= 0);
    } catch (uint32_t) {
      thrown++;
      CHECK_IS(stats(w.engine).leases, 0);
      w.send(kloop::message(w.topic, "more"));
    }
  CHECK(leases > 0);
}
#endif

int main() {
  null_is_never_empty();
  statuses_and_results();
  handles_end_once_in_any_order();
  records_come_back();
  leases_end_once();
#ifdef __cpp_exceptions
  a_handler_that_throws_leaks_nothing();
#endif
  return 0;
}
