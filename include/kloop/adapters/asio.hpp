// kloop in an asio io_context: waits once for the engine's descriptor to be readable, pumps, waits
// again. Standalone asio (1.18 and later); with KLOOP_BOOST_ASIO defined, Boost.Asio (1.74 and later).
// Header only.
//
//   kloop::asio_pump pump(io.get_executor(), engine.get(),
//       [&](const kloop_event &ev, kloop::lease &&lease) { ... },      // or without the lease
//       [&](kloop::status why) { ... });                               // optional
//   io.run();
//   pump.stop();                 // no event after this, but for those of the running handler
//
// Ownership: asio closes the descriptors that it is given, so it is given a dup; the engine stays the
// caller's. Stop (or destroy) the pump before you free the engine, and free that not from within a
// handler. The pump may be destroyed anywhere, also in its own handler; the handlers live on until
// asio has dropped the wait. While it runs it keeps io_context::run() going.
//
// The engine must have its timer: not with KLOOP_ENGINE_NO_TIMERFD, whose deadlines nobody would see.
//
// Thread: the engine's. An io_context that several threads run needs a strand as the executor and an
// engine with KLOOP_ENGINE_ANY_THREAD.
//
// Errors: a negative status of kloop_poll, or KLOOP_E_IO for an error of asio's, stops the pump and
// goes to the second handler. What the first handler throws leaves io_context::run(), as usual there;
// all leases are given back, the wait is set up again, and the events behind it in the array are lost.
//
// asio watches edge-triggered, but setting up a wait looks again, so work that is left over is seen.
// It has no hook before it sleeps: do not combine it with KLOOP_ENGINE_NO_AUTOWAKE.
#ifndef KLOOP_ADAPTERS_ASIO_HPP
#define KLOOP_ADAPTERS_ASIO_HPP

#include <fcntl.h>
#include <kloop/kloop.hpp>
#include <memory>
#include <unistd.h>
#include <utility>

#ifdef KLOOP_BOOST_ASIO
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#else
#include <asio/any_io_executor.hpp>
#include <asio/posix/stream_descriptor.hpp>
#endif

namespace kloop {
inline namespace v1 {

#ifdef KLOOP_BOOST_ASIO
namespace asio_library = boost::asio;
using asio_error = boost::system::error_code;
#else
namespace asio_library = ::asio;
using asio_error = std::error_code;
#endif

struct ignore_status {
  void operator()(status) const noexcept {}
};

template <class Handler, class Failed = ignore_status>
class asio_pump {
 public:
  /// Begins to wait. `cap`, from 1 to 64, is how many events are taken at a time.
  asio_pump(const asio_library::any_io_executor &where, kloop_engine *engine, Handler handler,
            Failed failed = Failed(), uint32_t cap = 64)
      : it_(std::make_shared<state>(where, engine, std::move(handler), std::move(failed), cap)) {
    const int copy = ::fcntl(kloop_engine_fd(engine), F_DUPFD_CLOEXEC, 0);
    asio_error error;
    if (copy >= 0) it_->descriptor.assign(copy, error);
    if (copy >= 0 && error) ::close(copy);
    it_->running = copy >= 0 && !error;
    if (it_->running) state::arm(it_);
  }
  asio_pump(const asio_pump &) = delete;
  asio_pump &operator=(const asio_pump &) = delete;
  ~asio_pump() { stop(); }

  /// Whether it waits: false when the descriptor could not be had, after an error and after stop().
  explicit operator bool() const noexcept { return it_->running; }
  void stop() noexcept { it_->stop(); }

 private:
  struct state {
    state(const asio_library::any_io_executor &where, kloop_engine *e, Handler &&h, Failed &&f,
          uint32_t c)
        : descriptor(where), engine(e), handler(std::move(h)), failed(std::move(f)), cap(c) {}

    static void arm(const std::shared_ptr<state> &it) {
      it->descriptor.async_wait(asio_library::posix::stream_descriptor::wait_read,
                                [it](const asio_error &error) { readable(it, error); });
    }

    static void readable(const std::shared_ptr<state> &it, const asio_error &error) {
      if (!it->running) return;
      if (error) return it->fail(status(KLOOP_E_IO));
      // Armed at the end of the scope, also when the handler throws.
      struct again {
        const std::shared_ptr<state> &it;
        ~again() {
          if (it->running) arm(it);
        }
      } guard{it};
      const int32_t n = pump<64>(it->engine, it->handler, it->cap);
      if (n < 0) it->fail(status(n));
    }

    void fail(status why) {
      stop();
      failed(why);
    }

    void stop() noexcept {
      if (!running) return;
      running = false;
      asio_error ignored;
      descriptor.close(ignored);
    }

    asio_library::posix::stream_descriptor descriptor;
    kloop_engine *engine;
    Handler handler;
    Failed failed;
    uint32_t cap;
    bool running = false;
  };
  std::shared_ptr<state> it_;
};

} // namespace v1
} // namespace kloop

#endif
