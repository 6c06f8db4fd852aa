// cumulative::gated_scan on the CPU: h[t] = gate[t] * h[t - 1] + value[t], in one pass over memory.
// Only torch's stable headers are used: they compile in seconds, and the library fits later versions.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

bool same_sizes(const Tensor& one, const Tensor& other) {
  const auto a = one.sizes(), b = other.sizes();
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void check(const Tensor& gate, const Tensor& value) {
  STD_TORCH_CHECK(
      gate.scalar_type() == ScalarType::Float && value.scalar_type() == ScalarType::Float,
      "gated_scan: the kernel takes float32");
  STD_TORCH_CHECK(
      value.dim() == 3 && same_sizes(gate, value),
      "gated_scan: gate and value must have one shape [batch, time, channels]");
}

// gate, value: float32 [batch, time, channels]; start: float32 [batch, channels], zeros if absent.
// Gives every state [batch, time, channels] and the last one [batch, channels].
std::tuple<Tensor, Tensor> gated_scan(Tensor gate, Tensor value, std::optional<Tensor> start) {
  check(gate, value);
  const int64_t batch = value.size(0), time = value.size(1), channels = value.size(2);
  Tensor last = torch::stable::new_zeros(value, {batch, channels});
  if (start.has_value()) {
    STD_TORCH_CHECK(
        start->scalar_type() == ScalarType::Float && same_sizes(*start, last),
        "gated_scan: start must be float32 [batch, channels]");
    torch::stable::copy_(last, *start);
  }
  Tensor states = torch::stable::new_empty(value, {batch, time, channels});
  const Tensor gates = torch::stable::contiguous(gate), values = torch::stable::contiguous(value);
  const float* g = gates.const_data_ptr<float>();
  const float* v = values.const_data_ptr<float>();
  float* h = states.mutable_data_ptr<float>();
  float* end = last.mutable_data_ptr<float>();
  torch::stable::parallel_for(0, batch, 1, [=](int64_t first, int64_t stop) {
    for (int64_t b = first; b < stop; ++b) {
      const float* before = end + b * channels;
      for (int64_t t = 0; t < time; ++t) {
        const int64_t at = (b * time + t) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          h[at + c] = g[at + c] * before[c] + v[at + c];
        }
        before = h + at;
      }
      if (time > 0) {
        std::copy(before, before + channels, end + b * channels);
      }
    }
  });
  return {states, last};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(cumulative, CPU, m) {
  m.impl("gated_scan", TORCH_BOX(&gated_scan));
}
