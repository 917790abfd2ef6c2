// kloop for C++17: header only, over the C functions of kloop.h and nothing else.
//
// Handles (engine, client, producer, consumer, broker, waker) and leases own what they name, can be
// moved but not copied, and free it at their end; get() gives the C handle for any function that has
// no method here. Nothing throws, and nothing here needs exceptions or RTTI: calls that make something
// answer a result<T>, the others a status. No std type crosses the library's boundary.
//
// Threads: as in kloop.h. All of it belongs to the engine's thread, but for waker::post, and for
// broker::respond once the broker has threads of its own (kloop_broker_start and kloop_broker_take are
// called with get()).
//
// Order: an engine may end before or after its clients, producers, consumers, brokers and wakers.
// Leases, and records read under them, must end before their engine.
#ifndef KLOOP_HPP
#define KLOOP_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <kloop.h>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kloop {
inline namespace v1 {

using event = kloop_event;
using topic = kloop_topic;

/// What a call says. True is success: `if (auto s = p.flush(); !s) log(s.text());`
class [[nodiscard]] status {
 public:
  constexpr status() noexcept = default;
  constexpr explicit status(kloop_status code) noexcept : code_(code) {}
  /// Counts, as of kloop_poll, are success too.
  constexpr explicit operator bool() const noexcept { return code_ >= 0; }
  constexpr kloop_status code() const noexcept { return code_; }
  const char *text() const noexcept { return kloop_status_str(code_); }
  bool retriable() const noexcept { return flag(KLOOP_IS_RETRIABLE); }
  bool fatal() const noexcept { return flag(KLOOP_IS_FATAL); }
  bool misuse() const noexcept { return flag(KLOOP_IS_MISUSE); }
  friend constexpr bool operator==(status a, status b) noexcept { return a.code_ == b.code_; }
  friend constexpr bool operator!=(status a, status b) noexcept { return a.code_ != b.code_; }

 private:
  bool flag(uint32_t which) const noexcept { return (kloop_status_flags(code_) & which) != 0; }
  kloop_status code_ = KLOOP_OK;
};

/// A new T, or why there is none. True is success.
template <class T>
class [[nodiscard]] result {
 public:
  explicit result(T &&value) noexcept : value_(std::move(value)) {}
  explicit result(const kloop_error &error) noexcept : error_(error) {}
  explicit operator bool() const noexcept { return error_.code == KLOOP_OK; }
  T &operator*() & noexcept { return value_; }
  T &&operator*() && noexcept { return std::move(value_); }
  T *operator->() noexcept { return &value_; }
  kloop::v1::status status() const noexcept { return kloop::v1::status(error_.code); }
  /// A text for people, such as the property that is wrong.
  const char *message() const noexcept { return error_.msg; }
  const kloop_error &error() const noexcept { return error_; }

 private:
  T value_{};
  kloop_error error_{};
};

/// Kafka's null, as a key or value. Nothing else becomes null: an empty string_view is an empty value.
struct null_value_t {
  explicit constexpr null_value_t(int) noexcept {}
};
inline constexpr null_value_t null_value{0};

/// Bytes to send: anything that is a string_view, a pointer with a length, or null by its name.
class bytes {
 public:
  constexpr bytes(null_value_t) noexcept {}
  constexpr bytes(std::nullopt_t) noexcept {}
  bytes(std::nullptr_t) = delete; // say kloop::null_value
  bytes(const void *data, std::size_t size) noexcept
      // NULL is empty; NULL with a length stays what it is, and kloop refuses it.
      : slice_{data == nullptr && size == 0 ? static_cast<const void *>("") : data, size} {}
  template <class S, class = std::enable_if_t<std::is_convertible_v<const S &, std::string_view> &&
                                              !std::is_same_v<std::decay_t<S>, std::nullptr_t>>>
  bytes(const S &text) noexcept : bytes(view(text)) {}
  /// An optional without a value is null.
  template <class S, class = std::enable_if_t<std::is_convertible_v<const S &, std::string_view>>>
  bytes(const std::optional<S> &text) noexcept {
    if (text) *this = bytes(*text);
  }
  constexpr kloop_slice get() const noexcept { return slice_; }

 private:
  struct view {
    std::string_view text;
    view(std::string_view t) noexcept : text(t) {}
  };
  explicit bytes(view v) noexcept : bytes(v.text.data(), v.text.size()) {}
  kloop_slice slice_{nullptr, 0};
};

/// Received bytes; no value is Kafka's null.
inline std::optional<std::string_view> text_of(const kloop_slice &slice) noexcept {
  if (slice.data == nullptr) return std::nullopt;
  return std::string_view(static_cast<const char *>(slice.data), slice.len);
}

/// A header to send.
inline kloop_header make_header(std::string_view key, bytes value) noexcept {
  return kloop_header{bytes(key).get(), value.get()};
}

/// A record to send: `message(topic, "value").key("k").user(7)`. Borrows what it is given until
/// produce() returns; get() is for arrays of several.
class message {
 public:
  message(topic to, bytes content) noexcept {
    it_.topic = to;
    it_.value = content.get();
    it_.partition = KLOOP_PARTITION_ANY;
  }
  message &key(bytes content) noexcept { return it_.key = content.get(), *this; }
  message &partition(int32_t number) noexcept { return it_.partition = number, *this; }
  message &timestamp(int64_t ms) noexcept { return it_.timestamp_ms = ms, *this; }
  message &user(uint64_t token) noexcept { return it_.user = token, *this; }
  message &headers(const kloop_header *first, uint32_t count) noexcept {
    return it_.headers = first, it_.header_count = count, *this;
  }
  const kloop_msg &get() const noexcept { return it_; }

 private:
  kloop_msg it_{};
};

/// Memory that an event lent. Gives it back at its end.
class lease {
 public:
  constexpr lease() noexcept = default;
  lease(kloop_engine *engine, kloop_lease id) noexcept : engine_(engine), id_(id) {}
  lease(lease &&other) noexcept : engine_(other.engine_), id_(other.detach()) {}
  lease &operator=(lease &&other) noexcept {
    if (this != &other) {
      reset();
      engine_ = other.engine_;
      id_ = other.detach();
    }
    return *this;
  }
  ~lease() { reset(); }
  explicit operator bool() const noexcept { return id_ != 0; }
  kloop_lease get() const noexcept { return id_; }
  /// The number, which the caller now gives back.
  kloop_lease detach() noexcept { return std::exchange(id_, 0); }
  void reset() noexcept {
    if (id_ != 0) {
      kloop_lease id = detach();
      kloop_release(engine_, &id, 1);
    }
  }

 private:
  kloop_engine *engine_ = nullptr;
  kloop_lease id_ = 0;
};

/// What all handles have in common.
template <class T, void (*Free)(T *)>
class handle {
 public:
  constexpr handle() noexcept = default;
  /// Takes a handle that a C function made.
  explicit handle(T *made) noexcept : it_(made) {}
  handle(handle &&other) noexcept : it_(other.detach()) {}
  handle &operator=(handle &&other) noexcept {
    if (this != &other) reset(other.detach());
    return *this;
  }
  ~handle() { reset(); }
  explicit operator bool() const noexcept { return it_ != nullptr; }
  T *get() const noexcept { return it_; }
  /// The C handle, which the caller now frees.
  T *detach() noexcept { return std::exchange(it_, nullptr); }
  void reset(T *next = nullptr) noexcept {
    if (T *old = std::exchange(it_, next)) Free(old);
  }

 private:
  T *it_ = nullptr;
};

/// Properties by Kafka's names: `{{"linger.ms", "5"}, {"acks", "all"}}`. Borrowed for the call.
using properties = std::initializer_list<kloop_prop>;

/// kloop_engine_config, prepared.
struct engine_config : kloop_engine_config {
  engine_config() noexcept : kloop_engine_config{} {
    // Refused only by a library that does not know this header; making the engine says so.
    (void)!kloop_engine_config_init(this, sizeof(kloop_engine_config), KLOOP_ABI);
  }
  /// Log lines go to `sink(uint32_t level, std::string_view line)`, which must outlive the engine.
  /// What it throws ends the program: it must not pass through the library.
  template <class Sink>
  engine_config &log_to(Sink &sink, uint32_t level = 2) noexcept {
    log_level = level;
    log_ctx = const_cast<void *>(static_cast<const void *>(&sink));
    log = [](void *ctx, uint32_t at, const char *msg, std::size_t len) noexcept {
      (*static_cast<Sink *>(ctx))(at, std::string_view(msg, len));
    };
    return *this;
  }
};

/// kloop_broker_conf, prepared.
struct broker_config : kloop_broker_conf {
  broker_config() noexcept : kloop_broker_conf{} {
    (void)!kloop_broker_conf_init(this, sizeof(kloop_broker_conf), KLOOP_ABI);
  }
};

/// What the headers and records below share: an iterator that asks its range for one after the other.
template <class Range, class Item>
class input_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Item;
  using difference_type = std::ptrdiff_t;
  using pointer = const Item *;
  using reference = Item;
  input_iterator() noexcept = default;
  explicit input_iterator(Range *range) noexcept : range_(range) { settle(); }
  Item operator*() const noexcept { return range_->current(); }
  input_iterator &operator++() noexcept { return range_->advance(), settle(), *this; }
  void operator++(int) noexcept { ++*this; }
  friend bool operator==(const input_iterator &a, const input_iterator &b) noexcept {
    return a.range_ == b.range_;
  }
  friend bool operator!=(const input_iterator &a, const input_iterator &b) noexcept {
    return a.range_ != b.range_;
  }

 private:
  void settle() noexcept {
    if (range_ != nullptr && !range_->more()) range_ = nullptr;
  }
  Range *range_ = nullptr;
};

/// A received header.
class header {
 public:
  explicit header(const kloop_header &h) noexcept : it_(h) {}
  std::string_view key() const noexcept { return text_of(it_.key).value_or(std::string_view()); }
  std::optional<std::string_view> value() const noexcept { return text_of(it_.value); }

 private:
  kloop_header it_;
};

/// The headers of a record: `for (kloop::header h : record.headers())`. One walk.
class headers {
 public:
  using iterator = input_iterator<headers, header>;
  explicit headers(const kloop_record *record) noexcept : record_(record) {}
  headers(const headers &) = delete; // iterators point here
  iterator begin() noexcept { return iterator(this); }
  iterator end() const noexcept { return iterator(); }
  /// After the walk: whether it came to its end.
  kloop::v1::status status() const noexcept { return kloop::v1::status(count_); }

 private:
  friend iterator;
  bool more() noexcept {
    if (at_ < count_) return true;
    if (count_ < 0) return false;
    from_ += static_cast<uint32_t>(count_);
    at_ = 0;
    count_ = kloop_headers_read(record_, from_, buffer_, 8);
    return count_ > 0;
  }
  header current() const noexcept { return header(buffer_[at_]); }
  void advance() noexcept { at_++; }
  const kloop_record *record_;
  uint32_t from_ = 0;
  int32_t at_ = 0, count_ = 0;
  kloop_header buffer_[8];
};

/// A received record: a view, valid until the walk goes on; its bytes while the lease is held.
class record {
 public:
  explicit record(const kloop_record *r) noexcept : it_(r) {}
  std::optional<std::string_view> key() const noexcept { return text_of(it_->key); }
  /// No value is a tombstone.
  std::optional<std::string_view> value() const noexcept { return text_of(it_->value); }
  int64_t offset() const noexcept { return it_->offset; }
  int64_t timestamp_ms() const noexcept { return it_->timestamp_ms; }
  uint32_t header_count() const noexcept { return it_->header_count; }
  kloop::v1::headers headers() const noexcept { return kloop::v1::headers(it_); }
  const kloop_record &get() const noexcept { return *it_; }

 private:
  const kloop_record *it_;
};

/// The records of a KLOOP_EV_RECORDS event: `for (kloop::record r : batch)`. One walk, N decoded at a
/// time; status() says afterwards whether it came to its end.
template <std::size_t N = 32>
class basic_records {
 public:
  using iterator = input_iterator<basic_records, record>;
  basic_records(const kloop_engine *engine, const kloop_event &ev) noexcept
      : count_(kloop_records_open(engine, &ev, &cursor_)) {}
  basic_records(const basic_records &) = delete; // iterators point here
  iterator begin() noexcept { return iterator(this); }
  iterator end() const noexcept { return iterator(); }
  kloop::v1::status status() const noexcept { return kloop::v1::status(count_); }

 private:
  friend iterator;
  bool more() noexcept {
    if (at_ < count_) return true;
    if (count_ < 0) return false;
    at_ = 0;
    count_ = kloop_records_read(&cursor_, buffer_, static_cast<uint32_t>(N));
    return count_ > 0;
  }
  record current() const noexcept { return record(&buffer_[at_]); }
  void advance() noexcept { at_++; }
  kloop_cursor cursor_{};
  int32_t at_ = 0, count_;
  kloop_record buffer_[N];
};
using records = basic_records<>;

/// Polls once and calls `f(const kloop_event &, kloop::lease &&)` or `f(const kloop_event &)` for each
/// event. A lease that `f` does not move away is given back after the last event. If `f` throws, all
/// leases are given back and the events behind it are not seen by anyone. `f` must not free the engine
/// while another of these events holds a lease. Says how many events there
/// were, or a negative status. `cap`, from 1 to N, takes fewer at a time.
template <std::size_t N = 64, class F>
int32_t pump(kloop_engine *engine, F &&f, uint32_t cap = N, int64_t timeout_ns = 0) {
  struct Back {
    kloop_engine *engine;
    std::size_t count;
    kloop_lease ids[N];
    ~Back() {
      // Nothing is said to an engine that has nothing to get back: `f` may have ended it.
      bool any = false;
      for (std::size_t i = 0; i < count; i++) any |= ids[i] != 0;
      if (any) kloop_release(engine, ids, count);
    }
  };
  kloop_event events[N];
  const int32_t n = kloop_poll(engine, events, cap < N ? cap : static_cast<uint32_t>(N), timeout_ns);
  if (n <= 0) return n;
  Back back;
  back.engine = engine;
  back.count = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < back.count; i++) back.ids[i] = events[i].lease;
  for (std::size_t i = 0; i < back.count; i++) {
    const kloop_event &ev = events[i];
    if constexpr (std::is_invocable_v<F &, const kloop_event &, lease &&>) {
      lease held(engine, std::exchange(back.ids[i], 0));
      f(ev, std::move(held));
      back.ids[i] = held.detach(); // 0 if it was moved away
    } else {
      f(ev);
    }
  }
  return n;
}

/// Posts to an engine from any thread, also in a signal handler; may outlive the engine.
class waker : public handle<kloop_waker, kloop_waker_free> {
 public:
  using handle::handle;
  status post(uint64_t user) const noexcept { return status(kloop_waker_post(get(), user)); }
};

/// One event loop's worth of kloop.
class engine : public handle<kloop_engine, kloop_engine_free> {
 public:
  using handle::handle;
  static result<engine> make(const kloop_engine_config &config = engine_config()) noexcept {
    kloop_engine *made = nullptr;
    kloop_error error{};
    if (kloop_engine_new(&config, &made, &error) != KLOOP_OK) return result<engine>(error);
    return result<engine>(engine(made));
  }
  int fd() const noexcept { return kloop_engine_fd(get()); }
  int64_t timeout() const noexcept { return kloop_engine_timeout(get()); }
  /// Polls and waits for up to `timeout_ns` (-1: no limit); see kloop::pump.
  template <std::size_t N = 64, class F>
  int32_t poll(int64_t timeout_ns, F &&f) const {
    return kloop::v1::pump<N>(get(), std::forward<F>(f), N, timeout_ns);
  }
  result<waker> make_waker() const noexcept {
    kloop_waker *made = nullptr;
    if (auto failed = kloop_waker_new(get(), &made)) return result<waker>(last(failed));
    return result<waker>(waker(made));
  }
  kloop_error last_error() const noexcept {
    kloop_error error{};
    kloop_engine_error(get(), &error);
    return error;
  }

 private:
  kloop_error last(kloop_status code) const noexcept {
    kloop_error error = last_error();
    error.code = code;
    return error;
  }
};

/// One cluster.
class client : public handle<kloop_client, kloop_client_free> {
 public:
  using handle::handle;
  static result<client> make(const engine &e, properties props, uint64_t user = 0) noexcept {
    return make(e, props.begin(), props.size(), user);
  }
  static result<client> make(const engine &e, const kloop_prop *first, std::size_t count,
                             uint64_t user = 0) noexcept {
    return made_of<client>(kloop_client_new, e.get(), first, count, user);
  }
  result<kloop::v1::topic> topic(std::string_view name) const noexcept {
    kloop_topic number = KLOOP_NO_TOPIC;
    kloop_error error{};
    error.code = kloop_client_topic(get(), name.data(), name.size(), &number);
    if (error.code != KLOOP_OK) return result<kloop::v1::topic>(error);
    return result<kloop::v1::topic>(std::move(number));
  }
  status close(int64_t grace_ns) const noexcept { return status(kloop_client_close(get(), grace_ns)); }

 private:
  friend class producer;
  friend class consumer;
  template <class T, class New, class Parent>
  static result<T> made_of(New make, Parent *parent, const kloop_prop *first, std::size_t count,
                           uint64_t user) noexcept {
    kloop_conf conf{};
    kloop_error error{};
    (void)!kloop_conf_init(&conf, sizeof conf, KLOOP_ABI); // a refusal shows in the next call
    conf.user = user;
    conf.props = first;
    conf.prop_count = count;
    auto *out = T().get();
    if (make(parent, &conf, &out, &error) != KLOOP_OK) return result<T>(error);
    return result<T>(T(out));
  }
};

/// Sends records.
class producer : public handle<kloop_producer, kloop_producer_free> {
 public:
  using handle::handle;
  static result<producer> make(const client &c, properties props = {}, uint64_t user = 0) noexcept {
    return make(c, props.begin(), props.size(), user);
  }
  static result<producer> make(const client &c, const kloop_prop *first, std::size_t count,
                               uint64_t user = 0) noexcept {
    return client::made_of<producer>(kloop_producer_new, c.get(), first, count, user);
  }
  /// How many were taken, or a negative status; see kloop_produce.
  [[nodiscard]] int32_t produce(const kloop_msg *first, uint32_t count) const noexcept {
    return kloop_produce(get(), first, count);
  }
  /// 1, 0 for no room now, or a negative status.
  [[nodiscard]] int32_t produce(const message &one) const noexcept {
    return produce(&one.get(), 1);
  }
  status flush(uint64_t user = 0) const noexcept { return status(kloop_producer_flush(get(), user)); }
  status close(int64_t grace_ns) const noexcept { return status(kloop_producer_close(get(), grace_ns)); }
};

/// Fetches records.
class consumer : public handle<kloop_consumer, kloop_consumer_free> {
 public:
  using handle::handle;
  static result<consumer> make(const client &c, properties props = {}, uint64_t user = 0) noexcept {
    return make(c, props.begin(), props.size(), user);
  }
  static result<consumer> make(const client &c, const kloop_prop *first, std::size_t count,
                               uint64_t user = 0) noexcept {
    return client::made_of<consumer>(kloop_consumer_new, c.get(), first, count, user);
  }
  status assign(const kloop_tp *first, uint32_t count) const noexcept {
    return status(kloop_consumer_assign(get(), first, count));
  }
  status assign(std::initializer_list<kloop_tp> parts) const noexcept {
    return assign(parts.begin(), static_cast<uint32_t>(parts.size()));
  }
  status pause(const kloop_tp &part, bool paused = true) const noexcept {
    return status(kloop_consumer_pause(get(), &part, 1, paused));
  }
  int64_t position(topic of, int32_t partition) const noexcept {
    return kloop_consumer_position(get(), of, partition);
  }
  status close(int64_t grace_ns) const noexcept { return status(kloop_consumer_close(get(), grace_ns)); }
};

/// Where a broker listens.
struct address {
  char text[256] = ""; // HOST:PORT
  int32_t port = 0;    // or a negative status
};

/// The listening side.
class broker : public handle<kloop_broker, kloop_broker_free> {
 public:
  using handle::handle;
  static result<broker> make(const engine &e, const kloop_broker_conf &conf) noexcept {
    kloop_broker *made = nullptr;
    kloop_error error{};
    if (kloop_broker_new(e.get(), &conf, &made, &error) != KLOOP_OK) return result<broker>(error);
    return result<broker>(broker(made));
  }
  kloop::v1::address address() const noexcept {
    kloop::v1::address at;
    at.port = kloop_broker_address(get(), at.text, sizeof at.text);
    return at;
  }
  status adopt(int fd, kloop_id *conn = nullptr) const noexcept {
    return status(kloop_broker_adopt(get(), fd, conn));
  }
  status respond(kloop_id request, const kloop_slice *parts, uint32_t count, uint32_t flags = 0,
                 uint64_t user = 0) const noexcept {
    return status(kloop_broker_respond(get(), request, parts, count, flags, user));
  }
  status disconnect(kloop_id conn) const noexcept {
    return status(kloop_broker_disconnect(get(), conn));
  }
  status close(int64_t grace_ns) const noexcept { return status(kloop_broker_close(get(), grace_ns)); }
};

} // namespace v1
} // namespace kloop

#endif
