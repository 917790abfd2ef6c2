// The header compiles as C++17, and an engine can be made and freed from it.
#include <cstdio>
#include <type_traits>

#include "kloop.h"

static_assert(sizeof(kloop_event) == 64, "an event is 64 bytes");
static_assert(sizeof(kloop_error) == 256, "an error is 256 bytes");
static_assert(noexcept(kloop_version()), "no C function throws");

int main() {
  kloop_engine *engine = nullptr;
  if (kloop_version() != KLOOP_VERSION_NUM) return 1;
  if (kloop_engine_new(nullptr, &engine, nullptr) != KLOOP_OK) return 1;
  kloop_engine_free(engine);
  return 0;
}
