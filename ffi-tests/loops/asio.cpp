// asio, by the adapter.
#include <asio.hpp>
#include <chrono>
#include <cstring>
#include <kloop/adapters/asio.hpp>
#include <memory>

#include "check.h"
#include "loop.h"

namespace {
struct on_event {
  void operator()(const kloop_event &ev, kloop::lease &&) const { take_event(&ev); }
};
struct on_error {
  void operator()(kloop::status why) const { poll_failed(why.code()); }
};
std::unique_ptr<asio::io_context> io;
std::unique_ptr<kloop::asio_pump<on_event, on_error>> pump;
} // namespace

int loop_begin(const char *variant, kloop_engine *engine, uint32_t cap) {
  if (std::strcmp(variant, "asio") != 0) return 0;
  io = std::make_unique<asio::io_context>(1);
  pump = std::make_unique<kloop::asio_pump<on_event, on_error>>(io->get_executor(), engine, on_event{},
                                                                on_error{}, cap);
  CHECK(*pump);
  return 1;
}

void loop_turn(int ms) { io->run_one_for(std::chrono::milliseconds(ms)); }

void loop_end(void) {
  pump->stop();
  CHECK(!*pump);
  pump.reset();
  io->run(); // the wait is dropped, and nothing is left that keeps it going
  io.reset();
}

void loop_stop(void) { pump->stop(); }
int loop_watches(void) { return bool(*pump); }

// A handler that throws, and a pump that ends inside of its own handler.
void loop_extra(kloop_engine *engine, kloop_waker *waker) {
  asio::io_context context(1);
  int seen = 0;
  auto handler = [&](const kloop_event &) {
    if (++seen == 1) throw seen;
  };
  {
    kloop::asio_pump throws(context.get_executor(), engine, handler, kloop::ignore_status(), 1);
    for (uint64_t i = 0; i < 3; i++) CHECK_IS(kloop_waker_post(waker, i), KLOOP_OK);
    try {
      context.run();
      CHECK(!"a handler's exception passes through run()");
    } catch (int) {
    }
    while (seen < 3) context.run_one(); // it still watches
  }
  context.run();
  context.restart();

  struct ends;
  std::unique_ptr<kloop::asio_pump<ends>> itself;
  struct ends {
    std::unique_ptr<kloop::asio_pump<ends>> &pump;
    void operator()(const kloop_event &) const { pump.reset(); }
  };
  itself = std::make_unique<kloop::asio_pump<ends>>(context.get_executor(), engine, ends{itself});
  for (uint64_t i = 0; i < 3; i++) CHECK_IS(kloop_waker_post(waker, i), KLOOP_OK);
  context.run(); // ends, since the pump has ended
  CHECK(!itself);
  kloop_engine_free(engine);

  kloop::asio_pump none(context.get_executor(), nullptr, [](const kloop_event &) {});
  CHECK(!none);
}
