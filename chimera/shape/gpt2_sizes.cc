// What a block saves, in units of X, the bytes of hidden states, without dropout:
//
//   its input 1, norm 1, query, key and value 3, attention's result 1, hidden 1, norm 1,
//   widened 4, gelu 4                                                                      = 16 X
//
// plus the norms' means and deviations and the fused attention's log-sum-exp. With dropout three
// masks, and in attention the softmax, its mask and their product for each pair of tokens:
// O(sequence^2).
//
// Peaks come from a gradient that lives beside what it is made from: 4 X twice in the MLP, the
// logits twice or more in the loss, the gradient of the whole token table in the embedding. The
// order of the nodes is autograd's: latest operation first, parameters' gradients added as soon as
// they are there. The few bytes of scalars are left out.
//
// Covered by sizes_test.cc.
#include "chimera/shape/gpt2_sizes.h"

#include <algorithm>

namespace chimera {
namespace {

// The tile of scores that each thread of the fused attention works on.
struct Tile {
  std::int64_t queries, keys;
};

Tile fused_tile(std::int64_t sequence) {
  const std::int64_t queries = sequence >= 768 ? 256 : sequence >= 192 ? 64 : 32;
  return {std::min(queries, sequence), std::min<std::int64_t>(512, sequence)};
}

}  // namespace

Gpt2Sizes::Gpt2Sizes(const ModelSpec& spec, std::int64_t sequences, int threads)
    : head_layer_(spec.head_layer()),
      vocabulary_(spec.vocabulary),
      positions_(spec.position_count()),
      hidden_(spec.hidden),
      heads_(spec.heads),
      sequence_(spec.sequence),
      threads_(threads),
      rows_(sequences * spec.sequence),
      element_(static_cast<std::int64_t>(info(spec.dtype).bytes)),
      wide_(static_cast<std::int64_t>(info(spec.parameter_dtype()).bytes)),
      x_(rows_ * hidden_ * element_),
      stats_(2 * rows_ * element_),
      logits_(rows_ * vocabulary_),
      scores_(sequences * heads_ * sequence_ * sequence_),
      drops_(spec.dropout > 0),
      copies_(sequences > 1 && heads_ > 1),
      copies_mixed_(heads_ > 1 && sequence_ > 1) {}

// ---- forward

void Gpt2Sizes::forward(int layer, bool graph, Ledger& ledger) const {
  if (rows_ == 0) return;
  if (layer == 0) return embedding_forward(graph, ledger);
  if (layer == head_layer_) return head_forward(graph, ledger);
  block_forward(graph, ledger);
}

// Input and output apart: the mask as bytes, the mask in the input's type, the product.
void Gpt2Sizes::dropout_forward(std::int64_t elements, std::int64_t width, bool graph,
                                Ledger& ledger) const {
  ledger.take(elements + 2 * elements * width);
  ledger.give(elements + (graph ? 0 : elements * width));
}

void Gpt2Sizes::norm_forward(bool graph, Ledger& ledger) const {
  ledger.take(x_ + stats_);
  if (!graph) ledger.give(stats_);
}

void Gpt2Sizes::embedding_forward(bool graph, Ledger& ledger) const {
  ledger.take(2 * x_);  // tokens; with positions
  ledger.give(x_);
  if (!drops_) return;
  dropout_forward(rows_ * hidden_, element_, graph, ledger);
  ledger.give(x_);
}

void Gpt2Sizes::block_forward(bool graph, Ledger& ledger) const {
  norm_forward(graph, ledger);
  attention_forward(graph, ledger);
  ledger.take(x_);  // hidden
  ledger.give(x_);  // attention's output
  if (!graph) ledger.give(x_);
  norm_forward(graph, ledger);
  ledger.take(4 * x_ + 4 * x_ + x_);  // widened, gelu, narrowed
  if (!graph) ledger.give(4 * x_ + 4 * x_ + x_);
  if (drops_) dropout_forward(rows_ * hidden_, element_, graph, ledger);
  ledger.take(x_);
  ledger.give(drops_ ? 2 * x_ : x_);
  if (!graph) ledger.give(x_);  // hidden
}

// From the norm's output, which stays, to the projected result of attention.
void Gpt2Sizes::attention_forward(bool graph, Ledger& ledger) const {
  ledger.take(3 * x_);
  if (drops_) {
    explicit_forward(graph, ledger);
  } else {
    fused_forward(graph, ledger);
  }
  const bool copied = drops_ && copies_mixed_;
  if (copied) ledger.take(x_);
  ledger.take(x_);
  if (drops_) {
    dropout_forward(rows_ * hidden_, element_, graph, ledger);
    ledger.give(x_);
  }
  if (copied) ledger.give(x_);
  if (!graph) {
    ledger.give(x_ + 3 * x_);
  } else if (drops_ && copies_) {
    ledger.give(3 * x_);
  }
}

void Gpt2Sizes::fused_forward(bool graph, Ledger& ledger) const {
  const std::int64_t log_sums = rows_ * heads_ * wide_;
  const auto [queries, keys] = fused_tile(sequence_);
  std::int64_t tiles = threads_ * queries * (keys + 2 + hidden_ / heads_) * wide_;
  if (element_ < wide_) tiles += threads_ * queries * keys * element_;
  ledger.take(x_ + log_sums + tiles);
  ledger.give(tiles + (graph ? 0 : log_sums));
}

void Gpt2Sizes::explicit_forward(bool graph, Ledger& ledger) const {
  const std::int64_t narrow = scores_ * element_, wide = scores_ * wide_;
  const std::int64_t casts = element_ < wide_ ? 1 : 0;
  const std::int64_t copy = copies_ ? x_ : 0;
  const std::int64_t future = sequence_ * sequence_;
  ledger.take(future + 2 * copy + narrow);  // the product
  if (!graph) ledger.give(2 * copy);
  turn(narrow, narrow, ledger);               // scaled: `scores`, to the end
  ledger.take(narrow + casts * wide + wide);  // masked, in the wide type, softmax
  ledger.give(narrow + casts * wide);
  dropout_forward(scores_, wide_, graph, ledger);
  ledger.take(casts * narrow + copy + x_);                 // in the narrow type again; the product
  ledger.give(narrow + casts * wide);                      // scores; what was dropped and cast
  if (!graph) ledger.give(future + copy + wide + narrow);  // softmax, its part that is kept
}

void Gpt2Sizes::head_forward(bool graph, Ledger& ledger) const {
  norm_forward(graph, ledger);
  ledger.take(logits_ * element_);
  if (!graph) ledger.give(x_);
}

void Gpt2Sizes::loss_forward(bool graph, Ledger& ledger) const {
  const std::int64_t cast = element_ < wide_ ? logits_ * wide_ : 0;
  ledger.take(cast + logits_ * wide_ + wide_);  // the logarithm of the softmax; the targets' count
  ledger.give(cast + logits_ * element_);
  if (!graph) ledger.give(logits_ * wide_ + wide_);
}

// ---- backward

void Gpt2Sizes::backward(int layer, const Around& around, Ledger& ledger) const {
  if (rows_ == 0) return;
  if (layer == 0) return embedding_backward(around, ledger);
  if (layer == head_layer_) return head_backward(around, ledger);
  block_backward(around, ledger);
}

// A parameter's gradient in the computation's type is there: adds it up and frees it.
void Gpt2Sizes::parameter_backward(std::int64_t elements, Ledger& ledger) const {
  if (element_ < wide_) {
    turn(elements * element_, elements * wide_, ledger);
    ledger.give(elements * wide_);
  } else {
    ledger.give(elements * element_);
  }
}

void Gpt2Sizes::linear_backward(std::int64_t in, std::int64_t out, std::int64_t freed,
                                Ledger& ledger) const {
  ledger.take((rows_ * in + in * out + out) * element_);
  ledger.give(freed);
  parameter_backward(out, ledger);
  parameter_backward(in * out, ledger);
}

void Gpt2Sizes::norm_backward(bool input_stays, Ledger& ledger) const {
  const std::int64_t sums = threads_ * 2 * hidden_ * element_;
  ledger.take(x_ + 2 * hidden_ * element_ + sums);
  ledger.give(sums + x_ + stats_ + (input_stays ? 0 : x_));
  parameter_backward(hidden_, ledger);
  parameter_backward(hidden_, ledger);
}

// The gradient of the output stays, for what else was made of it.
void Gpt2Sizes::dropout_backward(Ledger& ledger) const { turn(x_, x_, ledger); }

void Gpt2Sizes::block_backward(const Around& around, Ledger& ledger) const {
  if (drops_) dropout_backward(ledger);
  linear_backward(4 * hidden_, hidden_, (drops_ ? x_ : 0) + 4 * x_, ledger);
  ledger.take(4 * x_);
  ledger.give(4 * x_ + 4 * x_);
  linear_backward(hidden_, 4 * hidden_, 4 * x_ + x_, ledger);
  norm_backward(false, ledger);
  // The two gradients of hidden are added in place, if nobody else holds the first.
  if (around.output_gradient_stays) ledger.take(x_);
  ledger.give(x_);
  attention_backward(ledger);
  norm_backward(around.input_stays, ledger);
  ledger.give(x_);  // added in place
}

// From the gradient of hidden, which stays, to that of the norm's output.
void Gpt2Sizes::attention_backward(Ledger& ledger) const {
  if (drops_) {
    dropout_backward(ledger);
    linear_backward(hidden_, hidden_, 2 * x_, ledger);
    explicit_backward(ledger);
  } else {
    linear_backward(hidden_, hidden_, 0, ledger);
    fused_backward(ledger);
  }
  // Query, key and value were selected from one tensor: each gradient is spread to that size.
  for (int part = 0; part < 3; ++part) {
    turn(x_, 3 * x_, ledger);
    if (part > 0) ledger.give(3 * x_);
  }
  turn(3 * x_, 3 * x_, ledger);  // in the order of the linear layer's output
  linear_backward(hidden_, 3 * hidden_, 3 * x_ + x_, ledger);
}

void Gpt2Sizes::fused_backward(Ledger& ledger) const {
  const auto [queries, keys] = fused_tile(sequence_);
  const std::int64_t width = wide_ + (element_ < wide_ ? element_ : 0);
  const std::int64_t tiles = threads_ * 2 * queries * keys * width + queries * wide_;
  ledger.take(3 * x_ + tiles);
  ledger.give(tiles + x_ + 3 * x_ + rows_ * heads_ * wide_ + x_);
}

void Gpt2Sizes::explicit_backward(Ledger& ledger) const {
  const std::int64_t narrow = scores_ * element_, wide = scores_ * wide_;
  const bool casts = element_ < wide_;
  const std::int64_t copy = copies_ ? x_ : 0;
  turn(copy, copy, ledger);
  ledger.take(x_ + narrow);  // of the value and of the chances
  ledger.give(x_ + copy + narrow);
  if (casts) turn(narrow, wide, ledger);
  turn(2 * wide, wide, ledger);  // dropout and its mask
  turn(2 * wide, wide, ledger);  // softmax and its result
  if (casts) turn(wide, narrow, ledger);
  turn(narrow + sequence_ * sequence_, narrow, ledger);  // the mask of the future
  turn(narrow, narrow, ledger);                          // the scale
  ledger.take(2 * x_);                                   // of query and key
  ledger.give(narrow + (copies_ ? 2 * x_ : 3 * x_));
}

void Gpt2Sizes::loss_backward(Ledger& ledger) const {
  const std::int64_t wide = logits_ * wide_;
  ledger.take(wide);
  ledger.give(tokens() + wide_);
  turn(2 * wide, wide, ledger);  // the logarithm of the softmax, and its result
  if (element_ < wide_) turn(wide, logits_ * element_, ledger);
}

// Where the token table is shared its gradient waits for the embedding's: the wide one of bf16.
void Gpt2Sizes::head_backward(const Around& around, Ledger& ledger) const {
  const std::int64_t table = vocabulary_ * hidden_;
  ledger.take(table * element_ + x_);
  ledger.give(logits_ * element_ + x_);
  if (element_ == wide_ && !around.table_shared) ledger.give(table * element_);
  norm_backward(around.input_stays, ledger);
  if (element_ == wide_) return;
  turn(table * element_, table * wide_, ledger);
  if (!around.table_shared) ledger.give(table * wide_);
}

void Gpt2Sizes::embedding_backward(const Around& around, Ledger& ledger) const {
  const std::int64_t table = vocabulary_ * hidden_;
  const std::int64_t summed = sequence_ * hidden_ * element_;
  if (drops_) turn(2 * x_, x_, ledger);
  ledger.take(summed + table * element_);
  ledger.give(x_ + tokens());
  if (around.table_shared) {
    if (element_ < wide_) turn(table * element_, table * wide_, ledger);
    ledger.take(table * wide_);
    ledger.give(3 * table * wide_);
  } else {
    parameter_backward(table, ledger);
  }
  turn(summed, positions_ * hidden_ * element_, ledger);
  parameter_backward(positions_ * hidden_, ledger);
}

}  // namespace chimera
